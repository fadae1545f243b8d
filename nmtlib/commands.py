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
from nmtlib.data.corpora import load_corpus
from nmtlib.data.corpus import Corpus
from nmtlib.errors import note
from nmtlib.experiment import Remarks, training_summary
from nmtlib.files import decoded, require_ours, write_atomically
from nmtlib.inference import evaluate as scoring
from nmtlib.inference.evaluate import format_samples
from nmtlib.inference.translator import Translator
from nmtlib.presets import load_settings
from nmtlib.run import Run, find_run, newest_run, next_folder
from nmtlib.settings import Settings

ScoreRemarks = Callable[[Translator, Corpus, str, Sequence[str]], list[str]]
CHUNK = 1_000  # lines that are translated together, if as many have arrived


def train(
    options: Namespace, before: Remarks | None = None, after: ScoreRemarks | None = None
) -> Path:
    """Train a preset or resume a run, and evaluate it if asked to; returns the run folder.

    `before` and `after` make lines to print before a training and after an evaluation.
    """
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
    how: dict[str, Any] = {"minutes": options.minutes, "report": report, "remarks": before}
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
            evaluate_and_show(folder, after)
    return folder


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


def evaluate_and_show(folder: Path, remarks: ScoreRemarks | None = None) -> None:
    """Score the test split, and the challenge split if there is one; show five translations."""
    translator = Translator.load(folder)
    corpus = load_corpus(translator.settings.corpus)
    hypotheses = evaluate_run(translator, Run(folder), remarks=remarks)
    if corpus.challenge:
        evaluate_run(translator, Run(folder), "challenge", remarks=remarks)
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
    remarks: ScoreRemarks | None = None,
    **how: Any,
) -> list[str]:
    """Score a split, print the scores, write them into the run and `output`; the translations.

    `label` tells the files of this translator from those of the run's own.  A shipped run is left
    as it is; one that cannot be written to is an error only without `output`.
    """
    training = training_summary(run.folder)  # read first: what is wrong with it shows at once
    corpus = load_corpus(translator.settings.corpus)
    evaluation, hypotheses = scoring.evaluate(translator, corpus, split, **how)
    notes = remarks(translator, corpus, split, hypotheses) if remarks else []
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
        note(f"only {output} was written: {error}")
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
    quiet = sys.stdin.isatty() or sys.stdout.isatty() or not sys.stderr.isatty()
    status, first = 0, 1
    with tqdm(unit=" lines", disable=quiet) as bar:
        for chunk in available_lines():
            sentences = []
            for number, raw in enumerate(chunk, start=first):
                try:
                    sentence = decoded(raw, number, "standard input").strip()
                    translator.read(sentence)
                except ValueError as error:
                    sentence, where, status = "", f"standard input, line {number}: ", 1
                    note(f"{where}{str(error).removeprefix(where)}")
                sentences.append(sentence)
            warn_of_unknown_words(translator, sentences)
            print("\n".join(translator.translate(sentences, beam=beam)), flush=True)
            bar.update(len(chunk))
            first += len(chunk)
    return status


def available_lines() -> Iterator[list[bytes]]:
    """The lines of standard input, as many at a time as have arrived, at most `CHUNK`.

    A program at the other end of a pipe may wait for the answer to a line before it sends the next.
    They are bytes in UTF-8, whatever the system's encoding is.
    """
    if not hasattr(sys.stdin, "buffer"):
        yield from iter(lambda: [line.encode() for line in islice(sys.stdin, CHUNK)], [])
        return
    source: Any = sys.stdin.buffer
    pending = bytearray()
    while block := source.read1(1 << 20):  # waits only while nothing has arrived
        pending += block
        if b"\n" in block:
            lines = pending.split(b"\n")
            pending = lines.pop()
            for i in range(0, len(lines), CHUNK):
                yield [bytes(line) for line in lines[i : i + CHUNK]]
    if pending:
        yield [bytes(pending)]


def warn_of_unknown_words(translator: Translator, sentences: Sequence[str]) -> None:
    """Name on stderr the words that are not in the vocabulary; the model reads UNK for them."""
    unknown = {word: None for sentence in sentences for word in translator.unknown(sentence)}
    if unknown:
        words = [*[word[:40] for word in unknown][:10], *["…"] * (len(unknown) > 10)]
        note(f"not in the vocabulary: {', '.join(words)}")
