"""nmtlib: a small, vetted Transformer for neural machine translation.

Data flows one way: corpus -> tokenizer and vocabulary -> batch -> model -> loss -> trainer
-> checkpoint -> translator -> metrics.  Each step is one sub-package: `nmtlib.data`,
`nmtlib.model`, `nmtlib.training`, `nmtlib.inference`.

    from nmtlib import load
    load("toy-de-en").translate(["der Hund schläft ."])
"""

import os
import sys
from importlib import import_module
from typing import Any

# By default torch's CPU threads spin while they wait for each other.  As soon as another program
# uses a core, they spin away the time of the thread that they wait for, and training becomes tens
# of times slower.  The policy is read when torch is first imported and cannot be changed later, so
# import nmtlib before torch; the command line does, notebooks take one thread instead
# (`plots.setup`), and a training with threads that spin says so.
SPINNING = "torch" in sys.modules and os.environ.get("OMP_WAIT_POLICY", "").lower() != "passive"
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

__version__ = "0.1.0"

# Where each public name lives.  It is imported when it is first used, so `import nmtlib` is quick.
PUBLIC = {
    "Corpus": "nmtlib.data.corpus",
    "Settings": "nmtlib.settings",
    "Transformer": "nmtlib.model.transformer",
    "TransformerConfig": "nmtlib.model.config",
    "Translator": "nmtlib.inference.translator",
    "beam_search": "nmtlib.inference.search",
    "evaluate": "nmtlib.inference.evaluate",
    "greedy_search": "nmtlib.inference.search",
    "label_smoothed_loss": "nmtlib.training.loss",
    "load": "nmtlib.inference.translator",
    "load_corpus": "nmtlib.data.corpora",
    "load_settings": "nmtlib.presets",
    "train": "nmtlib.experiment",
}
MOVED = {"run_checks": "nmtcheck"}  # former names, and where they are now
__all__ = [*PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in PUBLIC:
        where = f"import it from {MOVED[name]}" if name in MOVED else f"it has {', '.join(PUBLIC)}"
        raise AttributeError(f"module 'nmtlib' has no attribute {name!r}; {where}")
    return getattr(import_module(PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *PUBLIC])
