"""The example of the README: `nmtlib check` finds the student's three mistakes and says nothing
against the rest.
"""

import re
from pathlib import Path

import pytest

from nmtcourse.main import main

ROOT = Path(__file__).parents[2]
STUDENT = Path(__file__).with_name("student_model.py")
SHOWN = ROOT / "benchmarks" / "results" / "check-student-model.txt"


def verdicts(text: str) -> list[tuple[str, ...]]:
    """The verdict and the name of every check in a report, but for what follows from another."""
    return re.findall(
        r"^(passed|FAILED|ERROR|TIMEOUT|skipped) +([a-z_]+\.[a-z_]+)", text, re.MULTILINE
    )


@pytest.mark.slow
def test_the_three_mistakes_are_found_and_nothing_else(capsys):
    assert main(["check", f"{STUDENT}:make"]) == 1
    said = capsys.readouterr().out
    assert [name for verdict, name in verdicts(said) if verdict not in ("passed", "skipped")] == [
        "inside.future",  # the causal mask sees one token ahead
        "inside.padding",  # cross-attention has no padding mask
        "layers.separate_weights",  # one decoder layer stands in all places
    ]
    assert verdicts(said) == verdicts(SHOWN.read_text("utf-8")), "README shows it"
    follow = re.findall(r"^  follow: +(.*)", said, re.MULTILINE)
    assert follow == [
        "masks.future_in_training, masks.future_in_evaluation, model.batch_invariance",
        "masks.more_padding",
    ]
    causes = re.findall(r"^  cause: +(.*)", said, re.MULTILINE)
    assert [cause.split(".")[0] for cause in causes] == [
        "Each position sees the next one: the causal mask is off by one",
        "No padding mask of the source reaches cross-attention",
    ]
    assert "With its scores masked, the check passes" in " ".join(said.split())


def test_what_a_file_prints_is_folded_and_other_errors_stay_visible(capsys, tmp_path):
    file = tmp_path / "loud.py"
    text = STUDENT.read_text("utf-8")
    file.write_text(f"import sys\nprint('uno\\n' * 9)\nprint('two', file=sys.stderr)\n{text}")
    main(["check", f"{file}:make", "--only", "masks"])
    captured = capsys.readouterr()
    assert captured.err == "" and captured.out.count("uno") == 3 and "more lines" in captured.out


@pytest.mark.slow
def test_each_mistake_corrected_silences_its_checks(capsys, tmp_path):
    corrections = {
        ".tril(1)": ".tril()",
        "cross_attention(x, memory, None)": "cross_attention(x, memory, memory_mask)",
        "x, mask, memory=None):": "x, mask, memory=None, memory_mask=None):",
        "layer(x, causal, memory)": "layer(x, causal, memory, mask)",
    }
    text = STUDENT.read_text("utf-8")
    for wrong, right in corrections.items():
        assert wrong in text
        text = text.replace(wrong, right)
    text = re.sub(
        r"\[(Layer\(.*True\))\] \* sizes.n_layers", r"\1 for _ in range(sizes.n_layers)", text
    )
    (tmp_path / "right.py").write_text(text, "utf-8")
    assert main(["check", f"{tmp_path / 'right.py'}:make"]) == 0, capsys.readouterr().out
