"""The command line: what each command of `nmtlib.arguments` does.

Each command imports what it needs when it runs, so that --help is quick.
"""

from __future__ import annotations

import os
import sys
import traceback
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path

from nmtlib.arguments import build_parser

# For input that a command cannot use; whatever else is raised is a mistake of ours.
EXPECTED_ERRORS = (ValueError, OSError, FloatingPointError, ModuleNotFoundError, MemoryError)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0 good, 1 an error explained, 130 interrupted.

    With NMTLIB_DEBUG=1 in the environment an error shows where it was raised.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")  # on Windows, cp1252 otherwise
    parser = build_parser()
    options, unknown = parser.parse_known_args(arguments)
    translating = options.command == "translate"
    if unknown and translating:
        unknown = more_sentences(options, unknown)
    if unknown:
        advice = "; a sentence that begins with a dash goes after a --" if translating else ""
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{advice}")
    try:
        status = find_command(options.command)(options) or 0
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # who reads our output has seen enough (… | head)
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # or exit would fail once more
        return 1
    except EXPECTED_ERRORS as error:
        return complain(str(error) or "out of memory", error)
    except RuntimeError as error:
        if "allocate" not in str(error) and "out of memory" not in str(error):
            raise
        return complain(f"out of memory: {str(error).splitlines()[0]}", error)
    except KeyboardInterrupt:
        print("nmtlib: interrupted; what was saved is complete", file=sys.stderr)
        return 130


def more_sentences(options: Namespace, left_over: list[str]) -> list[str]:
    """Take the sentences that stand behind an option, where argparse leaves them over.

    Returns what is left over still: all, where an unknown option is among it.
    """
    end = left_over.index("--") if "--" in left_over else len(left_over)
    if any(text.startswith("-") and " " not in text for text in left_over[:end]):
        return left_over
    options.sentences += left_over[:end] + left_over[end + 1 :]
    return []


def complain(message: str, error: BaseException) -> int:
    """Say what is wrong, in a line, or with NMTLIB_DEBUG=1 where it was raised; the status is 1."""
    if os.environ.get("NMTLIB_DEBUG", "0") not in ("", "0"):
        traceback.print_exception(error)
    line = " ".join(message.split())
    if len(line) > 1_500:  # somebody's whole file, quoted
        line = f"{line[:1_000]} … {line[-400:]}"
    print(f"nmtlib: {line}", file=sys.stderr)
    return 1


def command_train(options: Namespace) -> None:
    """Train a preset or resume a run, and evaluate it where that is asked for."""
    from nmtlib.examples import load_corpus
    from nmtlib.experiment import train
    from nmtlib.presets import load_settings
    from nmtlib.run import Run

    if not options.preset and not (options.resume and options.out):
        raise ValueError(
            "train needs the name of a preset, or --resume with --out; list the presets with: "
            "nmtlib summary"
        )
    folder, settings = choose_folder(options), None
    if not options.resume:
        settings = load_settings(options.preset).with_assignments(options.assignments)
    elif options.assignments:
        raise ValueError("--set cannot change a run that is resumed: its settings are part of it")
    if options.evaluate:  # hours before it is needed: is there anything to score?
        load_corpus((settings or Run(folder).settings()).corpus).split("test")
    train(folder, settings, minutes=options.minutes, report=partial(print, flush=True))
    if os.environ.get("RANK", "0") == "0":  # of the processes that torchrun started, one speaks
        print(f"the run lies in {folder}", flush=True)
        if options.evaluate:
            evaluate_and_show(folder)


def choose_folder(options: Namespace) -> Path:
    """The run folder: --out, or the first free one (to resume, the newest run) of the preset."""
    from nmtlib.run import Run, newest_run

    stem = Path("runs") / Path(options.preset or "").stem
    if options.resume:
        folder = options.out or newest_run(stem)
        if options.preset:
            Run(folder).require_corpus_of(options.preset)
        return folder
    number, folder = 1, options.out or stem
    while folder.exists() and not options.out:
        number += 1
        folder = stem.with_name(f"{stem.name}-{number}")
    return folder


def evaluate_and_show(folder: Path) -> None:
    """Score the test split, the challenge split where there is one, and show five translations."""
    from nmtlib.examples import load_corpus_to_score
    from nmtlib.inference.translator import Translator
    from nmtlib.records import evaluate_run, format_samples
    from nmtlib.run import Run

    run, translator = Run(folder), Translator.load(folder)
    corpus = load_corpus_to_score(translator.settings.corpus)
    hypotheses = evaluate_run(translator, corpus, run, "test")
    if corpus.challenge:
        evaluate_run(translator, corpus, run, "challenge")
    print("\n".join(["", *format_samples(corpus.test[:5], hypotheses[:5])]))


def command_evaluate(options: Namespace) -> None:
    """Score a run on one split."""
    from nmtlib.examples import load_corpus_to_score
    from nmtlib.extras.ensemble import load_ensemble
    from nmtlib.extras.neighbours import with_neighbours
    from nmtlib.files import require_ours
    from nmtlib.inference.translator import find_run
    from nmtlib.records import evaluate_run

    run = find_run(options.folder)
    if options.output:
        require_ours(options.output, "--output", "scores")
    translator = load_ensemble([run.folder, *options.others])
    translator = with_neighbours(translator, options.neighbours, options.neighbour_weight)
    corpus = load_corpus_to_score(translator.settings.corpus)
    how = {name: getattr(options, name) for name in ("beam", "length_penalty", "moses", "others")}
    evaluate_run(translator, corpus, run, options.split, options.output, **how)


def command_translate(options: Namespace) -> int:
    """Translate the sentences given, or standard input line by line."""
    from nmtlib.extras.neighbours import with_neighbours
    from nmtlib.files import decoded
    from nmtlib.inference.translator import Translator
    from nmtlib.streaming import translate_stream, warn_of_unknown_words

    given = [options.model, options.folder, *options.sentences]
    run, *texts = [argument for argument in given if argument is not None] or [None]
    if run is None:
        raise ValueError("translate needs a run folder or a model; list them with: nmtlib models")
    translator = Translator.load(run)
    translator = with_neighbours(translator, options.neighbours, options.neighbour_weight)
    if not texts:
        return translate_stream(translator, options.beam)
    raws = [text.encode(errors="surrogateescape") for text in texts]
    sentences = [decoded(raw, number, "sentences") for number, raw in enumerate(raws, start=1)]
    translations = translator.translate(sentences, beam=options.beam)
    warn_of_unknown_words(translator, sentences)
    print("\n".join(translations))
    return 0


def command_export(options: Namespace) -> None:
    """Write a model in another format."""
    from nmtlib.extras.export import export

    folder = export(options.folder, options.to, options.out, quantization=options.quantization)
    print(f"the model lies in {folder}; how to load it: {folder / 'README.md'}")


def command_data(options: Namespace) -> int:
    """List, fetch or check corpora; 1 where a corpus is not complete."""
    from nmtlib.data.corpora import check, fetch, names, table
    from nmtlib.listing import print_table

    if options.action == "list":
        if options.name:
            raise ValueError(
                f"data list takes no name; to see one corpus: data check {options.name}"
            )
        print_table(table())
        return 0
    if not options.name:
        raise ValueError(f"data {options.action} needs the name of a corpus: {', '.join(names())}")
    if options.action == "fetch":
        print(f"{options.name} is complete in {fetch(options.name)}")
        return 0
    report = check(options.name)
    print("\n".join(report.lines))
    return 0 if report.ok else 1


# The other commands are in this module.
ELSEWHERE = {
    "backtranslate": "nmtlib.extras.backtranslation",
    "check": "nmtlib.checks.command",
    "explore": "nmtlib.explorer.page",
    "homework": "nmtlib.homework.commands",
    "models": "nmtlib.listing",
    "summary": "nmtlib.listing",
}


def find_command(name: str) -> Callable[[Namespace], int | None]:
    """The function that does what a command says; its module is imported only now."""
    place = import_module(ELSEWHERE[name]) if name in ELSEWHERE else sys.modules[__name__]
    return getattr(place, f"command_{name}")
