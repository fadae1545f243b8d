"""pyproject.toml, the requirements, environment.yml and what is installed tell one story."""

import runpy
import tomllib
from importlib.metadata import version
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = ("moses", "export", "browser")  # what a student does not need


def lines(name: str) -> list[str]:
    """The lines of a file of requirements that pip acts on."""
    rows = (ROOT / name).read_text("utf-8").splitlines()
    return [line for row in rows if (line := row.split("#")[0].strip())]


def pins(name: str) -> dict[str, str]:
    """Package -> exact version; raises ValueError for a line that is no pin."""
    packages = (line for line in lines(name) if not line.startswith("-"))
    return {canonicalize_name(package): pin for package, pin in (p.split("==") for p in packages)}


def ranges(requirements: list[str]) -> dict[str, SpecifierSet]:
    """Package -> allowed versions."""
    parsed = map(Requirement, requirements)
    return {canonicalize_name(each.name): each.specifier for each in parsed}


OPTIONAL = PROJECT["optional-dependencies"]
STUDENT = ranges(
    PROJECT["dependencies"] + [r for n, rs in OPTIONAL.items() if n not in EXTRAS for r in rs]
)
BENCHMARKS = ranges([line for name in EXTRAS for line in OPTIONAL[name]])
PINS = pins("requirements.txt") | pins("requirements-extras.txt")


def test_a_student_installs_the_course_and_its_tests_and_nothing_else():
    assert lines("requirements.txt")[-1] == "-e ."
    assert pins("requirements.txt").keys() == STUDENT.keys()


def test_the_pin_lies_inside_the_range_and_is_installed():
    for name, allowed in (STUDENT | BENCHMARKS).items():
        assert len(allowed) > 0, f"give {name} a lower bound"
        assert allowed.contains(PINS[name])
    for name, allowed in STUDENT.items():
        installed = Version(version(name)).public  # "2.13.0+cpu" is a build of 2.13.0
        # The jobs with the oldest and the newest versions are inside the range, not at the pin.
        assert allowed.contains(installed), f"{name} {installed} is installed, not {allowed}"


def test_the_oldest_versions_are_the_lower_bounds():
    oldest = runpy.run_path(str(ROOT / ".github" / "oldest.py"))["oldest"]()
    bounds = dict(line.split("==") for line in oldest)
    assert {canonicalize_name(name) for name in bounds} == (STUDENT | BENCHMARKS).keys()
    assert all((STUDENT | BENCHMARKS)[canonicalize_name(n)].contains(v) for n, v in bounds.items())


def test_environment_yml_leaves_every_version_to_requirements_txt():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))
    python, *rest = environment["dependencies"]
    expected = ["pip", {"pip": ["-r requirements.txt"]}]
    assert rest == expected, "a conda package would escape the pins"
    assert SpecifierSet(PROJECT["requires-python"]).contains(python.removeprefix("python="))
