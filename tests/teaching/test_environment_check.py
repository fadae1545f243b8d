"""The environment check sees a missing package, another version, a missing file, an old Python."""

import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from nmtcourse.teaching import environment, style
from nmtcourse.teaching.environment import (
    REQUIREMENTS,
    SHIPPED,
    check_environment,
    compare,
    pins,
)

ROOT = Path(__file__).resolve().parents[2]
WANTED = {"torch": "2.13.0", "numpy": "2.4.6"}


def installed(versions):
    """What `metadata.version` would say where just these packages are installed."""

    def version(name):
        if name not in versions:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    return version


def test_all_is_well_when_every_version_is_the_wanted_one():
    found = compare(WANTED, installed=installed(WANTED))
    assert found.complete and not found.different and found.same == WANTED
    assert str(found).splitlines()[-1] == "everything is there" and "install" not in str(found)


@pytest.mark.parametrize("name", WANTED)
def test_a_missing_package_is_named_with_the_command_that_installs_it(name):
    rest = {other: version for other, version in WANTED.items() if other != name}
    found = compare(WANTED, installed=installed(rest))
    assert not found.complete and found.missing == {name: WANTED[name]} and found.same == rest
    command = next(line for line in str(found).splitlines() if "%pip install" in line)
    assert command.split()[2:] == [f"{name}=={WANTED[name]}"]


def test_another_version_is_named_but_does_not_make_the_environment_incomplete():
    found = compare(WANTED, installed=installed(WANTED | {"torch": "2.9.1"}))
    assert found.complete and found.different == {"torch": ("2.9.1", "2.13.0")}
    assert "2.9.1" in str(found) and "%pip install torch==2.13.0" in str(found)
    assert "everything is there" not in str(found)


def test_a_build_of_the_same_version_is_the_same():
    assert compare(WANTED, installed=installed(WANTED | {"torch": "2.13.0+cpu"})).same == WANTED


def test_a_damaged_installation_counts_as_missing():
    found = compare(WANTED, installed=installed(WANTED | {"numpy": None}))
    assert found.missing == {"numpy": "2.4.6"}


def test_files_that_nmtlib_ships_are_looked_for(tmp_path):
    for file in SHIPPED[1:]:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    found = compare(WANTED, installed=installed(WANTED), folder=tmp_path)
    assert found.absent == SHIPPED[:1] and not found.complete and SHIPPED[0] in str(found)


def test_the_shipped_files_are_those_that_the_course_loads():
    models = (ROOT / "nmtlib" / "trained").glob("*/model.safetensors")
    assert {ROOT / file for file in SHIPPED} == {*models, style.CJK_FONT}


def test_an_old_python_is_named():
    found = compare(WANTED, installed=installed(WANTED), python=(3, 10, 4))
    assert not found.complete and "3.10.4" in str(found)
    assert compare(WANTED, installed=installed(WANTED), python=(3, 11, 0)).complete


def test_the_oldest_python_is_that_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["requires-python"] == ">=" + ".".join(map(str, environment.PYTHON))


def test_every_package_of_the_projects_requirements_is_compared():
    text = REQUIREMENTS.read_text("utf-8")
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    named = [line.partition("==")[0] for line in lines if "==" in line]
    found = check_environment()
    assert sorted({**found.same, **found.different, **found.missing}) == sorted(named) and named


def test_comments_blank_lines_and_the_project_itself_are_no_pins():
    assert pins("# a==1\n\ntorch==2.13.0 # b==2\n-e .\nnumpy>=1\n") == {"torch": "2.13.0"}


def test_a_wrong_file_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere.txt"):
        check_environment(tmp_path / "nowhere.txt")
    (tmp_path / "empty.txt").write_text("-e .\n")
    with pytest.raises(ValueError, match="torch==2.13.0"):
        check_environment(tmp_path / "empty.txt")


def test_it_runs_where_nothing_but_the_standard_library_can_be_imported():
    # -S leaves site-packages out, and with them torch and the installed nmtlib.
    done = subprocess.run(
        [sys.executable, "-S", "-m", "nmtcourse.teaching.environment"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "missing        torch" in done.stdout, done.stderr
