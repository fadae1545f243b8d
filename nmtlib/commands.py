"""The commands of the core: each function carries out one, with the options of `nmtlib.cli`."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from tqdm import tqdm

from nmtlib import experiment
from nmtlib.data import corpora
from nmtlib.errors import remarks
from nmtlib.experiment import training_summary
from nmtlib.files import decoded, require_ours, write_atomically
from nmtlib.inference import evaluate as scoring
from nmtlib.inference.evaluate import format_samples
from nmtlib.inference.translator import Translator
from nmtlib.presets import load_settings, overview
from nmtlib.recipe import load_corpus
from nmtlib.run import SHIPPED, Run, find_run, named_runs, newest_run, next_folder
from nmtlib.settings import Settings
from nmtlib.training.history import read_history

CHUNK = 1_000  # lines that are read and translated together; in a terminal one by one


def train(options: Namespace) -> None:
    """Train a preset or resume a run, and evaluate it if asked to."""
    if not options.preset and not (options.resume and options.out):
        raise ValueError(
            "train needs the name of a preset, or --resume with --out; list the presets with: "
            "nmtlib summary"
        )
    folder, settings, moved = choose_folder(options), None, None
    if not options.resume:
        settings = load_settings(options.preset).with_assignments(options.assignments)
    elif options.assignments:
        moved = moved_settings(Run(folder), options.assignments)
    if options.evaluate:  # raises now, not after hours of training, if there is nothing to score
        load_corpus((settings or Run(folder).settings()).corpus).split("test")
    report = partial(print, flush=True)
    how: dict[str, Any] = {"minutes": options.minutes, "report": report}
    if moved:
        how["corpus"] = load_corpus(moved.corpus)  # the run knows its digest
    try:
        experiment.train(folder, settings, resume=options.resume, **how)
    except FileNotFoundError as error:
        if not options.resume or "text file" not in str(error):
            raise
        advice = 'if it was moved, say where it is: --resume --set \'corpus.train=["…", "…"]\''
        raise FileNotFoundError(f"{error}; {advice}") from None
    if moved:
        write_atomically(Run(folder).settings_file, moved.to_json())
    if os.environ.get("RANK", "0") == "0":  # of the processes that torchrun started, the first
        report(f"the run is in {folder}")
        if options.evaluate:
            evaluate_and_show(folder)


def moved_settings(run: Run, assignments: list[str]) -> Settings:
    """The settings of a run whose corpus is in another place now; nothing else may change."""
    if other := [name for name in assignments if not name.startswith("corpus.")]:
        raise ValueError(
            f"--set {other[0]} cannot change a run that is resumed; only where its corpus is may "
            "change (corpus.train and so on).  To go on with other settings, start a new run from "
            f"its weights: --set training.init_from={run.folder}"
        )
    return run.settings().with_assignments(assignments)


def choose_folder(options: Namespace) -> Path:
    """The run folder: --out, or the next one (to resume, the newest) of the preset."""
    stem = Path("runs") / Path(options.preset or "").stem
    if options.resume:
        if options.out and options.preset:
            raise ValueError("--resume takes a preset, for its newest run, or --out, not both")
        return options.out or newest_run(stem)
    return options.out or next_folder(stem)


def evaluate_and_show(folder: Path) -> None:
    """Score the test split, and the challenge split if there is one; show five translations."""
    translator = Translator.load(folder)
    corpus = load_corpus(translator.settings.corpus)
    hypotheses = evaluate_run(translator, Run(folder))
    if corpus.challenge:
        evaluate_run(translator, Run(folder), "challenge")
    print("\n".join(["", *format_samples(corpus.test[:5], hypotheses[:5])]))


def evaluate(
    options: Namespace, load: Callable[[Path], Translator] = Translator.load, **how: Any
) -> None:
    """Score a run on one split; `load` makes its translator, `how` goes on to `evaluate_run`."""
    run = find_run(options.folder)
    if options.output:
        require_ours(options.output, "--output", "scores")
    how |= {"beam": options.beam, "length_penalty": options.length_penalty}
    evaluate_run(load(run.folder), run, options.split, options.output, **how)


def evaluate_run(
    translator: Translator,
    run: Run,
    split: str = "test",
    output: Path | None = None,
    *,
    label: str = "",
    **how: Any,
) -> list[str]:
    """Score a split, print the scores, write them into the run and `output`; the translations.

    `label` tells the files of this translator from those of the run's own.  A shipped run is left
    as it is; one that cannot be written to is an error only without `output`.
    """
    training = training_summary(run.folder)  # read first: what is wrong with it shows at once
    corpus = load_corpus(translator.settings.corpus)
    evaluation, hypotheses = scoring.evaluate(translator, corpus, split, **how)
    notes = remarks("evaluation", translator, corpus, split, hypotheses)
    print("\n".join([*evaluation.lines(), *notes]), flush=True)
    scores = {**evaluation.to_dict(), "training": training}
    data = json.dumps(scores, indent=2, ensure_ascii=False) + "\n"
    stem = f"{split}-beam{evaluation.beam}"
    if evaluation.length_penalty != translator.settings.decoding.length_penalty:
        stem += f"-penalty{evaluation.length_penalty:.15g}"
    if output:
        write_atomically(output, data)
    if run.ships:
        return hypotheses
    try:
        write_atomically(run.folder / f"{stem}{label}.json", data)
        write_atomically(run.folder / f"{stem}{label}.txt", "\n".join(hypotheses) + "\n")
    except OSError as error:
        if not output:
            raise
        print(f"nmtlib: only {output} was written: {error}", file=sys.stderr)
    return hypotheses


def translate(options: Namespace, load: Callable[[str], Translator] = Translator.load) -> int:
    """Translate the sentences given, or standard input line by line; 1 if a line was refused."""
    given = [options.model, options.folder, *options.sentences]
    run, *texts = [argument for argument in given if argument is not None] or [None]
    if run is None:
        raise ValueError("translate needs a run folder or a model; list them with: nmtlib models")
    translator = load(run)
    if not texts:
        return translate_stream(translator, options.beam)
    raws = [text.encode(errors="surrogateescape") for text in texts]
    sentences = [decoded(raw, number, "sentences") for number, raw in enumerate(raws, start=1)]
    translations = translator.translate(sentences, beam=options.beam)
    warn_of_unknown_words(translator, sentences)
    print("\n".join(translations))
    return 0


def translate_stream(translator: Translator, beam: int | None) -> int:
    """Print the translation of each line of standard input, some lines at a time.

    A line that cannot be translated gets an empty translation and a complaint with its number; the
    exit status is then 1.
    """
    if sys.stdin is None or sys.stdin.closed:
        raise ValueError("standard input is closed; give sentences as arguments, or a file with <")
    interactive = sys.stdin.isatty()
    quiet = interactive or sys.stdout.isatty() or not sys.stderr.isatty()
    lines, status = enumerate(raw_lines(), start=1), 0
    with tqdm(unit=" lines", disable=quiet) as bar:
        while chunk := list(islice(lines, 1 if interactive else CHUNK)):
            sentences = []
            for number, raw in chunk:
                try:
                    sentences.append(decoded(raw, number, "standard input").strip())
                    translator.read(sentences[-1])
                except ValueError as error:
                    sentences[number - chunk[0][0] :] = [""]
                    where, status = f"standard input, line {number}: ", 1
                    print(f"nmtlib: {where}{str(error).removeprefix(where)}", file=sys.stderr)
            warn_of_unknown_words(translator, sentences)
            print("\n".join(translator.translate(sentences, beam=beam)), flush=True)
            bar.update(len(chunk))
    return status


def raw_lines() -> Iterator[bytes]:
    """The lines of standard input as bytes: they are UTF-8, whatever the system's encoding is."""
    if hasattr(sys.stdin, "buffer"):
        # Iteration would read ahead while a person waits for an answer; readline does not.
        return iter(sys.stdin.buffer.readline, b"")
    return (line.encode() for line in sys.stdin)


def warn_of_unknown_words(translator: Translator, sentences: Sequence[str]) -> None:
    """Name on stderr the words that are not in the vocabulary; the model reads UNK for them."""
    unknown = {word: None for sentence in sentences for word in translator.unknown(sentence)}
    if unknown:
        words = [word[:40] if word.isprintable() else ascii(word[:40]) for word in unknown]
        shown = ", ".join([*words[:10], *(["…"] if len(words) > 10 else [])])
        print(f"nmtlib: not in the vocabulary: {shown}", file=sys.stderr)


def data(options: Namespace) -> None:
    """List or fetch corpora."""
    if options.action == "list":
        if options.name:
            raise ValueError(
                f"data list takes no name; to see one corpus: data check {options.name}"
            )
        print_table(corpora.table())
    elif not options.name:
        raise ValueError(f"data fetch needs the name of a corpus: {', '.join(corpora.names())}")
    else:
        print(f"{options.name} is complete in {corpora.fetch(options.name)}")


def models(options: Namespace) -> None:
    """List the models that can be loaded by name."""
    rows = [("model", "translates", "corpus", "epochs", "validation perplexity", "from")]
    for name, run in named_runs().items():
        place = "nmtlib" if run.ships else str(run.folder)
        try:
            corpus, found = run.settings().corpus, training_summary(run.folder)
        except (OSError, ValueError) as error:
            rows.append((name, "", "", "", "", f"{place}, which cannot be loaded: {error}"))
            continue
        told = str(found["epochs"]), f"{found['validation_perplexity']:.2f}", place
        rows.append((name, "-".join(corpus.languages), corpus.name or "own files", *told))
    print_table(rows)


def summary(options: Namespace) -> None:
    """List the presets, or show one of them, or a run: its settings, parameters and last epoch."""
    if not options.what:
        print_table(overview())
    elif (run := Run(options.what)).settings_file.is_file():
        print(run.settings().to_json())
        table = Translator.load(run.folder).model.parameter_table()
        for part, count in (table | {"total": sum(table.values())}).items():
            print(f"{part:<22}{count:>14,}")
        print(read_history(run.history_file)[-1].line(run.settings().training.epochs))
    else:
        print(load_settings(options.what).to_json())
        if (run := Run(SHIPPED / options.what)).settings_file.is_file():
            more = f"the model of this name that ships may differ: nmtlib summary {run.folder}"
            print(f"nmtlib: {more}", file=sys.stderr)


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows of text, the first of them the headings, in columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())
