"""Faults planted in the search and the evaluation of whole programs are found, with their cause."""

import json
import shutil
import tomllib

import pytest
from check_programs import PROGRAMS, plant
from nightly import some

from nmtcheck.command import main

LISTED = tomllib.loads((PROGRAMS / "FAULTS.toml").read_text("utf-8"))
FOUND = [fault for fault in LISTED["fault"] if "check" in fault]


def report_of(folder, program, *only, fault=None):
    """The report of a program, copied to a folder with or without a fault."""
    shutil.copytree(PROGRAMS / program, folder, dirs_exist_ok=True)
    if fault:
        plant(fault, folder)
    out = folder / "report.json"
    options = [x for name in only for x in ("--only", name)]
    main([f"{folder / 'adapter.py'}:make", "--json", str(out), *options])
    return json.loads(out.read_text("utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("fault", some(FOUND, every=6), ids=lambda fault: fault["name"])
def test_a_planted_fault_is_found_with_its_cause(fault, tmp_path):
    report = report_of(tmp_path, fault["program"], fault["check"], fault=fault)
    (result,) = report["results"]
    assert result["verdict"] == "failed", result
    said = result.get("cause") or result.get("fits")
    assert fault["words"] in said, said
    assert ("cause" in result) == fault.get("proved", True), result


@pytest.mark.slow
@pytest.mark.parametrize("program", some([*LISTED["programs"]], every=4))
def test_a_healthy_program_raises_no_alarm(program, tmp_path):
    report = report_of(tmp_path, program, "search", "evaluation")
    assert not report["findings"], report["findings"]
    passed = [r["check"] for r in report["results"] if r["verdict"] == "passed"]
    assert {"search.model", "search.successors", "evaluation.loss"} <= {*passed}, report["summary"]
