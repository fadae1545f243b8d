"""`nmtlib check`: run the checks from the command line."""

from __future__ import annotations

import contextlib
import io
from argparse import Namespace, _SubParsersAction
from dataclasses import replace
from pathlib import Path

from nmtlib.cli import add_command


def add_check(commands: _SubParsersAction) -> None:
    """Add the command and its options."""
    about = "run the behaviour checks on your Transformer"
    option = add_command(commands, "check", f"{__name__}:command_check", about).add_argument
    factory = "a .py or .ipynb file, and its function or class that makes a model or an Adapter"
    option("implementation", nargs="?", metavar="FILE:FACTORY", help=f"{factory} (default: nmtlib)")
    option("--only", action="append", metavar="NAME", help="one check, or a subject such as masks")
    option("--seed", type=int, default=0, help="seed of all random numbers (default: 0)")
    lift = "lift the function out of the file without running the rest: downloads, training"
    option("--lift", action="store_true", help=lift)
    for name in ("pad", "bos", "eos"):
        said = f"the id of {name.upper()} (default: from the adapter, or found by the checks)"
        option(f"--{name}", type=int, metavar="ID", help=said)
    option("--source-bos", action="store_true", help="sources begin with BOS as well")
    option("--json", type=Path, metavar="FILE", help="write the report as data as well")
    option("--html", type=Path, metavar="FILE", help="write the report as a page as well")
    option("--badge", action="store_true", help="print a badge for a README, in Markdown")


def command_check(options: Namespace) -> int:
    """Run the behaviour checks and report; 1 if they found something."""
    from nmtcheck import load_adapter, ours, run_checks
    from nmtlib.files import require_ours, write_atomically

    if options.lift and not options.implementation:
        raise ValueError("--lift needs a FILE that contains a model")
    if options.json:
        require_ours(options.json, "--json", "checks")
    if options.html:
        require_ours(options.html, "--html")
    if options.json and options.html and options.json.resolve() == options.html.resolve():
        raise ValueError(f"--json and --html are both {options.html}; give different files")
    said = io.StringIO()
    if options.implementation:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            adapter = load_adapter(options.implementation, lifted=options.lift, **facts(options))
    else:
        adapter = replace(ours(), **facts(options))
    report = run_checks(adapter, only=options.only, seed=options.seed)
    report = replace(report, printed=said.getvalue().strip())
    for path, text in ((options.json, report.to_json), (options.html, report.to_html)):
        if path:
            write_atomically(path, text())
    print(report)
    if options.badge:
        print(f"\n{report.badge}")
    return 0 if report.ok else 1


def facts(options: Namespace) -> dict[str, int | bool]:
    """What the options say of an implementation."""
    ids = {name: getattr(options, name) for name in ("pad", "bos", "eos")}
    known: dict[str, int | bool] = {name: i for name, i in ids.items() if i is not None}
    return known | ({"source_bos": True} if options.source_bos else {})
