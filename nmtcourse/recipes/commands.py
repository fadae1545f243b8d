"""What the extras add to the command line: commands, and options of evaluate and translate."""

from __future__ import annotations

import hashlib
import json
import shlex
from argparse import Namespace, _SubParsersAction
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmtcourse.outputs import NEW_FOLDER, PAIRS
from nmtlib import cli
from nmtlib.cli import ABOUT_RUN, add_command
from nmtlib.errors import note
from nmtlib.files import names_a_file

if TYPE_CHECKING:
    from nmtlib.inference.search import Hypothesis

OF_REAL_LANGUAGES = ("cmn-en-zh", "multi30k-de-en")  # shipped models that people can type for
LEAST_FREQUENCY = 0.2  # mean over the words, below which they are of another language


def add_export(commands: _SubParsersAction) -> None:
    """Add the command `export`."""
    about = "write the model for another program"
    option = add_command(commands, "export", command_export, about).add_argument
    option("folder", metavar="RUN", help=ABOUT_RUN)
    formats = "safetensors, marian or pegasus (Hugging Face), ctranslate2, onnx"
    option("--to", required=True, metavar="FORMAT", help=formats)
    where = "a new folder (default: RUN/FORMAT, or NAME-FORMAT)"
    option("--out", type=NEW_FOLDER, metavar="DIR", help=where)
    option("--quantization", metavar="TYPE", help="for ctranslate2: int8, float16, …")


def add_backtranslate(commands: _SubParsersAction) -> None:
    """Add the command `backtranslate`."""
    about = "translate sentences that have no translation, to train the other direction on them"
    option = add_command(commands, "backtranslate", command_backtranslate, about).add_argument
    option("folder", metavar="RUN", help=ABOUT_RUN)
    option("--text", required=True, help="multi30k-captions, or a file with a sentence a line")
    pairs = "the pairs; resumed if there"
    option("--out", required=True, type=PAIRS, metavar="FILE.tsv", help=pairs)
    option("--beam", type=int, default=1, help="beam size (default: 1, greedy)")
    sampled = "sample each word instead, at this temperature (default: 0, do not)"
    option("--temperature", type=float, default=0.0, metavar="T", help=sampled)
    option("--seed", type=int, default=1, help="of the sampling (default: 1)")
    option("--tag", default="", metavar="WORD", help="put this word before each source")
    forwards = "make targets, to train a model of the same direction on what this one generates"
    option("--forward", action="store_true", help=forwards)
    exactness = "how a CPU multiplies; bf16 is quicker where it does so natively (default: fp32)"
    option("--precision", choices=["fp32", "bf16"], default="fp32", help=exactness)
    add_others(option)


def add_evaluate(commands: _SubParsersAction) -> None:
    """Add the core's `evaluate` with ensembles, neighbours and Moses' tokens."""
    option = cli.add_evaluate(commands, evaluate).add_argument
    add_neighbours(option)
    option("--moses", action="store_true", help="also BLEU on Moses' tokens, as papers report it")
    add_others(option)


def add_translate(commands: _SubParsersAction) -> None:
    """Add the core's `translate` with neighbours."""
    add_neighbours(cli.add_translate(commands, translate).add_argument)


def add_neighbours(option: Callable[..., Any]) -> None:
    """`--neighbours` and their weight."""
    about = "look each next word up among the K most similar positions of the training pairs"
    option("--neighbours", type=int, metavar="K", help=about)
    share = "how much these count next to the model, in [0, 1) (default: 0.3)"
    option("--neighbour-weight", type=float, metavar="W", help=share)


def add_others(option: Callable[..., Any]) -> None:
    """`--with RUN …`, and given again it adds to these."""
    about = "further runs of the same vocabularies: all translate together (an ensemble)"
    several: dict = {"nargs": "+", "action": "extend", "default": []}
    option("--with", metavar="RUN", dest="others", help=about, **several)


def evaluate(options: Namespace) -> None:
    """Score a run, or several together, or with neighbours; with --moses also as papers do."""
    from nmtcourse.corpora import load_corpus
    from nmtcourse.doctor.remarks import after_evaluation
    from nmtcourse.provenance import circumstances
    from nmtcourse.recipes.ensemble import load_ensemble
    from nmtcourse.recipes.moses import moses_scorer
    from nmtcourse.recipes.neighbours import WEIGHT, with_neighbours
    from nmtlib.run import find_run
    from nmtlib.training.checkpoint import describe_run

    run = find_run(options.folder)
    neighbours, weight = options.neighbours, options.neighbour_weight
    settings = describe_run(run).settings
    language = settings.corpus.languages[1] if options.moses else ""
    how: dict[str, Any] = {"beam": options.beam, "length_penalty": options.length_penalty}
    how["scorers"] = [moses_scorer(language)] if options.moses else []
    label = f"-with-{name_of(options.others)}" if options.others else ""
    if neighbours:
        label += f"-neighbours{neighbours}"
        label += "" if weight in (None, WEIGHT) else f"-weight{weight:.15g}"
    models = load_ensemble([run.folder, *options.others])
    corpus = load_corpus(settings.corpus)
    translator = with_neighbours(models, neighbours, weight)
    how |= {"label": label, "facts": circumstances(run, translator.device)}
    scored = cli.evaluate_run(translator, run, corpus, options.split, options.output, **how)
    for remark in after_evaluation(*scored):
        print(remark)


def name_of(runs: Sequence[str | Path]) -> str:
    """A short name of some runs; runs of the same names in other folders have another."""
    from nmtlib.run import find_run

    places = sorted(str(find_run(run).folder.resolve()) for run in runs)
    digest = hashlib.sha256("\n".join(places).encode()).hexdigest()
    return f"{'-'.join(Path(run).name for run in runs)[:60]}-{digest[:8]}"


def translate(options: Namespace) -> int:
    """Translate as the core does, if asked to with neighbours; name doubtful translations."""
    from nmtcourse import confidence
    from nmtcourse.recipes.neighbours import with_neighbours
    from nmtcourse.recipes.poor import explain_poor
    from nmtlib.inference.translator import Translator
    from nmtlib.run import find_run, is_one_file

    run, texts = run_and_texts(options)
    folder = None if is_one_file(run) else find_run(run)  # only a folder knows the run's history
    rule = confidence.load(folder.folder) if folder else None
    for text in texts:
        if names_a_file(text):
            note(
                f"{text} is also a file, and its name is translated; for its lines: "
                f"nmtlib translate {run} < {text}"
            )
    weight = options.neighbour_weight
    translator = with_neighbours(Translator.load(run), options.neighbours, weight)

    def after(
        sentences: Sequence[str], hypotheses: Sequence[Hypothesis], translations: Sequence[str]
    ) -> None:
        if folder:
            for line in explain_poor(translator, folder, sentences, translations):
                note(line)
        if rule is None or not texts:  # a remark for each line of a file would be too many
            return
        for sentence, hypothesis in zip(sentences, hypotheses, strict=True):
            if remark := rule.remark(sentence, confidence.perplexity_of(hypothesis)):
                note(remark)

    return cli.translate_texts(translator, texts, options.beam, after)


def run_and_texts(options: Namespace) -> tuple[str, list[str]]:
    """The name of a run and the sentences; without a run, a shipped model that knows their words.

    Raises ValueError where no model is named and none knows the words.
    """
    from nmtlib.run import Run, is_sentence, named_runs

    run, texts = cli.run_and_texts(options)
    is_path = names_a_file(run) or names_a_file(Run(run).settings_file)
    named = options.model or run in named_runs() or is_path
    if named or not is_sentence(run):
        return run, texts
    texts = [run, *texts]
    model = model_that_knows(texts)
    note(f"the model is {described(model)}; name another one with --model (see: nmtlib models)")
    return model, texts


def model_that_knows(texts: Sequence[str]) -> str:
    """The shipped model of a real language in whose training text the words are most frequent.

    Raises ValueError where the words are foreign to all models.
    """
    from nmtcourse import confidence

    given = [word for text in texts for word in confidence.words(text)]
    scores = {}
    for name in OF_REAL_LANGUAGES:
        rule = confidence.load(name)
        scores[name] = sum(rule.frequency(word) for word in given) if rule else 0.0
    best = max(scores, key=scores.__getitem__)
    if scores[best] <= LEAST_FREQUENCY * len(given):
        models = ", ".join(described(name) for name in scores)
        raise ValueError(
            f"no model is named, and none of these knows the words of {texts[0]!r}: {models}; "
            f"name one with --model all the same, or another one (see: nmtlib models)"
        )
    return best


def described(model: str) -> str:
    """The name of a shipped model with its languages."""
    from nmtlib.run import find_run
    from nmtlib.training.checkpoint import describe_run

    return f"{model} ({'-'.join(describe_run(find_run(model)).settings.corpus.languages)})"


def command_export(options: Namespace) -> None:
    """Write a model in another format."""
    from nmtcourse.recipes.export import export

    folder = export(options.folder, options.to, options.out, quantization=options.quantization)
    print(f"the model is in {folder}; how to load it: {folder / 'README.md'}")


def command_backtranslate(options: Namespace) -> None:
    """Write synthetic pairs of the sentences of a text."""
    from nmtcourse.recipes import monolingual
    from nmtcourse.recipes.backtranslation import Search, backtranslate
    from nmtcourse.recipes.ensemble import load_ensemble
    from nmtlib.files import text_lines

    how = ("beam", "temperature", "seed", "tag", "forward")
    search = Search(**{name: getattr(options, name) for name in how})
    if not options.out.name or options.out.suffix == ".gz":
        raise ValueError(
            f"--out is the name of a plain text file, such as pairs.tsv, not {str(options.out)!r}"
        )
    translator = load_ensemble([options.folder, *options.others])
    if options.precision == "bf16":
        translator.model.bfloat16()
    language = translator.settings.corpus.languages[0]
    if names_a_file(options.text):
        sentences = [line.strip() for line in text_lines(options.text) if line.strip()]
        where = str(options.text)
    else:
        if options.text not in [text.name for text in monolingual.TEXTS]:
            raise FileNotFoundError(
                f"--text: there is no file {options.text}, and no text of that name either; "
                f"there is {', '.join(text.name for text in monolingual.TEXTS)}"
            )
        sentences, left_out = monolingual.sentences(options.text, language)
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in left_out.items())
        where = f"{options.text}, {language}; left out: {reasons or 'none'}"
    print(f"{len(sentences):,} sentences of {where}", flush=True)
    report = partial(print, flush=True)
    written = backtranslate(translator, sentences, options.out, search, report=report)
    if lost := len(sentences) - written:
        print(f"{lost:,} without a pair: too long to be read, or their translation is empty")
    way = "the same way" if search.forward else "the other way"
    setting = shlex.quote(f"recipe.synthetic={json.dumps([str(options.out)])}")
    advice = f"--set recipe.name=course --set {setting}"
    print(f"{written:,} pairs are in {options.out}; train on them {way} with: {advice}")
