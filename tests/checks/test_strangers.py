"""Scripts in four well-known styles get a verdict for a few lines, and their bugs a name.

The adapters of three of them are those of docs/checks.md.
"""

import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from nightly import some
from torch import nn

from nmtcheck import Adapter, called, lift, load_adapter, run_checks
from nmtcheck.connect.standins import Vocabulary
from nmtcourse.main import main

ROOT = Path(__file__).parents[2]
STRANGERS = Path(__file__).with_name("strangers")
BLOCK = re.compile(r"<!-- adapter:(\w+) -->\n```python\n(.*?)```", re.DOTALL)
ADAPTERS = dict(BLOCK.findall((ROOT / "docs" / "checks.md").read_text("utf-8")))
MOST_LINES = dict.fromkeys(["annotated", "time_major", "fields"], 12)
SEARCH = ["search", "decoding"]
# All that these adapters have parts for, but for the checks that train a model first.
QUICK = ["positions", "masks", "layers", "training", "run", "validation", "decoding.eval_mode"]
QUICK += ["model.shape", "model.batch_invariance", "model.eval_repeats"]


def adapter(style, folder, monkeypatch, old="", new=""):
    """The adapter of a stranger in which one snippet is replaced."""
    text = (STRANGERS / f"{style}.py").read_text("utf-8")
    assert text.count(old) == 1 or not old, f"{old!r} stands {text.count(old)} times in {style}"
    (folder / f"{style}.py").write_text(text.replace(old, new) if old else text, "utf-8")
    monkeypatch.chdir(folder)
    if style == "lengths":
        return lengths()
    (folder / "mine.py").write_text(ADAPTERS[style], "utf-8")
    made = load_adapter("mine.py:make")
    return replace(made, epoch=epoch_of_fields()) if style == "fields" else made


def epoch_of_fields():
    their, criterion = lift("fields.py", "train", "evaluate"), nn.CrossEntropyLoss(ignore_index=1)

    def epoch(model, batches, training):
        if training:
            optimizer = torch.optim.Adam(model.parameters())
            return their.train(model, batches, optimizer, criterion, clip=1)
        return their.evaluate(model, batches, criterion)

    return epoch


def lengths():
    their = lift("lengths.py", "Transformer")
    sizes = ("source_vocab_size", "target_vocab_size", "d_model", "d_ff", "n_heads", "n_layers")
    return Adapter(
        make_model=lambda s: their.Transformer(*(getattr(s, n) for n in sizes), s.dropout),
        logits=called(lengths=True),
    )


def test_the_adapters_are_short():
    lines = {n: sum(1 for line in code.splitlines() if line) for n, code in ADAPTERS.items()}
    assert lines.keys() == MOST_LINES.keys()
    assert all(lines[name] <= most for name, most in MOST_LINES.items()), lines


@pytest.mark.slow
@pytest.mark.parametrize(
    ("style", "passed"),
    some([("annotated", 17), ("time_major", 24), ("fields", 28), ("lengths", 17)], every=2),
)
def test_a_healthy_stranger_raises_no_alarm(style, passed, tmp_path, monkeypatch):
    report = run_checks(adapter(style, tmp_path, monkeypatch))
    assert report.ok and len(report.passed) >= passed, str(report)


@pytest.mark.slow
def test_a_translation_of_one_string_into_another_is_read(tmp_path, monkeypatch):
    given = adapter("time_major", tmp_path, monkeypatch)
    words = Vocabulary(pad=1, bos=2, eos=3, unk=0)
    their = lift("time_major.py", "translate", vocab=words)
    spoken = replace(given, translate=lambda m, said, longest: their.translate(m, " ".join(said)))
    report = run_checks(spoken, only=SEARCH)
    assert report.ok and len(report.passed) >= 5, str(report)


@pytest.mark.slow
def test_a_function_with_the_usual_arguments_needs_no_adapter(tmp_path, monkeypatch, capsys):
    adapter("annotated", tmp_path, monkeypatch)
    assert main(["check", "--lift", "annotated.py:make_model", "--only", "masks"]) == 0
    assert "annotated: 4 passed" in capsys.readouterr().out
    # What cannot be imported is lifted: its main part downloads a corpus.
    assert main(["check", "annotated.py:make_model", "--only", "masks"]) == 0
    assert "annotated: 4 passed" in capsys.readouterr().out


BUGS = tomllib.loads((STRANGERS / "bugs.toml").read_text("utf-8"))["bug"]


@pytest.mark.slow
@pytest.mark.parametrize("bug", some(BUGS, by=lambda bug: bug["style"] in ("fields", "lengths")))
def test_a_bug_of_that_style_is_a_finding(bug, tmp_path, monkeypatch):
    only = SEARCH if bug["named"].startswith(("search.", "decoding.start")) else QUICK
    broken = adapter(bug["style"], tmp_path, monkeypatch, bug["old"], bug["new"])
    report = run_checks(broken, only=only)
    assert bug["named"] in {finding.check.id for finding in report.findings}, str(report)
    assert len(report.findings) <= 3, f"more than a bug or two\n{report}"
