"""The result of benchmarks/mutation.py is taken again when what it depends on has changed."""

import json
import shutil
import sys
from pathlib import Path

import mutation
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tree(tmp_path):
    """A small tree with a source in every place that counts, and two that do not."""
    counts = ["nmtlib/run.py", "nmtcheck/causes.toml", "benchmarks/mutation.py"]
    counts += [f"{room}/deep/a.py" for room in mutation.ROOMS]
    for name in [*counts, "nmtcourse/teaching/a.py", "nmtcourse/recipes/a.py", "nmtlib/data/a.txt"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"in {name}", "utf-8")
    return tmp_path, counts


def test_the_digest_follows_every_source_that_counts_and_no_other(tree):
    root, counts = tree
    before = mutation.source_digest(root)
    (root / "nmtcourse" / "teaching" / "a.py").write_text("other", "utf-8")
    (root / "nmtlib" / "data" / "a.txt").write_text("other", "utf-8")
    shutil.rmtree(root / "nmtcourse" / "recipes")
    assert mutation.source_digest(root) == before
    digests = {before}
    for name in counts:
        (root / name).write_text("other", "utf-8")
        digests.add(mutation.source_digest(root))
    assert len(digests) == len(counts) + 1
    (root / "nmtlib" / "run.py").rename(root / "nmtlib" / "runs.py")
    assert mutation.source_digest(root) not in digests


@pytest.fixture
def result():
    """A result that is current."""
    bugs = [{"key": bug.key, "planted": True} for bug in mutation.BUGS]
    counts = {"planted": len(bugs), "caught": len(bugs)}
    return {"sources": "abc", **counts, "clean": {"failed": {}}, "bugs": bugs}


def test_a_result_is_current_only_if_of_these_sources_complete_and_without_a_miss(result):
    assert mutation.is_current(result, "abc")
    assert not mutation.is_current(result, "abd")
    assert not mutation.is_current({**result, "bugs": result["bugs"][:-1]}, "abc")
    assert not mutation.is_current({**result, "caught": result["caught"] - 1}, "abc")
    missed = [*result["bugs"][:-1], {**result["bugs"][-1], "missed_by": ["loss.finite"]}]
    assert not mutation.is_current({**result, "bugs": missed}, "abc")
    assert not mutation.is_current({**result, "clean": {"failed": {"loss.finite": {}}}}, "abc")
    old = {key: value for key, value in result.items() if key != "sources"}
    assert not mutation.is_current(old, "abc")


def test_a_current_result_is_not_taken_again(result, tmp_path, monkeypatch, capsys):
    file = tmp_path / "mutation.json"
    file.write_text(json.dumps({**result, "sources": mutation.source_digest()}), "utf-8")
    monkeypatch.setattr(mutation, "RESULT", file)
    monkeypatch.setattr(sys, "argv", ["mutation.py", "--if-changed"])
    assert mutation.main() == 0
    assert "sources unchanged since the committed result" in capsys.readouterr().out
    file.write_text(json.dumps(result), "utf-8")
    monkeypatch.setattr(mutation, "measure", lambda *options: pytest.fail("it is taken again"))
    with pytest.raises(pytest.fail.Exception, match="taken again"):
        mutation.main()


def test_the_page_shows_the_committed_result():
    result = json.loads(mutation.RESULT.read_text("utf-8"))
    assert mutation.table(result) == (ROOT / "benchmarks" / "MUTATION.md").read_text("utf-8")
