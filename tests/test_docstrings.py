"""The examples in docstrings give what they show."""

import doctest
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXAMPLES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(ROOT.glob("nmt*/**/*.py"))
    if ">>> " in path.read_text("utf-8")
]


def test_the_examples_of_a_module_are_true():
    for module in EXAMPLES:
        done = doctest.testmod(import_module(module))
        assert done.attempted and not done.failed
