"""The result of benchmarks/mutation.py is taken again when what it depends on has changed."""

import json
import shutil
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


def test_the_page_shows_the_committed_result():
    result = json.loads(mutation.RESULT.read_text("utf-8"))
    assert mutation.table(result) == (ROOT / "benchmarks" / "MUTATION.md").read_text("utf-8")
