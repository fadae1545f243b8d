"""`python -m nmtcheck` is the command `nmtcheck`."""

from nmtcheck.command import main

if __name__ == "__main__":
    raise SystemExit(main())
