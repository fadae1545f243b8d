"""The figures in README.md are those of the result files, and the result files say where they come
from.
"""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest

from nmtlib.presets import load_settings

ROOT = Path(__file__).parents[1]
RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.json"))
EVALUATIONS = [path for path in RESULTS if "-beam" in path.name]


def readme(*arguments):
    command = [sys.executable, str(ROOT / "benchmarks" / "readme.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_readme_shows_the_results_that_are_committed():
    done = readme("--check")
    assert done.returncode == 0, done.stderr


def test_a_figure_changed_by_hand_is_noticed(tmp_path):
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        import readme as script
    finally:
        sys.path.pop(0)
    text = (ROOT / "README.md").read_text("utf-8")
    bleu = f"{json.loads(EVALUATIONS[0].read_text('utf-8'))['scores']['bleu']:.2f}"
    assert bleu in text
    assert (
        script.fill("README.md", text.replace(bleu, "99.99"))
        == script.fill("README.md", text)
        == text
    )
    with pytest.raises(ValueError, match="has no <!-- "):
        script.fill("README.md", "# nothing")


@pytest.mark.parametrize("path", EVALUATIONS, ids=lambda path: path.stem)
def test_a_result_names_command_seed_machine_and_signature_and_no_path_of_its_machine(path):
    text = path.read_text("utf-8")
    found = json.loads(text)
    assert found["command"].startswith("nmtlib ")
    assert found["training"]["command"].startswith(("nmtlib train ", "time_to_bleu.py "))
    assert isinstance(found["training"]["seed"], int) and found["machine"]["torch"]
    assert "tok:" in found["scores"]["signature"] and "version:" in found["scores"]["signature"]
    assert '"/' not in text and "/tmp" not in text and "/work" not in text and "/home" not in text


def test_the_results_that_the_readme_promises_are_there():
    names = {path.name for path in RESULTS}
    for preset in (
        "toy-de-en-test-beam5",
        "toy-de-en-challenge-beam5",
        "multi30k-de-en-test-beam1",
        "multi30k-de-en-test-beam5",
        "cmn-en-zh-test-beam5",
        "train",
    ):
        assert f"{preset}.json" in names


@pytest.mark.parametrize(
    "path", sorted((ROOT / "benchmarks" / "results").glob("time-to-*")), ids=lambda p: p.stem
)
def test_a_measured_training_can_be_repeated_by_its_command(path):
    found = json.loads(path.read_text("utf-8"))
    words = found["command"].split()
    assignments = [value for key, value in itertools.pairwise(words) if key == "--set"]
    assignments += [
        f"training.{key}={value}"
        for key in ("seed", "device")
        for word, value in itertools.pairwise(words)
        if word == f"--{key}"
    ]
    settings = json.loads(load_settings(found["preset"]).with_assignments(assignments).to_json())
    for one in (settings, found["settings"]):
        del one["decoding"]  # what is measured there is greedy
    assert settings == found["settings"], "the preset has changed since: measure again"
