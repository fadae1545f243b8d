"""The command line: train, evaluate, translate.

The function of a command imports what it needs when it runs, so that --help is quick.  A package
above calls the same functions and adds commands of its own.
"""

from __future__ import annotations

import json
import os
import re
import sys
import traceback
from argparse import ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from difflib import get_close_matches
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from nmtlib.errors import Shown, did_you_mean, note, spelled_out
from nmtlib.files import (
    OutFile,
    OutFolder,
    decoded,
    has_keys,
    refuse_utf16,
    write_atomically,
    write_output,
)

if TYPE_CHECKING:
    from nmtlib.data.corpus import Corpus
    from nmtlib.inference.search import Hypothesis
    from nmtlib.inference.translator import Translator
    from nmtlib.run import Run
    from nmtlib.settings import CorpusSettings, Settings

# Errors of the input, told in one line; any other exception is a bug of ours.
EXPECTED_ERRORS = (ValueError, OSError, FloatingPointError, ModuleNotFoundError, MemoryError)
Commands: TypeAlias = "_SubParsersAction[ArgumentParser]"
Command: TypeAlias = Callable[[Namespace], Any]  # returns an exit status, or nothing
AfterTranslating: TypeAlias = "Callable[[Sequence[str], Sequence[Hypothesis], Sequence[str]], Any]"
Scored: TypeAlias = "tuple[Translator, Corpus, str, list[str]]"  # split and translations
ABOUT_RUN = "a run folder, or the name of a model (see: nmtlib models)"
ABOUT_BEAM = "beam size, 1 = greedy (default: the run's)"
CHINESE = re.compile("[\u3000-\u303f\u3400-\u9fff\uff00-\uffef]")  # as in explorer/web/written.js
CHUNK = 1_000  # lines that are translated together, if as many have arrived


class Parser(ArgumentParser):
    """A parser that names the closest choice for a word that it does not know."""

    def error(self, message: str) -> NoReturn:
        """End the program with the usage and a message."""
        unknown = re.search(r"invalid choice: '?(.*?)'? \(choose from (.*)\)", message)
        if unknown:
            choices = [choice.strip("' ") for choice in unknown[2].split(",")]
            hint = did_you_mean(unknown[1], choices)
            if get_close_matches(unknown[1], choices, n=1, cutoff=0.75):  # the list says less
                message = f"{message[: unknown.start()]}invalid choice: {unknown[1]!r}{hint}"
            else:
                message += hint
        super().error(message + self.describe_missing(message))

    def describe_missing(self, message: str) -> str:
        """For each argument that a message says is missing, a line that says what it is."""
        missing = message.partition("arguments are required: ")[2].split(", ")
        lines = ""
        for action in self._actions:
            name = "/".join(action.option_strings) or str(action.metavar or action.dest)
            if name not in missing:
                continue
            if action.choices is not None:
                lines += f"\n  {name} is one of {', '.join(map(str, action.choices))}"
            elif action.help:
                lines += f"\n  {name}: {action.help}"
        return lines


def main(
    arguments: Sequence[str] | None = None,
    parser: Callable[[], ArgumentParser] | None = None,
    statuses: Mapping[str, int] = MappingProxyType({}),
) -> int:
    """Run one command of the parser that is made, by default that of the core.

    Returns the exit status: 0 good, 1 an error explained, 130 interrupted.  `statuses` holds what a
    command returns instead of 1 where an output may not be written.
    """
    sys.stderr = sys.stderr or open(os.devnull, "w")  # closed by the shell: 2>&-
    return caught(run_command, arguments, parser or build_parser, statuses)


def caught(run: Callable[..., int], *arguments: Any, status: int = 1) -> int:
    """The last net, around the parser too: a fault of ours is one line that asks for a report.

    With NMTLIB_DEBUG=1 it is raised instead, and with "faults" nothing but it is, as in the tests.
    What a Rust library panics with is no `Exception`, and ends here as well.
    """
    try:
        return run(*arguments)
    except SystemExit:
        raise
    except KeyboardInterrupt:
        note("interrupted; what was saved is complete")
        return 130
    except BaseException as error:
        if debug():
            raise
        what = f"{type(error).__name__}: {error}".strip(": ")
        note(
            f"a fault of nmtlib, not of your input: {' '.join(what.split())[:300]}; please report "
            "it with what NMTLIB_DEBUG=1 shows"
        )
        return status


def debug() -> str:
    """What NMTLIB_DEBUG asks for; '' for nothing."""
    return os.environ.get("NMTLIB_DEBUG", "").removeprefix("0")


def run_command(
    arguments: Sequence[str] | None,
    make_parser: Callable[[], ArgumentParser],
    statuses: Mapping[str, int],
) -> int:
    """Parse and run one command; returns its exit status."""
    if sys.stdout is None:
        return complain("standard output is closed; redirect it, as in >/dev/null", OSError())
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")  # on Windows, cp1252 otherwise
    try:
        os.getcwd()
    except FileNotFoundError as error:  # torch would abort the process
        return complain("the current folder has been deleted; change to another one", error)
    options = Namespace(command="")
    try:
        parse(make_parser(), arguments, options)
    except EXPECTED_ERRORS as error:
        return complain(str(error), error) and statuses.get(options.command, 1)
    try:
        with redirect_stdout(Shown(sys.stdout)):
            status = options.run(options)
            sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except BrokenPipeError:  # the reader of our output has stopped (… | head)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or exit fails once more
        return 1
    except EXPECTED_ERRORS as error:
        return complain(str(error) or "out of memory", error)
    except RuntimeError as error:
        if "allocate" not in str(error) and "out of memory" not in str(error):
            raise
        return complain(f"out of memory: {str(error).splitlines()[0]}", error)


# What to do about an option that a command does not have.
ADVICE = {
    "translate": "; a sentence that begins with a dash goes after a --",
    "train": "; a setting is changed with --set, such as --set epochs=5",
}


def parse(parser: ArgumentParser, arguments: Sequence[str] | None, options: Namespace) -> None:
    """Fill the options of a command.  Raises OSError where one may not be written over."""
    _, unknown = parser.parse_known_args(arguments, options)
    translating = options.command == "translate"
    unknown = take_sentences(options, unknown) if unknown and translating else unknown
    if unknown:
        advice = ADVICE.get(options.command, "")
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{advice}")


def complain(message: str, error: BaseException) -> int:
    """Print an error in one line, with NMTLIB_DEBUG=1 also its traceback; the status is 1."""
    if debug() not in ("", "faults"):
        traceback.print_exception(error)
    line = " ".join(message.split())
    if len(line) > 1_500:  # a whole file, quoted
        line = f"{line[:1_000]} … {line[-400:]}"
    note(line)
    return 1


def build_parser() -> ArgumentParser:
    """The commands of the core with their options."""
    parser, commands = new_parser()
    for add in (add_train, add_evaluate, add_translate):
        add(commands)
    return parser


def new_parser() -> tuple[ArgumentParser, Commands]:
    """A parser without commands, and what commands are added to."""
    about = "Train, evaluate and use a Transformer for translation."
    parser = Parser(prog="nmtlib", description=about)
    commands: Any = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    return parser, commands


def add_train(commands: Commands, run: Command | None = None) -> None:
    """Add the command `train`, which calls `run`."""
    about = "train a preset, or resume a run"
    option = add_command(commands, "train", run or run_train, about).add_argument
    option("preset", nargs="?", help="name of a preset (see: nmtlib summary), or a .toml file")
    one = "change one setting, such as training.epochs=5; may be repeated"
    option("--set", dest="assignments", metavar="KEY=VALUE", action="append", default=[], help=one)
    where = "run folder (default: runs/PRESET, or the next of runs/PRESET-2, …)"
    option("--out", type=OutFolder("run", is_ours=is_run), metavar="DIR", help=where)
    newest = "continue the run in --out, or the newest of this preset"
    option("--resume", action="store_true", help=newest)
    option("--minutes", type=float, metavar="N", help="stop cleanly after N minutes of training")
    score = "then score the test split, and the challenge split if there is one"
    option("--evaluate", action="store_true", help=score)


def add_evaluate(commands: Commands, run: Command | None = None) -> ArgumentParser:
    """Add the command `evaluate`; returns its parser, for more options."""
    about = "score a run on a split of its corpus"
    parser = add_command(commands, "evaluate", run or evaluate, about)
    option = parser.add_argument
    option("folder", metavar="RUN", help=ABOUT_RUN)
    option("--split", default="test", help="train, validation, test (default) or challenge")
    option("--beam", type=int, help=ABOUT_BEAM)
    option("--length-penalty", type=float, metavar="A", help="its exponent, 0 = none")
    scores = OutFile("file of scores", is_ours=has_keys("scores", "length_penalty"))
    option("--output", type=scores, metavar="FILE", help="also write the scores as JSON here")
    return parser


def add_translate(commands: Commands, run: Command | None = None) -> ArgumentParser:
    """Add the command `translate`; returns its parser, for more options."""
    about = "translate arguments, or standard input"
    parser = add_command(commands, "translate", run or translate, about)
    option = parser.add_argument
    option("folder", nargs="?", metavar="RUN", help=ABOUT_RUN)
    dashed = "the text; one that begins with a dash goes after a --"
    option("sentences", nargs="*", metavar="SENTENCE", help=dashed)
    option("--model", metavar="RUN", help="the same as RUN; all arguments are then sentences")
    option("--beam", type=int, help=ABOUT_BEAM)
    return parser


def add_command(commands: Commands, name: str, run: Command, about: str) -> ArgumentParser:
    """Add a command that calls `run` with its options; returns its parser."""
    command = commands.add_parser(name, help=about, description=about)
    command.set_defaults(run=run)
    return command


def take_sentences(options: Namespace, left_over: list[str]) -> list[str]:
    """Take the sentences after an option, which argparse leaves over; returns what is unknown."""
    end = left_over.index("--") if "--" in left_over else len(left_over)
    if any(text.startswith("-") and " " not in text for text in left_over[:end]):
        return left_over
    options.sentences += left_over[:end] + left_over[end + 1 :]
    return []


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run, or the start of one that was killed."""
    from nmtlib.run import Run

    return Run(folder).settings_file.is_file() or Run(folder).is_free()


def run_train(options: Namespace) -> None:
    """The command `train`: train, then score the run if asked to."""
    from nmtlib.data.corpora import load_corpus
    from nmtlib.inference.translator import Translator
    from nmtlib.run import Run

    folder, settings = read_plan(options)
    corpus = read_corpus(options, settings.corpus, load_corpus)
    train(options, folder, settings, corpus)
    if options.evaluate and is_first():
        evaluate_and_show(Translator.load(folder), Run(folder), corpus)


def is_first() -> bool:
    """Whether this process is the first of those that torchrun started, or the only one."""
    return os.environ.get("RANK", "0") == "0"


def read_plan(options: Namespace) -> tuple[Path, Settings]:
    """The folder to train in, and the settings of a new run or those of the one to resume.

    Of a run that is resumed only the place of its corpus may change.
    """
    from nmtlib.presets import load_settings
    from nmtlib.run import Run

    if not options.preset and not (options.resume and options.out):
        raise ValueError(
            "train needs the name of a preset, or --resume with --out; list the presets with: "
            "nmtlib summary"
        )
    folder = choose_folder(options)
    if not options.resume:
        return folder, load_settings(options.preset).with_assignments(options.assignments)
    for assignment in options.assignments:
        if not assignment.startswith("corpus."):
            raise ValueError(
                f"--set {assignment} cannot change a run that is resumed; only where its corpus is "
                "may change (corpus.train and so on).  To go on with other settings, start a new "
                f"run from its weights: --set training.init_from={folder}"
            )
    settings = Run(folder).settings()
    if options.assignments:
        settings = settings.with_assignments(options.assignments)
    return folder, settings


def choose_folder(options: Namespace) -> Path:
    """The run folder: --out, or the next one (to resume, the newest) of the preset."""
    from nmtlib.run import newest_run, next_folder

    if options.resume and options.out and options.preset:
        raise ValueError("--resume takes a preset, for its newest run, or --out, not both")
    choose = newest_run if options.resume else next_folder
    return options.out or choose(Path("runs") / Path(options.preset).stem)


def read_corpus(
    options: Namespace, settings: CorpusSettings, load: Callable[[CorpusSettings], Corpus]
) -> Corpus:
    """The corpus to train on, which `load` reads: once, for all that the command does with it.

    Raises ValueError where it is to be scored and has no test split: now, not after hours.
    """
    try:
        corpus = load(settings)
    except FileNotFoundError as error:
        if not options.resume or "text file" not in str(error):
            raise
        advice = 'if it was moved, say where it is: --resume --set \'corpus.train=["…", "…"]\''
        raise FileNotFoundError(f"{error}; {advice}") from None
    if options.evaluate:
        corpus.split("test")
    return corpus


def train(options: Namespace, folder: Path, settings: Settings, corpus: Corpus, **how: Any) -> None:
    """Train a new run or resume one, as `nmtlib.train` does, to which `how` goes on."""
    from nmtlib import experiment

    report = partial(print, flush=True)
    experiment.train(
        folder,
        None if options.resume else settings,
        corpus=corpus,
        resume=options.resume,
        minutes=options.minutes,
        report=report,
        **how,
    )
    if is_first():
        report(f"the run is in {folder}")


def evaluate_and_show(
    translator: Translator, run: Run, corpus: Corpus, **facts: Any
) -> list[Scored]:
    """Score the test split, and the challenge split if there is one; show five translations."""
    from nmtlib.inference.evaluate import format_samples

    scored = [evaluate_run(translator, run, corpus, facts=facts)]
    hypotheses = scored[0][-1]
    if corpus.challenge:
        scored.append(evaluate_run(translator, run, corpus, "challenge", facts=facts))
    print("\n".join(["", *format_samples(corpus.test[:5], hypotheses[:5])]))
    return scored


def evaluate(options: Namespace) -> None:
    """The command `evaluate`: score a run on one split."""
    from nmtlib.data.corpora import load_corpus
    from nmtlib.inference.translator import Translator
    from nmtlib.run import find_run

    run = find_run(options.folder)
    translator = Translator.load(run.folder)
    corpus = load_corpus(translator.settings.corpus)
    how = {"beam": options.beam, "length_penalty": options.length_penalty}
    evaluate_run(translator, run, corpus, options.split, options.output, **how)


def evaluate_run(
    translator: Translator,
    run: Run,
    corpus: Corpus,
    split: str = "test",
    output: Path | None = None,
    *,
    label: str = "",
    facts: Mapping[str, Any] = MappingProxyType({}),
    **how: Any,
) -> Scored:
    """Score a split, print the scores, and write them into the run and `output`.

    `label` tells the files of this translator from those of the run's own, and `facts` are
    written beside the scores.  A shipped run is left
    as it is; one that cannot be written to is an error only without `output`.
    """
    from nmtlib.inference import evaluate as scoring

    evaluation, hypotheses = scoring.evaluate(translator, corpus, split, **how)
    print("\n".join(evaluation.lines()), flush=True)
    data = json.dumps({**evaluation.to_dict(), **facts}, indent=2, ensure_ascii=False) + "\n"
    stem = f"{split}-beam{evaluation.beam}"
    if evaluation.length_penalty != translator.settings.decoding.length_penalty:
        stem += f"-penalty{evaluation.length_penalty:.15g}"
    if output:
        write_output(output, data)
    scored = translator, corpus, split, hypotheses
    if run.ships:
        return scored
    try:
        write_atomically(run.folder / f"{stem}{label}.json", data)
        write_atomically(run.folder / f"{stem}{label}.txt", "\n".join(hypotheses) + "\n")
    except OSError as error:
        if not output:
            raise
        note(f"only {output} was written: {error}")
    return scored


def translate(options: Namespace) -> int:
    """The command `translate`: the sentences given, or standard input line by line."""
    from nmtlib.inference.translator import Translator

    run, texts = run_and_texts(options)
    return translate_texts(Translator.load(run), texts, options.beam)


def run_and_texts(options: Namespace) -> tuple[str, list[str]]:
    """The name of a run and the sentences, none for standard input."""
    arguments = [options.model, options.folder, *options.sentences]
    run, *texts = [argument for argument in arguments if argument is not None] or [None]
    if run is None:
        raise ValueError("translate needs a run folder or a model; list them with: nmtlib models")
    if not str(run).strip():
        raise ValueError("nothing to translate: the sentence is empty")
    return run, texts


def translate_texts(
    translator: Translator,
    texts: Sequence[str],
    beam: int | None,
    after: AfterTranslating | None = None,
) -> int:
    """Print the translations of sentences, or of standard input; 1 if a line was refused.

    `after` is called with the sentences, their hypotheses and the printed translations.
    """
    if not texts:
        return translate_stream(translator, beam, after)
    raws = [text.encode(errors="surrogateescape") for text in texts]
    sentences = [decoded(raw, number, "sentences") for number, raw in enumerate(raws, start=1)]
    hypotheses, translations = search(translator, sentences, beam)
    print("\n".join(translations))
    warn_of_unknown_words(translator, sentences)
    if after:
        after(sentences, hypotheses, translations)
    return 0


def search(
    translator: Translator, sentences: Sequence[str], beam: int | None
) -> tuple[list[Hypothesis], list[str]]:
    """The best hypothesis of each sentence, and its text as people write it."""
    hypotheses = [best[0] for best in translator.search(sentences, beam=beam)]
    language = translator.settings.corpus.languages[1]
    texts = [translator.target.decode(hypothesis.ids) for hypothesis in hypotheses]
    return hypotheses, [as_written(text, language) for text in texts]


def translate_stream(
    translator: Translator,
    beam: int | None,
    after: AfterTranslating | None = None,
) -> int:
    """Print the translation of each line of standard input, some lines at a time.

    A line that cannot be translated gets an empty one and a complaint; the exit status is then 1.
    """
    if sys.stdin is None or sys.stdin.closed:
        raise ValueError("standard input is closed; give sentences as arguments, or a file with <")
    status, number = 0, 0
    for chunk in available_lines():
        if number == 0:  # none of its lines could be read
            refuse_utf16(chunk[0], "standard input")
        sentences = []
        for raw in chunk:
            number += 1
            try:
                sentence = decoded(raw, number, "standard input").strip()
                translator.read(sentence)
            except ValueError as error:
                sentence, where, status = "", f"standard input, line {number}: ", 1
                note(f"{where}{str(error).removeprefix(where)}")
            sentences.append(sentence)
        warn_of_unknown_words(translator, sentences)
        hypotheses, translations = search(translator, sentences, beam)
        print("\n".join(translations), flush=True)
        if after:
            after(sentences, hypotheses, translations)
    return status


def as_written(text: str, language: str) -> str:
    """A translation as people write it: Chinese has no spaces between its words."""
    if language != "zh":
        return text
    words = text.split(" ")
    spaced = words[0]
    for before, word in pairwise(words):
        has_chinese = CHINESE.search(before) or CHINESE.search(word)
        spaced += word if has_chinese else f" {word}"
    return spaced


def available_lines() -> Iterator[list[bytes]]:
    """The lines of standard input, as many at a time as have arrived, at most `CHUNK`.

    A program at the other end of a pipe may wait for the answer to a line before it sends the next.
    They are bytes in UTF-8, whatever the system's encoding is.
    """
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
        words = [*[spelled_out(word[:40]) for word in unknown][:10], *["…"] * (len(unknown) > 10)]
        note(f"not in the vocabulary: {', '.join(words)}")
