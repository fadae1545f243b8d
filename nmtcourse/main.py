"""The command `nmtlib`: the core's commands and those of the course, put together in one place.

`python -m nmtlib` is the core alone.  A package that is not part of this installation adds commands
through the entry-point group `nmtlib.plugins`: each entry is a function that gets the subparsers.
"""

from __future__ import annotations

import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from nmtcheck.command import add_check
from nmtcourse.command import add_course
from nmtcourse.doctor.command import add_data
from nmtcourse.explorer.command import add_explore
from nmtcourse.homework.commands import add_homework
from nmtcourse.listing import add_models, add_summary
from nmtcourse.recipes.commands import add_backtranslate, add_evaluate, add_export, add_translate
from nmtcourse.welcome import WELCOME, group
from nmtlib import cli
from nmtlib.errors import note

if TYPE_CHECKING:
    from nmtlib.experiment import Material
    from nmtlib.run import Run
    from nmtlib.training.trainer import Recipe


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, or say welcome; returns the exit status."""
    if not (sys.argv[1:] if arguments is None else arguments):
        print(WELCOME)
        return 0
    return cli.main(arguments, build_parser, statuses={"check": 2})


def build_parser() -> ArgumentParser:
    """The commands of the core, some with more options, those of the course, and of others."""
    parser, commands = cli.new_parser()
    cli.add_train(commands, train)
    add_evaluate(commands)  # with ensembles, neighbours and Moses' tokens
    add_translate(commands)  # with neighbours
    add_data(commands)  # with `data check`
    add_models(commands)
    add_summary(commands)
    add_backtranslate(commands)
    add_check(commands)
    add_course(commands)
    add_explore(commands)
    add_export(commands)
    add_homework(commands)
    for entry in entry_points(group="nmtlib.plugins"):
        try:
            entry.load()(commands)
        except Exception as error:  # of another package: it must not cost the other commands
            note(f"{entry.value} adds no command: {type(error).__name__}: {error}")
    group(parser, commands)
    return parser


def train(options: Namespace) -> None:
    """Train as the core does; say what is wrong with the corpus, count its words, draw curves."""
    from nmtcourse import confidence
    from nmtcourse.corpora import load_corpus
    from nmtcourse.doctor.remarks import after_evaluation, before_training
    from nmtcourse.provenance import circumstances
    from nmtcourse.recipes import own_text
    from nmtcourse.recipes.recipe import read_recipe
    from nmtcourse.welcome import translation_of_epoch
    from nmtlib.inference.translator import Translator
    from nmtlib.run import Run
    from nmtlib.training.history import read_history

    folder, settings = cli.read_plan(options)
    corpus = cli.read_corpus(options, settings.corpus, load_corpus)
    if not options.resume:
        settings, about_settings = own_text.follow_text(options, settings, corpus)
        if cli.is_first():
            print("".join(f"{line}\n" for line in about_settings), end="", flush=True)
    course = read_recipe(settings.recipe)

    def make_recipe(material: Material) -> Recipe:
        for line in before_training(settings, material.corpus, material.codecs):
            material.report(line)
        if not settings.corpus.name:  # the presets of a corpus with a name are known to work
            sized = settings.with_vocabularies(*(len(codec.vocab) for codec in material.codecs))
            for line in own_text.forecast(sized, material.codecs, material.corpus.train):
                material.report(line)
        return course.make(settings, material)

    cli.train(
        options,
        folder,
        settings,
        course.change(corpus, settings),
        recipe=make_recipe,
        after_epoch=translation_of_epoch(corpus.validation),
    )
    run = Run(folder)
    if not cli.is_first():
        return
    confidence.learn(run.folder, corpus)
    if options.evaluate:
        translator = Translator.load(run.folder)
        facts = circumstances(run, translator.device)
        for scored in cli.evaluate_and_show(translator, run, corpus, **facts):
            print("".join(f"{remark}\n" for remark in after_evaluation(*scored)), end="")
    if run.history_file.is_file():
        from nmtcourse.curves import draw_curves  # not in processes that only help

        draw_curves(run.folder / "curves.png", read_history(run.history_file), run.folder.name)
    print("\n".join(what_is_next(run)))


def what_is_next(run: Run) -> list[str]:
    """The commands that score and use a run."""
    corpus = run.settings().corpus  # also of a run whose first epoch has not ended
    lines = []
    if corpus.name or corpus.test:
        lines.append(f"score it with: {shlex.join(['nmtlib', 'evaluate', str(run.folder)])}")
    command = shlex.join(["nmtlib", "translate", str(run.folder)])
    return [*lines, f'translate with: {command} "…", or {command} < FILE']
