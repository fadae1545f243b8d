"""The pages show the figures of the result files, and those say where they come from."""

import itertools
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.json"))
EVALUATIONS = [path for path in RESULTS if "-beam" in path.name]


def readme(*arguments):
    command = [sys.executable, str(ROOT / "benchmarks" / "readme.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.slow
def test_the_pages_show_the_results_that_are_committed():
    done = readme("--check")
    assert done.returncode == 0, done.stderr


@pytest.fixture
def script(monkeypatch):
    """benchmarks/readme.py as a module."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import readme as script

    return script


def test_a_figure_changed_by_hand_is_noticed(script):
    page = "docs/results.md"
    text = (ROOT / page).read_text("utf-8")
    bleu = f"{json.loads(EVALUATIONS[0].read_text('utf-8'))['scores']['bleu']:.2f}"
    assert bleu in text
    assert script.fill(page, text.replace(bleu, "99.99")) == script.fill(page, text) == text
    with pytest.raises(ValueError, match="has no <!-- "):
        script.fill(page, "# nothing")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_graded_answer_is_what_the_command_says_today(script, language):
    shown = (script.RESULTS / f"homework-check-{language}.txt").read_text("utf-8")
    assert shown == script.grade_the_student(language)
    assert ("not scaled" if language == "en" else "缩放") in shown and 6 <= shown.count("\n") <= 8


def test_every_block_of_a_page_is_filled_by_the_script(script):
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    for page in pages:
        marks = re.findall(r"<!-- ([\w-]+):begin -->", page.read_text("utf-8"))
        filled = script.PAGES.get(page.relative_to(ROOT).as_posix(), {})
        assert sorted(marks) == sorted(filled), page.name


def test_the_best_search_is_the_one_that_scores_best(script, tmp_path, monkeypatch):
    preset = "multi30k-de-en"
    (name,) = [name for name, found in script.RUNS.items() if found == preset]
    found = json.loads((ROOT / f"benchmarks/results/{preset}-test-beam5.json").read_text("utf-8"))
    for beam, bleu in ((10, 11.1), (5, 99.4), (2, 12.3), (1, 99.9)):
        made = found | {"beam": beam, "scores": found["scores"] | {"bleu": bleu}}
        (tmp_path / f"{preset}-test-beam{beam}.json").write_text(json.dumps(made), "utf-8")
    monkeypatch.setattr(script, "RESULTS", tmp_path)
    assert "sacreBLEU 99.4 " in json.loads(script.records())[preset]["score"]
    (row,) = script.results({}).splitlines()[2:]
    assert row.startswith(f"| {name} |") and row.endswith("| 99.4 |")


@pytest.mark.parametrize("path", EVALUATIONS, ids=lambda path: path.stem)
def test_a_result_names_command_seed_machine_and_signature_and_no_path_of_its_machine(path):
    text = path.read_text("utf-8")
    found = json.loads(text)
    assert found["command"].startswith("nmtlib ")
    assert found["training"]["command"].startswith(("nmtlib train ", "time_to_bleu.py "))
    assert isinstance(found["training"]["seed"], int) and found["machine"]["torch"]
    assert "tok:" in found["scores"]["signature"] and "version:" in found["scores"]["signature"]
    assert '"/' not in text and "/tmp" not in text and "/work" not in text and "/home" not in text


def test_a_record_is_in_one_place(script):
    assert {path.name for path in script.SHIPPED.iterdir()} & {
        path.name for path in RESULTS
    } == set()


def test_every_preset_of_the_results_is_measured(script):
    names = {path.name for path in RESULTS}
    measured = {name: f"{name}-test-beam5.json" in names for name in script.RUNS.values()}
    assert all(measured.values()), measured


@pytest.mark.parametrize(
    "path", sorted((ROOT / "benchmarks" / "results").glob("time-to-*")), ids=lambda p: p.stem
)
def test_a_measured_training_says_how_it_is_repeated(path):
    """The settings stand in the file: the preset may change later, the measurement stays true."""
    found = json.loads(path.read_text("utf-8"))
    assert found["preset"] in found["command"] and found["machine"]["torch"]
    assert {"corpus", "tokenizer", "model", "training"} <= found["settings"].keys()
    words = found["command"].split()
    for key, value in itertools.pairwise(words):
        if key == "--set":
            section, _, name = value.partition("=")[0].rpartition(".")
            sections = [section] if section else ["tokenizer", "model", "training"]
            given = [
                str(found["settings"][s][name]) for s in sections if name in found["settings"][s]
            ]
            assert [float_or_text(one) for one in given] == [float_or_text(value.partition("=")[2])]
    assert found["points"] and all(point["seconds"] > 0 for point in found["points"])


def float_or_text(text: str) -> float | str:
    """A number where it is one: `3` and `3.0` are the same setting."""
    try:
        return float(text)
    except ValueError:
        return text
