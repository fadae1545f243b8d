"""What CI, the hooks and the citation name exists, and fits what pyproject.toml promises."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


def steps(workflow: Path) -> list[dict]:
    """The steps of all jobs of a workflow."""
    jobs = yaml.safe_load(workflow.read_text("utf-8"))["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


def python_versions(workflow: Path) -> set[str]:
    """Every Python that a workflow asks for, also as part of a matrix."""
    text = workflow.read_text("utf-8")
    lists = re.findall(r"python(?:-version)?: (.*)", text)
    return {number for found in lists for number in re.findall(r"\d\.\d+", found)}


def problems(command: str) -> list[str]:
    """What a line of shell names and the project lacks."""
    words = shlex.split(re.sub(r"\$\{\{.*?\}\}", "x", command))
    found = []
    for before, word in zip(["", *words], words, strict=False):
        if before == "make" and word not in TARGETS:
            found.append(f"no make target {word}")
        if re.fullmatch(r"[\w./-]+\.(py|txt|toml|sh)", word) and not (ROOT / word).is_file():
            found.append(f"no file {word}")
    return found


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_names_what_exists(workflow):
    commands = [line for step in steps(workflow) for line in step.get("run", "").splitlines()]
    assert commands
    assert {line: problems(line) for line in commands if problems(line)} == {}
    for step in steps(workflow):
        action = step.get("uses", "@v1")
        assert re.fullmatch(r".*@v\d+", action), f"{action}: pin a major version"
    assert "index-url" not in workflow.read_text("utf-8")


def test_a_name_that_does_not_exist_is_found():
    assert problems("make tset") == ["no make target tset"]
    assert problems(".venv/bin/python benchmarks/none.py") == ["no file benchmarks/none.py"]
    assert problems("make extras test && python benchmarks/train.py") == []


def test_ci_runs_on_three_systems_and_on_the_pythons_that_are_promised():
    ci = ROOT / ".github" / "workflows" / "ci.yml"
    allowed = SpecifierSet(PROJECT["requires-python"])
    versions = python_versions(ci)
    assert all(allowed.contains(number) for number in versions)
    lowest = PROJECT["requires-python"].removeprefix(">=")
    assert lowest in versions
    classifiers = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if ":: Python ::" in c]
    assert versions == set(classifiers)
    systems = yaml.safe_load(ci.read_text("utf-8"))["jobs"]["test"]["strategy"]["matrix"]["os"]
    assert {name.partition("-")[0] for name in systems} == {"ubuntu", "macos", "windows"}


def test_what_waits_for_the_night_runs_at_night():
    nightly = ROOT / ".github" / "workflows" / "nightly.yml"
    assert "make test-all" in [step.get("run") for step in steps(nightly)]


def test_the_website_is_published_from_any_fork():
    text = (ROOT / ".github" / "workflows" / "site.yml").read_text("utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    assert "github.com/" not in text and "github.io" not in text, "the owner follows from the fork"
    assert jobs["build"]["env"]["NMTLIB_REPOSITORY"].endswith("/${{ github.repository }}")
    made, uploaded = jobs["build"]["steps"][-2:]
    assert made["run"] == "make print site" and uploaded["with"]["path"] == "build/site/html"
    publish = jobs["publish"]
    assert publish["needs"] == "build" and "pull_request" in publish["if"]
    assert publish["permissions"] == {"pages": "write", "id-token": "write"}
    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}


def test_the_script_of_ci_runs_the_two_commands_of_the_readme_and_then_the_extras():
    lines = [line for line in (ROOT / ".ci" / "run").read_text("utf-8").splitlines() if line]
    commands = [re.sub(r"\s*#.*", "", line) for line in lines]
    made = [re.search(r"\bmake (.+)", command) for command in commands]
    asked = [found[1] for found in made if found]
    assert asked == ["train", "test", "test-extras VENV=.venv-extras"]
    first = re.search(
        r"```bash\n(make .+)\n(make .+)\n```", (ROOT / "README.md").read_text("utf-8")
    )
    assert [line.split("#")[0].split()[1] for line in first.groups()] == asked[:2]
    assert {line: problems(line) for line in commands if problems(line)} == {}


def test_the_hooks_call_tools_that_are_installed_with_the_project():
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    tools = {line.partition("==")[0] for line in (ROOT / "requirements.txt").read_text().split()}
    for repository in config["repos"]:
        assert repository["repo"] == "local", "a hook that is fetched needs a network"
        for hook in repository["hooks"]:
            assert hook["language"] == "system" and hook["entry"].split()[0] in tools


def test_the_citation_is_complete():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["cff-version"] == "1.2.0"
    assert citation["message"] and citation["title"] == PROJECT["name"]
    assert all(author.get("name") or author.get("family-names") for author in citation["authors"])
    assert citation["license"] == ["MIT", "OFL-1.1"]
    assert str(citation["version"]) == PROJECT["version"]


def test_the_changelog_has_the_version_and_what_came_since():
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    headings = re.findall(r"^## \[(.+?)\]", text, re.MULTILINE)
    assert headings[0] == "Unreleased" and PROJECT["version"] in headings
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.+)$", text, re.MULTILINE)) <= kinds
