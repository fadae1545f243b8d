"""One import line is enough for what a notebook uses most, and it costs no drawing library."""

import subprocess
import sys

import pytest

from nmtcourse import teaching
from nmtcourse.teaching import course


@pytest.mark.parametrize("name", teaching.__all__)
def test_every_name_is_there(name):
    assert name in dir(teaching)
    assert getattr(teaching, name) is not None


def test_a_name_is_that_of_its_module():
    from nmtcourse.teaching import GERMAN, load_toy

    assert GERMAN == course.GERMAN and load_toy is course.load_toy


def test_an_unknown_name_is_told_with_those_that_there_are():
    with pytest.raises(AttributeError, match="'plotz'.*plots"):
        _ = teaching.plotz
    with pytest.raises(ImportError):
        from nmtcourse.teaching import plotz  # noqa: F401


@pytest.mark.slow
def test_importing_it_imports_no_drawing_library():
    code = (
        "import sys, nmtcourse.teaching; print('torch' in sys.modules, 'matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["False", "False"], done.stderr
