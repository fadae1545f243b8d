"""tools/processors.py runs notebooks as on other processors, and fails where one is red."""

import re

import nbformat
import processors
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

CODE = 'import os\nprint("kernels:", os.environ.get("ATEN_CPU_CAPABILITY", "all"))'


def write_notebook(path, printed: str) -> None:
    """A notebook whose one cell prints which kernels torch may use, and has stored this text."""
    output = new_output("stream", name="stdout", text=printed + "\n")
    cell = new_code_cell(CODE, outputs=[output], execution_count=1)
    nbformat.write(new_notebook(cells=[cell]), path)


@pytest.mark.nightly
def test_a_line_tells_how_each_processor_ended_and_one_red_is_enough(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(processors, "has_bfloat16", lambda: False)
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "avx2")  # not inherited: this machine as it is
    path = tmp_path / "kernels.ipynb"
    write_notebook(path, "kernels: all")
    options = ["--jobs", "0", "--only", "as it is", "--only", "SSE4.1", "--only", "bfloat16 off"]
    assert processors.main([str(path), *options]) == 1
    printed = capsys.readouterr().out
    verdicts = re.findall(r"^(.+): (green, 1 passed|RED, 1 failed) in", printed, re.MULTILINE)
    assert verdicts == [("as it is", "green, 1 passed"), ("SSE4.1", "RED, 1 failed")]
    assert "kernels: default" in printed, "what differs is shown"
    assert "bfloat16 off: nothing to switch off" in printed
    assert processors.main([str(path), *options[:4]]) == 0, "as it is alone is green"
