"""What CI, the hooks and the citation name exists."""

import re
import shlex
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


def steps(workflow: Path) -> list[dict]:
    """The steps of all jobs of a workflow."""
    jobs = yaml.safe_load(workflow.read_text("utf-8"))["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


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


def test_a_workflow_names_what_exists():
    assert WORKFLOWS
    for step in (step for workflow in WORKFLOWS for step in steps(workflow)):
        for line in step.get("run", "").splitlines():
            assert problems(line) == [], line
        action = step.get("uses", "@v1")
        assert re.fullmatch(r".*@v\d+", action), f"{action}: pin a major version"


def test_the_script_of_ci_runs_the_two_commands_of_the_readme_and_then_the_extras():
    lines = [line for line in (ROOT / ".ci" / "run").read_text("utf-8").splitlines() if line]
    commands = [re.sub(r"\s*#.*", "", line) for line in lines]
    matches = [re.search(r"\bmake (.+)", command) for command in commands]
    asked = [match[1] for match in matches if match]
    assert asked == ["train", "test", "test-extras VENV=.venv-extras"]
    readme = (ROOT / "README.md").read_text("utf-8")
    first = re.search(r"```bash\n(make .+)\n(make .+)\n```", readme)
    assert [line.split("#")[0].split()[1] for line in first.groups()] == asked[:2]
    assert {line: problems(line) for line in commands if problems(line)} == {}
