"""What other packages add to the core: recipes, presets, corpora, readers of other files.

A package adds them by name when it is imported, as `nmtcourse/__init__.py` does; what it adds is
imported when it is first used.
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Any

ADDED: dict[str, dict[str, str]] = {"corpora": {}, "presets": {}, "readers": {}, "recipes": {}}


def add(kind: str, **places: str) -> None:
    """Add things by name, each at a 'module:name', or of presets the package of the files.

    In a name that has dashes, such as that of a corpus, underscores take their place.
    """
    ADDED[kind] |= {name.replace("_", "-"): address for name, address in places.items()}


def added(kind: str) -> dict[str, Any]:
    """All things of a kind that were added, by name."""
    return {name: resolve_name(address) for name, address in ADDED[kind].items()}


def missing(kind: str) -> str:
    """What an error about an unknown name adds where no package has added things of this kind."""
    return "" if ADDED[kind] else "; `nmtlib`, and in Python `import nmtcourse`, add the course's"
