"""What the notebooks show: pictures, diagrams, source code, questions, and two small models.

    from nmtcourse.teaching import GERMAN, load_toy, plots, predict, show_source

Each name is imported when it is first used, so this package does not wait for matplotlib.
"""

from importlib import import_module
from typing import Any

# Where the names that a notebook uses most live; the others are imported from their modules.
_MODULES = {
    "comparing": "compare",
    "course": "CHECKPOINTS CHINESE ENGLISH GERMAN exact_matches in_toy_spelling load_toy "
    "running_pair untrained_toy",
    "exercises": "judge solution",
    "explorer": "attention_maps show_explorer slider",
    "language": "pad say",
    "predictions": "predict",
    "show": "show_source",
}
_HOME = {name: module for module, names in _MODULES.items() for name in names.split()}
__all__ = ["diagrams", "plots", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"nmtcourse.teaching has no {name!r}; it has {', '.join(__all__)}")
    module = import_module(f"{__name__}.{_HOME.get(name, name)}")
    return getattr(module, name) if name in _HOME else module


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
