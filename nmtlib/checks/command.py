"""`nmtlib check`: judge a file from the command line."""

from __future__ import annotations

import contextlib
import io
from argparse import Namespace
from dataclasses import replace

from nmtlib.checks.parts import ours
from nmtlib.checks.runner import run_checks
from nmtlib.checks.student import load_adapter
from nmtlib.files import require_ours, write_atomically


def command_check(options: Namespace) -> int:
    """Run the behaviour checks, show and write what they found; 1 where they found something."""
    if options.lift and not options.implementation:
        raise ValueError("--lift is for a FILE with a model in it; nmtlib's own parts need none")
    if options.json:
        require_ours(options.json, "--json", "checks")
    if options.html:
        require_ours(options.html, "--html")
    if options.json and options.html and options.json.resolve() == options.html.resolve():
        raise ValueError(f"--json and --html are both {options.html}; give each a file of its own")
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
