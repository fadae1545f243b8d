"""pyproject.toml, the requirements, environment.yml and what is installed tell one story."""

import re
import runpy
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
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = ("moses", "export", "browser")  # what a student does not need


def lines(name: str) -> list[str]:
    """The lines of a file of requirements that pip acts on."""
    stripped = (
        line.split("#")[0].strip() for line in (ROOT / name).read_text("utf-8").splitlines()
    )
    return [line for line in stripped if line]


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


def test_what_benchmarks_compare_with_comes_on_top():
    assert lines("requirements-extras.txt")[0] == "-r requirements.txt"
    assert pins("requirements-extras.txt").keys() == BENCHMARKS.keys()
    assert not STUDENT.keys() & BENCHMARKS.keys()


@pytest.mark.parametrize(
    "name", [*STUDENT, *(pytest.param(n, marks=pytest.mark.extras(n)) for n in BENCHMARKS)]
)
def test_the_pin_lies_inside_the_range_and_is_installed(name):
    allowed, pin = (STUDENT | BENCHMARKS)[name], PINS[name]
    assert len(allowed) > 0, "give a lower bound"
    assert allowed.contains(pin)
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


def test_the_website_is_built_with_pinned_packages_on_top():
    assert lines("requirements-site.txt")[0] == "-r requirements.txt"
    assert {"sphinx", "myst-nb", "sphinx-book-theme"} <= pins("requirements-site.txt").keys()
    assert not pins("requirements-site.txt").keys() & PINS.keys()


def test_binder_takes_environment_yml_and_installs_the_package_itself():
    """What repo2docker does: a folder for Binder hides what lies at the top; it does not install
    the project; and a line of pip that starts with -r makes it copy the whole project first."""
    assert not any((ROOT / name).exists() for name in ("binder", ".binder", "runtime.txt"))
    _, _, with_pip = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))["dependencies"]
    (named,) = (line.removeprefix("-r ") for line in with_pip["pip"])
    assert (ROOT / named).is_file() and "-e ." in lines(named), "the course imports nmtlib"
    assert "jupyterlab" in pins(named), "the links open JupyterLab"


def test_colab_keeps_its_own_torch():
    """Colab installs the package, not the pins: a range leaves a torch that is there alone."""
    torch = ranges(PROJECT["dependencies"])["torch"]
    assert {each.operator for each in torch} == {">="}


def test_the_package_says_that_it_is_typed_and_ships_its_data():
    data = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    shipped = data["package-data"]
    assert all("py.typed" in shipped[package] for package in ("nmtlib", "nmtcheck", "nmtcourse"))
    pairs = [(package, pattern) for package in shipped for pattern in shipped[package]]
    assert [pair for pair in pairs if not list(ROOT.joinpath(pair[0]).glob(pair[1]))] == []


def test_a_known_vulnerability_named_beside_a_bound_is_named_in_full():
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    assert re.findall(r"CVE-\S+", text) == re.findall(r"CVE-\d{4}-\d{4,}\b,?", text)
