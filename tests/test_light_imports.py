"""Importing the package is quick: heavy libraries wait for their first use."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HEAVY = {"spacy", "nltk", "sacrebleu", "matplotlib", "seaborn", "pandas", "jupyter", "IPython"}
HEAVY |= {"torch.distributed.tensor", "torch.distributed.checkpoint"}

IMPORT_ALL = f"""
import importlib, json, pkgutil, sys

def load(name):
    module = importlib.import_module(name)
    found[name] = sorted({HEAVY!r} & set(sys.modules))
    return module

found = {{}}
for info in pkgutil.walk_packages(load("nmtlib").__path__, "nmtlib."):
    if info.name != "nmtlib.__main__":
        load(info.name)
print(json.dumps(found))
"""


def run_python(code: str) -> str:
    """The last line that a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize("first", ["torch", "nmtlib"])
def test_threads_spin_where_torch_comes_first(first, monkeypatch):
    monkeypatch.delenv("OMP_WAIT_POLICY")
    code = f"import {first}, torch, nmtlib; print(nmtlib.SPINNING)"
    assert run_python(code) == str(first == "torch")


@pytest.mark.slow
def test_no_module_imports_a_heavy_library():
    found = json.loads(run_python(IMPORT_ALL))
    assert {
        "nmtlib",
        "nmtlib.data.codec",
        "nmtlib.data.tokenizers",
        "nmtlib.inference.metrics",
    } <= set(found)
    first = next((name for name, heavy in found.items() if heavy), None)
    assert first is None, (
        f"importing {first} imports {found[first]}; import it inside the function that needs it"
    )


@pytest.mark.slow
def test_help_imports_neither_torch_nor_what_a_command_needs():
    code = (
        "import sys; from nmtcourse.main import build_parser; build_parser(); print(*sys.modules)"
    )
    loaded = set(run_python(code).split())
    assert "nmtcourse.homework.commands" in loaded, "the commands of entry points are among them"
    assert not loaded & {"torch", "numpy", "nmtlib.experiment", "nmtcheck.report.runner"}


@pytest.mark.slow
def test_the_command_line_starts_at_most_a_second_after_torch():
    clock = "time.process_time()"  # other programs do not count
    code = f"import time, torch; start = {clock}; import nmtlib.cli; print({clock} - start)"
    assert float(run_python(code)) <= 1
