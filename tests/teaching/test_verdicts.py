"""What the judge says of each wrong answer, read as a student reads it, in both languages."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from nightly import some

from nmtcourse.teaching import judge
from nmtcourse.teaching.exercises import Wrong, describe_difference
from nmtcourse.teaching.language import choose_language


def wrong_answers():
    """Each wrong answer of the modules that hold them, as (number, functions)."""
    for path in sorted(Path(__file__).parent.glob("test_exercises*.py")):
        spec = spec_from_file_location(path.stem, path)
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        for number, (_, wrong) in module.EXERCISES.items():
            for answer in wrong:
                yield number, answer if isinstance(answer, tuple) else (answer,)


LONGEST = 320  # letters: four lines of a notebook
ENGLISH = re.compile(r"(?:\b[a-z]+ ){3}[a-z]+\b")  # four words of prose in a row
QUOTED = re.compile(r"抛出 .*|'[^']*'")  # what Python or a corpus says stays English


@pytest.fixture(params=["en", "zh"])
def language(request):
    choose_language(request.param)
    yield request.param
    choose_language("en")


@pytest.mark.parametrize("number, answers", some(wrong_answers(), by=lambda case: case[0]))
def test_a_verdict_is_short_and_says_where(number, answers, language):
    with pytest.raises(Wrong) as refused:
        judge(number, *answers)
    message = str(refused.value)
    verdict = message.rpartition("solution(")[0]
    assert len(verdict) <= LONGEST and "\n" not in verdict, message
    assert " at 0x" not in verdict and "..." not in verdict, "no address, nothing cut off"
    values = re.search(r"(?:should be|应该是) (.+?)(?:, but it is |，实际是 )([^;；（(]+)", verdict)
    assert values is None or values[1] != values[2].strip(), "a reader sees two values"
    if language == "zh":
        assert not ENGLISH.search(QUOTED.sub("", verdict)), message
        assert re.search("[\u4e00-\u9fff]", verdict) and verdict.endswith("；")


def test_a_difference_names_the_first_place_that_differs():
    given, expected = [[1, 2, 3], [4, 5, 6], [7, 8, 9]], [[1, 2, 3], [4, 0, 6], [7, 8, 8]]
    long = [*expected, *expected, *expected]
    assert describe_difference("f(x)", [*given, *given, *given], long, 0) == (
        "f(x)[1] should be [4, 0, 6], but it is [4, 5, 6]"
    )
    assert describe_difference("f(x)", given, long, 0) == "len(f(x)) should be 9, but it is 3"
    names = {f"name{i}" for i in range(12)}
    assert describe_difference("f(x)", names - {"name3"}, names, 0) == (
        "f(x) should contain 'name3', but it does not"
    )
    assert describe_difference("f(x)", names | {"z"}, names, 0) == "f(x) should not contain 'z'"
    assert describe_difference("f(x)", 2, 3, 0) == "f(x) should be 3, but it is 2"
