"""The environment check sees a missing package, another version, a missing file, an old Python."""

import subprocess
import sys
from importlib import metadata
from pathlib import Path

from nmtcourse.teaching import style
from nmtcourse.teaching.environment import SHIPPED, compare

ROOT = Path(__file__).resolve().parents[2]
PINS = {"torch": "2.13.0", "numpy": "2.4.6"}


def installed(versions):
    """What `metadata.version` would say where just these packages are installed."""

    def version(name):
        if name not in versions:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    return version


def test_a_missing_package_is_named_with_the_command_that_installs_it():
    report = compare(PINS, installed=installed({"torch": "2.13.0"}))
    assert not report.complete
    assert report.missing == {"numpy": "2.4.6"} and report.same == {"torch": "2.13.0"}
    command = next(line for line in str(report).splitlines() if "%pip install" in line)
    assert command.split()[2:] == ["numpy==2.4.6"]


def test_the_shipped_files_are_those_that_the_course_loads():
    models = (ROOT / "nmtlib" / "trained").glob("*/model.safetensors")
    assert {ROOT / file for file in SHIPPED} == {*models, style.CJK_FONT}


def test_it_runs_where_nothing_but_the_standard_library_can_be_imported():
    # -S leaves site-packages out, and with them torch and the installed nmtlib.
    done = subprocess.run(
        [sys.executable, "-S", "-m", "nmtcourse.teaching.environment"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "missing        torch" in done.stdout, done.stderr
