"""What waits for the night or for an extra does not run, and no other test is skipped unseen."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest

def test_plain():
    pass

@pytest.mark.nightly
def test_dear():
    pass

@pytest.mark.extras("no_such_package")
def test_of_an_extra():
    pass
"""
SKIPPED = """
@pytest.mark.skip(reason="no moon tonight")
def test_hidden():
    pass
"""


@pytest.fixture
def outcome(tmp_path):
    """The exit status and the text of a run of pytest with the conftest of these tests."""
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    markers = 'markers = ["nightly", "extras"]'
    (tmp_path / "pyproject.toml").write_text(f"[tool.pytest.ini_options]\n{markers}\n", "utf-8")

    def run(text: str, *options: str, **variables: str) -> tuple[int, str]:
        (tmp_path / "test_some.py").write_text(text, "utf-8")
        plain = {k: v for k, v in os.environ.items() if k not in ("NMTLIB_ALL", "NMTLIB_SKIPS")}
        command = [sys.executable, "-m", "pytest", "-q", "-rs", *options]
        done = subprocess.run(
            command, cwd=tmp_path, env=plain | variables, capture_output=True, text=True
        )
        return done.returncode, done.stdout

    return run


def test_what_waits_for_the_night_is_left_out_until_then(outcome):
    status, said = outcome(TESTS, NMTLIB_ALL="1", NMTLIB_SKIPS="extras")
    assert status == 0 and "2 passed, 1 skipped" in said
    assert "extras: no_such_package not installed; install with: make extras" in said


def test_a_test_that_is_skipped_for_another_reason_is_told_of(outcome):
    status, said = outcome(TESTS + SKIPPED, "-n", "1", NMTLIB_SKIPS="extras")
    assert status == 1 and "1 passed, 2 skipped" in said, "the night's test is not skipped"
    assert "test_some.py::test_hidden: no moon tonight" in said
