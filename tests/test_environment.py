"""pyproject.toml, requirements.txt, environment.yml and what is installed must tell one story."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def requirement_lines() -> list[str]:
    """The lines of requirements.txt that pip acts on."""
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in (line.split("#")[0].strip() for line in lines) if line]


def pins() -> dict[str, str]:
    """Package -> exact version, from requirements.txt."""
    exact = [
        re.fullmatch(r"([A-Za-z0-9._-]+)==([0-9][0-9A-Za-z.]*)", line)
        for line in requirement_lines()
    ]
    return {canonicalize_name(match[1]): match[2] for match in exact if match}


def ranges() -> dict[str, SpecifierSet]:
    """Package -> allowed versions, from pyproject.toml: the core and all extras, since the tests
    need them.
    """
    extras = [line for extra in PROJECT["optional-dependencies"].values() for line in extra]
    requirements = [Requirement(line) for line in [*PROJECT["dependencies"], *extras]]
    return {
        canonicalize_name(requirement.name): requirement.specifier for requirement in requirements
    }


def test_requirements_are_exact_pins_and_then_the_project_itself():
    *packages, last = requirement_lines()
    assert last == "-e ."
    assert len(pins()) == len(packages), f"want one name==version a line: {packages}"


def test_every_dependency_is_pinned_and_nothing_else():
    assert set(PROJECT["optional-dependencies"]) == {"notebooks", "large", "export", "dev"}
    assert set(pins()) == set(ranges())


def test_torch_is_pinned_to_the_version_of_the_committed_results():
    assert pins()["torch"] == "2.13.0"


@pytest.mark.parametrize("name", ranges())
def test_the_pin_lies_inside_the_range_and_is_installed(name):
    pin, allowed = pins()[name], ranges()[name]
    assert len(allowed) > 0, "give a lower bound"
    assert allowed.contains(pin)
    assert Version(version(name)).public == pin  # "2.13.0+cpu" is a build of 2.13.0


def test_environment_yml_leaves_every_version_to_requirements_txt():
    dependencies = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))[
        "dependencies"
    ]
    python, *rest = dependencies
    assert rest == ["pip", {"pip": ["-r requirements.txt"]}], (
        "a conda package would escape the pins"
    )
    name, number = python.split("=")
    assert name == "python" and SpecifierSet(PROJECT["requires-python"]).contains(number)
