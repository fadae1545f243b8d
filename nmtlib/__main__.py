"""`python -m nmtlib` is the command `nmtlib` with the commands of the core alone."""

from nmtlib.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
