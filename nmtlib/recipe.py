"""What a run may do differently: a recipe, found by its name among the installed packages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any

from nmtlib.data.batching import Example
from nmtlib.data.codec import Codec
from nmtlib.data.corpus import Corpus
from nmtlib.errors import did_you_mean
from nmtlib.settings import Settings


class Recipe:
    """A run without changes; a recipe overrides what it changes.

    It is an entry point in the group `nmtlib.recipes`: called with the options of [recipe], it
    returns an object with these two methods, or raises ValueError for options it does not know.
    """

    def corpus(self, corpus: Corpus, settings: Settings) -> Corpus:
        """The corpus to train on, before vocabularies are made of it."""
        return corpus

    def hooks(
        self,
        corpus: Corpus,
        settings: Settings,
        codecs: tuple[Codec, Codec],
        training: Sequence[Example],
        report: Callable[[str], None],
    ) -> dict[str, Any]:
        """Arguments of the `Trainer`: loss, examples, optimizer, and an addition to identity."""
        return {}


def find_recipe(options: Mapping[str, Any]) -> Recipe:
    """The recipe that the section [recipe] names.  Raises ValueError for an unknown one."""
    if not options:
        return Recipe()
    known = {entry.name: entry for entry in entry_points(group="nmtlib.recipes")}
    name = str(options.get("name", ""))
    if name not in known:
        raise ValueError(
            f"[recipe] has an unknown name {name!r}{did_you_mean(name, known)}; installed are "
            f"{', '.join(known) or 'none'}"
        )
    return known[name].load()({key: value for key, value in options.items() if key != "name"})
