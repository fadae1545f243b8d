"""`python -m nmtcourse` is the command `nmtlib`."""

from nmtcourse.main import main

if __name__ == "__main__":
    raise SystemExit(main())
