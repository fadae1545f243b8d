"""The command `nmtlib explore`."""

from __future__ import annotations

from argparse import Namespace, _SubParsersAction

from nmtcourse.outputs import PAGE
from nmtlib.cli import ABOUT_RUN, add_command


def add_explore(commands: _SubParsersAction) -> None:
    """Add the command and its options."""
    about = "write the model as an HTML file to play with"
    option = add_command(commands, "explore", command_explore, about).add_argument
    option("folder", nargs="?", metavar="RUN", help=ABOUT_RUN)
    page = "the file (default: explorer.html); an unchanged older page is replaced"
    option("--out", type=PAGE, metavar="FILE", default="explorer.html", help=page)
    largest = "how large the file may be (default: 6)"
    option("--megabytes", type=float, metavar="N", default=6.0, help=largest)


def command_explore(options: Namespace) -> None:
    """Write the page and say where it is."""
    from nmtcourse.explorer.page import explore
    from nmtlib.run import named_runs

    if options.folder is None:
        raise ValueError(
            "explore needs a run folder or the name of a model, as in: nmtlib explore "
            f"{next(iter(named_runs()))}; there are {', '.join(named_runs())}"
        )
    page = explore(options.folder, options.out, megabytes=options.megabytes)
    size = page.stat().st_size / 1e6
    print(f"the explorer is in {page} ({size:.1f} MB); open it in a browser")
