"""One import line is enough for what a notebook uses most, and it costs no drawing library."""

import subprocess
import sys

import pytest

from nmtcourse import teaching


def test_every_name_is_there():
    for name in teaching.__all__:
        assert name in dir(teaching)
        assert getattr(teaching, name) is not None


@pytest.mark.slow
def test_importing_it_imports_no_drawing_library():
    code = (
        "import sys, nmtcourse.teaching; print('torch' in sys.modules, 'matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["False", "False"], done.stderr
