"""`python -m nmtlib` is the command `nmtlib`."""

from nmtlib.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
