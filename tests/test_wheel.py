"""The wheel in an environment of its own, outside the checkout, does what the checkout does."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from nmtlib import load

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("nmtlib", "nmtcheck", "nmtcourse", "notebooks")
BUILT_FROM = (*FOLDERS, "pyproject.toml", "setup.py", "README.md", "LICENSE")
MEGABYTES = 36  # of the wheel, at most: pictures of two languages, sharp on any screen
NOTEBOOKS = sorted(path.name for path in ROOT.glob("notebooks/*.ipynb"))
OWN = """
[corpus]
source_language = "de"
target_language = "en"
train = ["own.tsv"]
validation = ["own.tsv"]
[model]
d_model = 32
n_heads = 2
d_ff = 64
[training]
epochs = 1
[tokenizer]
kind = "whitespace"
"""

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="session")
def wheel(tmp_path_factory) -> Path:
    """The wheel, built from a copy so that neither the checkout nor an earlier build takes part."""
    source = tmp_path_factory.mktemp("source")
    for name in BUILT_FROM:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name)
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(source)]
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", *options, str(source)]
    subprocess.run(command, check=True)
    (found,) = source.glob("nmtlib-*.whl")
    return found


@pytest.fixture(scope="session")
def outside(wheel, tmp_path_factory):
    """Runs a command of the new environment in an empty folder; returns what it printed."""
    folder = tmp_path_factory.mktemp("outside")
    venv.create(folder / "env", with_pip=False)
    scripts = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
    python = scripts / Path(sys.executable).name
    pip = [sys.executable, "-m", "pip", "--quiet", "--python", str(python), "install"]
    subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], check=True)
    # The packages that it needs are those installed for these tests; a .pth file in a folder named
    # by another one is not read, so the checkout stays out.
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder / "env")}))
    needed = [path for path in sys.path if Path(path).name.endswith("-packages")]
    (site / "needed.pth").write_text("\n".join(needed), "utf-8")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}

    def run(program: str, *arguments: str) -> str:
        command = [str(shutil.which(program, path=scripts)), *arguments]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8"
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    return run


def test_the_wheel_is_imported_and_not_the_checkout(outside):
    found = outside("python", "-c", "import nmtlib; print(nmtlib.__file__)")
    assert "site-packages" in found and str(ROOT) not in found


def test_it_translates_with_a_shipped_model(outside):
    sentence = "der Hund schläft ."
    (expected,) = load("toy-de-en").translate([sentence])
    assert outside("nmtlib", "translate", "--model", "toy-de-en", sentence).strip() == expected


def test_it_trains_an_epoch_and_translates_with_that_run(outside, tmp_path):
    (tmp_path / "own.toml").write_text(OWN, "utf-8")
    pairs = [f"der Hund {word} .\tthe dog {word} .\n" for word in "ABCDEFGHIJKLMNOP"]
    (tmp_path / "own.tsv").write_text("".join(pairs), "utf-8")
    run = str(tmp_path / "run")
    assert "kept: epoch 1" in outside("nmtlib", "train", str(tmp_path / "own.toml"), "--out", run)
    outside("nmtlib", "translate", "--model", run, "der Hund A .")


def test_the_wheel_is_small(wheel):
    assert wheel.stat().st_size < MEGABYTES * 1e6


@pytest.fixture(scope="session")
def course(outside, tmp_path_factory) -> Path:
    """The course as `nmtlib course` writes it where there is no clone."""
    folder = tmp_path_factory.mktemp("course")
    said = outside("nmtlib", "course", str(folder), "--lang", "zh")
    assert "kept" not in said and str(folder / "zh" / NOTEBOOKS[0]) in said
    return folder


def test_the_course_is_written_without_a_clone(course):
    for pattern in ("*.ipynb", "deeper/*.ipynb", "zh/*.ipynb", "homework/*.ipynb"):
        expected = {path.name for path in (ROOT / "notebooks").glob(pattern)}
        assert {path.name for path in course.glob(pattern)} == expected != set()


@pytest.mark.parametrize(
    "name",
    [NOTEBOOKS[0], *(pytest.param(other, marks=pytest.mark.nightly) for other in NOTEBOOKS[1:])],
)
def test_a_notebook_runs_without_the_project_around_it(name, outside, course):
    options = ["--nbval-lax", "--nbval-current-env", "-q"]
    said = outside("python", "-m", "pytest", "-p", "no:cacheprovider", *options, str(course / name))
    assert " passed" in said
