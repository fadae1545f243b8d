"""What `nmtlib` says by itself: a welcome, its commands by what they are for, and its version."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, RawDescriptionHelpFormatter, _SubParsersAction
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nmtlib.data.corpus import Pair
    from nmtlib.training.trainer import Trainer

WELCOME = """\
nmtlib: build a Transformer translator, watch it think, and break it yourself.

  nmtlib translate "I love you."   with a model that comes with nmtlib
  nmtlib course my-course --lab    the notebooks, in a folder of your own
  nmtlib --help                    all commands"""
GROUPS = {  # what one wants -> the commands, in the order of use, and a line to copy
    "learn": ("course homework explore", "nmtlib homework start 04 --out my"),
    "translate": ("translate models export", 'nmtlib translate "I love you."'),
    "train": ("train summary evaluate backtranslate", "nmtlib train toy-de-en --evaluate"),
    "find what is wrong": ("check data doctor", "nmtlib data check my-pairs.tsv"),
}
SHORTEST, LONGEST = 9, 14  # words of the sentence that is translated after each epoch


def group(parser: ArgumentParser, commands: _SubParsersAction[ArgumentParser]) -> None:
    """List the commands by what they are for, each group with a line to copy."""
    about = {each.dest: str(each.help) for each in commands._choices_actions}
    known = {name for names, _ in GROUPS.values() for name in names.split()}
    others = {"from other packages": (" ".join(about.keys() - known), "")}
    text = [str(parser.description)]
    for wish, (names, example) in (GROUPS | others).items():
        rows = [f"  {name:<14}{about[name]}" for name in names.split() if name in about]
        if rows:
            text += ["", f"{wish}:", *rows, *([f"    $ {example}"] if example else [])]
    parser.formatter_class = RawDescriptionHelpFormatter
    parser.description = "\n".join(text)
    parser.usage = "nmtlib COMMAND ...   (nmtlib COMMAND --help says more)"
    commands._choices_actions.clear()
    commands.help = SUPPRESS  # it stands above
    parser.add_argument("--version", action="version", version=f"nmtlib {version('nmtlib')}")


def translation_of_epoch(pairs: Sequence[Pair]) -> Callable[[Trainer], None]:
    """After each epoch, a translation of one validation sentence: nonsense becomes language."""
    chosen: list[Pair] = []

    def show(trainer: Trainer) -> None:
        from nmtlib.inference.translator import Translator

        about = trainer.description
        if about is None or trainer.whole is None:
            return
        if not chosen:  # some may be too long for the model, which trains without them
            by_length = sorted(pairs, key=lambda pair: len(about.source.encode(pair.source)))
            fits = (p for p in pairs if SHORTEST <= len(p.source.split()) <= LONGEST)
            pair = next(fits, by_length[0])
            is_read = len(about.source.encode(pair.source)) < about.settings.model.max_length
            chosen.append(pair if is_read else by_length[0])
        translator = Translator(trainer.whole, about.source, about.target, about.settings)
        (text,) = translator.translate([chosen[0].source], beam=1, max_length=20)
        trainer.whole.train()
        trainer.report(f"             {chosen[0].source}  →  {text}")

    return show
