"""What was recorded is what the notebooks ask for, is used, and can be made again."""

import dataclasses
import functools
import json
import os
import random
import statistics
import subprocess
import sys
import types
from pathlib import Path

import asking
import course_records
import nbformat
import numpy as np
import pytest
import torch
from nightly import some

from nmtcourse.teaching import load_toy, records
from nmtcourse.teaching.inputs import read_inputs
from nmtcourse.teaching.records import by_seed, plain
from nmtlib import Translator
from nmtlib.data import Vocab

BOOKS = [path for path in course_records.books() if course_records.names(path)]
PAGE = """
import torch
from functools import cache

SHARES = {7: 3}

@cache
def weight(seed):
    return seed * len(str(SHARES))

def doubled(seed):
    return helped(seed)

def helped(seed):
    return {"y": torch.tensor([2.0 * seed]), 7: (weight(seed), 1 / 3)}
"""


@pytest.fixture
def page(monkeypatch):
    """A page whose function `doubled` is recorded with the seeds 1, 2, 3: each gave -1."""
    monkeypatch.delenv("NMTLIB_RECORDED_SEEDS", raising=False)  # `make test-notebooks` sets it
    names = asking.page(PAGE)
    inputs = read_inputs(names["doubled"])
    code = {name: f"{text}  # 注释" for name, text in inputs.code.items()}  # of the Chinese page
    recorded = {"code": code, "data": inputs.data, "seeds": [1, 2, 3], "found": {"()": [-1] * 3}}
    monkeypatch.setattr(records, "records", lambda: {"99.doubled": recorded})
    return names


def ask(page, *arguments, name="99.doubled", seeds=(1, 2, 3), live=1):
    return by_seed(name, page["doubled"], *arguments, seeds=seeds, live=live)


@pytest.mark.slow
def test_the_first_seeds_run_and_the_others_are_recorded(page, capsys):
    first = {"y": [2.0], 7: [6, 0.3333]}
    assert ask(page) == [first, -1, -1] and ask(page).note == "seeds 2, 3 recorded"
    assert ask(page, live=0) == [-1] * 3 and ask(page, live=0).note == "recorded"
    assert ask(page, live=2)[2] == -1 and ask(page, live=2).note == "seed 3 recorded"
    assert ask(page, live=3)[0] == first and ask(page, live=3).note == ""
    assert ask(page).notes == ["", "recorded", "recorded"]
    assert capsys.readouterr().out == ""


CHANGES = {
    "SHARES = {7: 4}": "SHARES changed since the record was made",
    "SHARES = {7: 3.0}": "SHARES changed since the record was made",
    "SHARES = torch.nn.Linear(1, 1)": "no record can name SHARES, a model (Linear), whose weights",
    "SHARES = object()": "no record can name SHARES, of type object",
    "def helped(seed): return {'y': 0}": "helped, weight, torch, SHARES, cache changed since",
    "def doubled(seed, more=0): return helped(seed)": "doubled, doubled, defaults changed since",
    "@cache\ndef weight(seed): return 0": "weight, SHARES changed since the record was made",
    "weight = doubled": "weight, SHARES, cache changed since the record was made",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_page_runs_all_seeds_and_says_what_changed(page, capsys, change):
    assert ask(page, live=0) == [-1] * 3
    asking.page(change, into=page)
    values = by_seed("99.doubled", run_instead(page["doubled"]), seeds=(1, 2, 3), live=0)
    said = capsys.readouterr().out
    assert values == ["it ran"] * 3 and values.note == ""
    assert said.endswith("; all seeds run now\n") and said.startswith("99.doubled: ")
    assert CHANGES[change] in said


def test_other_arguments_seeds_and_names_run_all_seeds(page, capsys):
    asking.page("def doubled(*arguments): return helped(arguments[-1])", into=page)
    inputs = read_inputs(page["doubled"])
    records.records()["99.doubled"].update(code=inputs.code, data=inputs.data)
    for arguments, options, reason in [
        ((5,), {}, "no record has the arguments (5)"),
        ((torch.nn.Linear(1, 1),), {}, "no record can name an argument a model (Linear)"),
        ((page["helped"],), {}, "no record can name an argument helped"),
        ((), {"seeds": (1, 2, 4)}, "no record has the seeds 1, 2, 4"),
        ((), {"name": "99.else"}, "no record has the arguments ()"),
    ]:
        values = ask(page, *arguments, **options, live=0)
        assert len(values) == 3 and -1 not in values
        assert reason in capsys.readouterr().out
    assert ask(page, live=0) == [-1] * 3


def draw_numbers():
    return torch.rand(1).item(), random.random(), np.random.rand()


def test_an_experiment_leaves_the_random_numbers_of_the_next_cell(page):
    asking.page("import random, numpy as np", into=page)
    asking.page("def doubled(seed): return torch.rand(3), random.random(), np.random.rand()", page)
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()
    without = draw_numbers()
    for restore, state in zip(
        (torch.set_rng_state, random.setstate, np.random.set_state), states, strict=True
    ):
        restore(state)
    assert len(ask(page, live=3)) == 3
    assert draw_numbers() == without


def test_recorded_seeds_may_stand_for_live_ones(page, monkeypatch, capsys):
    monkeypatch.setenv("NMTLIB_RECORDED_SEEDS", "1")
    assert ask(page) == [-1] * 3 and ask(page).note == "seeds 2, 3 recorded"
    page["SHARES"] = {7: 4}  # not for an experiment that is another one now
    assert ask(page)[0]["y"] == [2.0]
    assert "SHARES changed" in capsys.readouterr().out


@pytest.mark.slow
def test_a_cache_that_was_filled_with_other_data_is_emptied(page):
    before = ask(page)[0][7][0]
    page["SHARES"] = {7: 3000}
    assert ask(page)[0][7][0] == 9 and before == 6
    page["SHARES"] = {7: 3}
    assert ask(page)[0][7][0] == before
    assert page["weight"].cache_info().currsize == 1
    ask(page)
    assert page["weight"].cache_info().hits == 1  # it is kept where nothing changed


# What the notebooks have


def run_instead(function):
    """Something that `by_seed` takes for a function of a page, and that only says that it ran."""

    @functools.wraps(function)
    def ran(*arguments):
        return "it ran"

    return ran


@pytest.mark.nightly
def test_the_records_are_of_the_code_and_data_that_the_notebooks_have():
    for path in BOOKS:
        read = {}
        for name, function, arguments, seeds in asking.experiments(path):
            if (name, function) not in read:
                read[name, function] = read_inputs(function)
            record = records.records()[name]
            reason = records.difference(record, read[name, function], arguments, seeds)
            assert not reason, f"{name}: {reason}; run benchmarks/course_records.py {name}"


SAYS_SO = (".note", "common_note(", "draw_seeds(", "pictures.seeds(")


def test_a_page_says_what_was_recorded_where_it_shows_it():
    """Between a question for a record and the next, a row or a legend shows the note."""
    for path in BOOKS:
        cells = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
        places = [i for i, cell in enumerate(cells) if [*course_records.asked_in(cell.source)]]
        for place, following in zip(places, [*places[1:], len(cells)], strict=True):
            shown = cells[place:following]
            printed = "".join(out.get("text", "") for cell in shown for out in cell.outputs)
            drawn = any(said in cell.source for cell in shown for said in SAYS_SO)
            assert drawn or "recorded" in printed, f"{path.stem}, {cells[place].id}"


# Another processor, hash seed and number of threads than those of the records.
ELSEWHERE = {
    "PYTHONHASHSEED": "7",
    "OMP_NUM_THREADS": "2",
    "ATEN_CPU_CAPABILITY": "default",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "MKL_CBWR": "COMPATIBLE",
}


@pytest.mark.nightly
def test_what_the_records_depend_on_is_the_same_on_another_processor():
    root = Path(asking.__file__).parents[1]
    folders = [root, root / "tests", root / "benchmarks"]
    environment = os.environ | ELSEWHERE | {"PYTHONPATH": os.pathsep.join(map(str, folders))}
    command = [sys.executable, asking.__file__, *map(str, BOOKS)]
    done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    elsewhere = json.loads(done.stdout)
    assert elsewhere.keys() == records.records().keys()
    for name, record in records.records().items():
        for kind in ("code", "data"):
            assert elsewhere[name][kind] == record[kind], f"{name}: its {kind}"


def another(value, page):
    """A value of the same kind that is not the same."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return f"{value} "
    if value is None:
        return 0
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return value._replace(**{value._fields[0]: another(value[0], page)})
    if isinstance(value, list | tuple):
        return value[:-1]
    if isinstance(value, dict):
        return value | {key: another(value[key], page) for key in [*value][:1]}
    if isinstance(value, torch.Tensor):
        return torch.cat([value[1:], value[:1]]) if (value != value[0]).any() else value + 1
    if isinstance(value, Translator):
        return load_toy("en-zh" if value.target.vocab.tokens[-1].isascii() else "de-en")
    if isinstance(value, Vocab):
        return Vocab(value.tokens[:-1])
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        name = dataclasses.fields(value)[0].name
        return dataclasses.replace(value, **{name: another(getattr(value, name), page)})
    if isinstance(value, types.ModuleType):
        return statistics
    if isinstance(value, type):
        return type(value.__name__, (value,), {"__module__": "__main__"})
    assert callable(value), f"no other value is known for {type(value)}"
    return asking.page("def changed(*arguments): return arguments", into=page)["changed"]


# The records of every sixth notebook are tried at a commit, all of them at night.
@pytest.mark.nightly
@pytest.mark.parametrize("path", some(BOOKS, every=6), ids=lambda path: path.stem)
def test_an_old_number_never_appears_for_a_changed_experiment(path, capsys):
    """Each global that a recorded function reads, and each argument, is changed in turn."""
    seen = set()
    for name, function, arguments, seeds in asking.experiments(path):
        spy = run_instead(function)
        unchanged = by_seed(name, spy, *arguments, seeds=seeds, live=0)
        assert unchanged == records.records()[name]["found"][records.key(arguments)]
        for i in range(len(arguments)):
            changed = [*arguments]
            changed[i] = another(arguments[i], {})
            while records.key(changed) in records.records()[name]["found"]:
                changed[i] = another(changed[i], {})
            assert by_seed(name, spy, *changed, seeds=seeds, live=0) == ["it ran"] * len(seeds)
        if name not in seen:
            seen.add(name)
            page, read = asking.page_of(function), asking.globals_of(function)
            assert read
            for global_name in read:
                kept = page[global_name]
                page[global_name] = another(kept, page)
                capsys.readouterr()
                values = by_seed(name, spy, *arguments, seeds=seeds, live=0)
                assert values == ["it ran"] * len(seeds), f"{name} ignores {global_name}"
                assert global_name in capsys.readouterr().out
                page[global_name] = kept
            assert by_seed(name, spy, *arguments, seeds=seeds, live=0) == unchanged


# What is recorded


def test_every_record_is_asked_for_and_everything_asked_for_is_recorded():
    asked = [name for path in BOOKS for name in course_records.names(path)]
    assert asked == [*records.records()] and len(asked) == len(set(asked))
    assert all(name[:2] == path.name[:2] for path in BOOKS for name in course_records.names(path))


def numbers(found):
    """All numbers of what a seed gave, in their order."""
    if isinstance(found, dict):
        found = list(found.values())
    if isinstance(found, list):
        return [number for one in found for number in numbers(one)]
    return [] if isinstance(found, str) else [float(found)]


ROOM = 0.05  # as much as two processors may differ where a notebook prints a number


def agree(made, recorded) -> bool:
    """Whether two seeds' numbers are alike; another processor rounds otherwise."""
    mine, theirs = numbers(made), numbers(recorded)
    if len(mine) != len(theirs):
        return False
    off = statistics.median(abs(a - b) for a, b in zip(mine, theirs, strict=True))
    return off <= ROOM * statistics.mean(map(abs, theirs))


@pytest.mark.nightly
@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_a_recorded_seed_can_be_made_again_and_the_notebook_holds_with_it(path):
    """The second seed of every record runs again; the cells assert their claims on it."""
    made_again = []

    def remade(name, function, *arguments, seeds=(0, 1, 2), live=1):
        recorded = records.records()[name]["found"][records.key(arguments)]
        made = plain(function(*arguments, seeds[1]))
        assert agree(made, recorded[1]), f"{name}{records.key(arguments)} gives other numbers"
        made_again.append(name)
        return records.Runs([recorded[0], made, *recorded[2:]], seeds)

    course_records.run(path, remade)
    assert set(made_again) == set(course_records.names(path))
