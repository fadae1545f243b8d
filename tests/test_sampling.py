"""What runs at a commit is the same in each process, changes with the sources, misses nothing."""

import json
import os
import subprocess
import sys

import explorer_engine
import homework
import pytest
import sampling
from digests import digest_of
from sampling import ROOT, sampled

CASES = list(range(60))


@pytest.fixture
def on_day(monkeypatch):
    """Lets sources of another digest choose; the night is over."""
    monkeypatch.delenv("NMTLIB_ALL", raising=False)
    return lambda digest: monkeypatch.setattr(sampling, "today", lambda: str(digest))


def test_the_same_sources_choose_the_same_cases_and_others_choose_others(on_day):
    chosen = []
    for day in range(20):
        on_day(day)
        assert sampled(CASES, "some", count=5) == sampled(CASES, "some", count=5)
        chosen.append(tuple(sampled(CASES, "some", count=5)))
    assert len(set(chosen)) == 20 and all(list(some) == sorted(some) for some in chosen)
    assert sampled(CASES, "some", count=5) != sampled(CASES, "others", count=5)


def test_another_process_with_another_hash_seed_chooses_the_same(monkeypatch):
    program = "import sampling; print(sampling.sampled(range(60), 'some', count=5))"
    monkeypatch.delenv("NMTLIB_ALL", raising=False)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([f"{ROOT}/tests", f"{ROOT}/benchmarks"]))
    said = []
    for seed in ("1", "2"):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        said.append(json.loads(subprocess.check_output([sys.executable, "-c", program])))
    assert said[0] == said[1] == sampled(range(60), "some", count=5)


def test_every_case_has_its_turn(on_day):
    seen = set()
    for day in range(80):
        on_day(day)
        seen.update(sampled(CASES, "some", share=0.1))
    assert seen == set(CASES)


def test_a_sample_has_its_size_in_each_group_and_no_group_is_left_out(on_day):
    on_day(0)
    assert len(sampled(CASES, "some", share=0.1)) == 6
    assert len(sampled(CASES, "some", count=4, share=0.05)) == 4
    assert len(sampled(CASES, "some", count=100)) == len(CASES)
    by_group = sampled(CASES, "some", by=lambda case: case % 7)
    assert sorted(case % 7 for case in by_group) == list(range(7))
    assert sampled([], "some") == []


def test_at_night_all_run_and_where_a_sample_is_not_enough(on_day, monkeypatch):
    on_day(0)
    assert sampled(CASES, "some", enough=False) == CASES
    monkeypatch.setenv("NMTLIB_ALL", "1")
    assert sampled(CASES, "some", by=lambda case: case % 7) == CASES


def test_a_digest_follows_names_and_contents_of_what_fits_and_of_nothing_else(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.py").write_text("1", "utf-8")
    before = digest_of(tmp_path, "a/**/*.py")
    (tmp_path / "a" / "b.txt").write_text("1", "utf-8")
    assert digest_of(tmp_path, "a/**/*.py", "**/b.py") == before
    (tmp_path / "a" / "b.py").write_text("2", "utf-8")
    assert digest_of(tmp_path, "a/**/*.py") != before
    (tmp_path / "a" / "b.py").write_text("1", "utf-8")
    (tmp_path / "a" / "b.py").rename(tmp_path / "a" / "c.py")
    assert digest_of(tmp_path, "a/**/*.py") != before


@pytest.mark.parametrize("name", ["nmtlib/model/masks.py", "tests/sampling.py"])
def test_the_sources_are_those_of_the_package_and_of_the_tests(name):
    assert any(ROOT / name in set(ROOT.glob(pattern)) for pattern in sampling.SOURCES)


RECORDS = pytest.mark.parametrize("record", [homework, explorer_engine], ids=lambda m: m.__name__)


@RECORDS
def test_a_record_follows_every_kind_of_source_and_each_is_there(record, tmp_path):
    digests = {record.source_digest(tmp_path)}
    for pattern in record.SOURCES:
        source = next(path for path in sorted(ROOT.glob(pattern)) if path.is_file())
        copy = tmp_path / source.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        for text in ("one", "two"):
            copy.write_text(text, "utf-8")
            digests.add(record.source_digest(tmp_path))
    assert len(digests) == 1 + 2 * len(record.SOURCES)


def faultless(record):
    """A committed record as it is where nothing failed."""
    found = json.loads(record.RESULT.read_text("utf-8"))
    for row in found["tasks"] if record is homework else ():
        row.update(right_refused=0, wrong_accepted=0, named=row["known"])
    return found


@RECORDS
def test_a_record_of_other_sources_is_no_record(record, tmp_path, monkeypatch):
    found = faultless(record)
    monkeypatch.setattr(record, "RESULT", tmp_path / "result.json")
    for digest, same in ((record.source_digest(), True), ("0" * 64, False)):
        record.RESULT.write_text(json.dumps({**found, "sources": digest}), "utf-8")
        assert record.is_recorded() == same


@pytest.mark.parametrize(
    ("key", "more"), [("right_refused", 1), ("wrong_accepted", 1), ("named", -1)]
)
def test_grades_with_a_fault_or_without_a_task_are_no_record(key, more):
    found = faultless(homework)
    digest = found["sources"]
    assert homework.is_current(found, digest)
    assert not homework.is_current({**found, "tasks": found["tasks"][1:]}, digest)
    found["tasks"][5][key] += more
    assert not homework.is_current(found, digest)
