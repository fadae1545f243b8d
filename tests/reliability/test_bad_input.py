"""Whatever is given to the command line gets one line that explains, and nothing is lost.

At a commit each tenth case of a category is tried, at night all of them.
"""

import pytest
from cases import CASES
from nightly import some
from workplace import Workplace

CATEGORIES = sorted({case.category for case in CASES})


@pytest.fixture(scope="session")
def workplace(tmp_path_factory) -> Workplace:
    return Workplace(tmp_path_factory.mktemp("workplace"))


@pytest.mark.slow
@pytest.mark.parametrize("every", some([10, 1]))
@pytest.mark.parametrize("category", some(CATEGORIES, every=3))
def test_a_bad_input_is_explained_and_nothing_is_lost(category: str, every: int, workplace):
    cases = [case for case in CASES if case.category == category]
    wrong = {case.name: workplace.play(case)[1] for case in cases[::every]}
    assert not {name: "\n".join(lines) for name, lines in wrong.items() if lines}
