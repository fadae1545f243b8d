"""`nmtcheck`, and `nmtlib check`: run the checks from the command line."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nmtlib.cli import EXPECTED_ERRORS, add_command, caught, complain
from nmtlib.files import OutFile, has_keys

if TYPE_CHECKING:
    from nmtcheck import Report

ABOUT = "run the behaviour checks on your Transformer"
STATUS = "The exit status is 0 if nothing was found, 1 if something was, 2 if nothing could run."
LOADING = 60  # seconds of processor time for what a file does when it is imported


def main(arguments: Sequence[str] | None = None) -> int:
    """`nmtcheck FILE:FACTORY`, or `nmtcheck compare A B`; returns the exit status."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    command = command_compare if arguments[:1] == ["compare"] else command_alone
    return caught(command, arguments, status=2)


def command_alone(arguments: Sequence[str]) -> int:
    """`nmtcheck FILE:FACTORY`; returns the exit status."""
    parser = ArgumentParser(prog="nmtcheck", description=f"{ABOUT}.  {STATUS}")
    add_options(parser)
    try:
        options = parser.parse_args(arguments)
    except OSError as error:  # of a file that may not be written over
        complain(str(error), error)
        return 2
    return command_check(options)


def command_compare(words: Sequence[str]) -> int:
    """Carry the weights of A into B; 0 the same, 1 something differs, 2 nothing could be read."""
    about = "carry the weights of one model into another, and name the first tensor that differs"
    parser = ArgumentParser(prog="nmtcheck compare", description=about)
    for name in ("A", "B"):
        parser.add_argument(name, help="FILE:FACTORY of a model or an Adapter, or nmtlib")
    options = parser.parse_args(words[1:])
    from nmtcheck import load_adapter, ours
    from nmtcheck.compare import compare

    try:
        sides = [ours() if x == "nmtlib" else load_adapter(x) for x in (options.A, options.B)]
        found = compare(*sides)
    except EXPECTED_ERRORS as error:
        complain(str(error) or "out of memory", error)
        return 2
    print(found)
    return int(not found.same)


def add_check(commands: _SubParsersAction) -> None:
    """Add the command and its options to those of `nmtlib`."""
    add_options(add_command(commands, "check", command_check, ABOUT))


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    option = parser.add_argument
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
    report = OutFile("report of these checks", is_ours=has_keys("taken_to_be", "results"))
    option("--json", type=report, metavar="FILE", help="write the report as data as well")


def command_check(options: Namespace) -> int:
    """Run the behaviour checks and report; 0 sound, 1 findings, 2 nothing could run."""
    try:
        return checked(options)
    except EXPECTED_ERRORS as error:
        complain(str(error) or "out of memory", error)
        return 2


def checked(options: Namespace) -> int:
    """The same; raises ValueError or OSError where nothing could run."""
    from nmtcheck import ours, run_checks
    from nmtcheck.report.runner import choose
    from nmtlib.files import write_output

    if options.lift and not options.implementation:
        raise ValueError("--lift needs a FILE that contains a model")
    choose(options.only)
    if options.implementation:
        text, data, missing, status = apart(options)
    else:
        given = replace(ours(), **facts(options))
        text, data, missing, status = told(run_checks(given, only=options.only, seed=options.seed))
    if options.json:
        write_output(options.json, data)
    print(text)
    if missing:
        print(f"nmtcheck: {missing}", file=sys.stderr)
    return status


def told(report: Report) -> tuple[str, str, str, int]:
    """A report as a text and in JSON, what is missing, and the exit status."""
    return str(report), report.to_json(), report.missing, report.status


def apart(options: Namespace) -> tuple[str, str, str, int]:
    """What is told of a file, all of whose code runs in a process of its own.

    Raises ValueError where the file makes no adapter, where it does not come to an end within
    `LOADING` seconds of computing, and where it ends the process.
    """
    from nmtcheck import load_adapter, run_checks
    from nmtcheck.report.apart import worker

    loaded: list[Any] = []

    def work(printed: str | None) -> Any:
        try:
            if printed is None:
                given = {"lifted": options.lift, **facts(options)}
                loaded.append(load_adapter(options.implementation, **given))
                return None
            report = run_checks(loaded[0], only=options.only, seed=options.seed)
            return told(replace(report, printed=printed))
        except Exception as error:  # it is somebody else's code
            return str(error) if isinstance(error, EXPECTED_ERRORS) else repr(error)

    process, where = worker(work), options.implementation
    try:
        answer = process.ask(None, LOADING)
        if answer.ended in ("limit", "asleep"):
            used = f"within {LOADING} s of computing" if answer.ended == "limit" else "and waits"
            raise ValueError(f"{where} made no model {used}; make it small, or --lift it")
        if not answer.ended and answer.value is None:
            answer = process.ask(answer.printed, None)
    finally:
        process.close()
    if answer.ended:
        ended = f"the code of {where} ended the process ({answer.ended})"
        raise ValueError(f"{ended}; take out what exits or crashes, or try --lift")
    if isinstance(answer.value, str):
        raise ValueError(answer.value)
    return answer.value


def facts(options: Namespace) -> dict[str, int | bool]:
    """What the options say of an implementation."""
    ids = {name: getattr(options, name) for name in ("pad", "bos", "eos")}
    known: dict[str, int | bool] = {name: i for name, i in ids.items() if i is not None}
    return known | ({"source_bos": True} if options.source_bos else {})
