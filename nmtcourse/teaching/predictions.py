"""Questions that the reader answers before a notebook shows the result.

Questions and answers are in `asked/NN.toml`, one file for each notebook, so that the notebook's own
cells do not give the answer away.
"""

from __future__ import annotations

import random
import tomllib
from functools import cache
from pathlib import Path
from string import ascii_uppercase
from typing import Any, NamedTuple

from nmtcourse.teaching.show import Shown, kernel_with_widgets
from nmtlib.errors import did_you_mean

ASKED = Path(__file__).with_name("asked")


class Question(NamedTuple):
    """A question with its options, of which number `right` (from 0) is true."""

    key: str
    text: str
    options: list[str]
    right: int
    because: str

    @property
    def answer(self) -> str:
        """The letter of the right option."""
        return ascii_uppercase[self.right]


@cache
def questions() -> dict[str, Question]:
    """Every question of the course by its key, such as "06.leak"."""
    found = {}
    for file in sorted(ASKED.glob("*.toml")):
        for name, about in tomllib.loads(file.read_text("utf-8")).items():
            key = f"{file.stem}.{name}"
            options = [about["right"], *about["wrong"]]
            random.Random(key).shuffle(options)  # the same order in each run
            right = options.index(about["right"])
            found[key] = Question(key, about["question"], options, right, about["because"])
    return found


def predict(key: str, *, mine: str | None = None) -> None:
    """Ask the question `key` before its result is shown: the reader chooses a lettered option.

    The reader clicks a letter where widgets run, or writes it as `mine`, and then sees the answer
    and the reason; in a stored notebook the answer is folded below the question.  Raises ValueError
    for a key that no question has, and for a letter that no option has.
    """
    from IPython.display import display

    if key not in questions():
        hint = did_you_mean(key, questions())
        raise ValueError(f"the course has no question {key!r}{hint}")
    question = questions()[key]
    letters = ascii_uppercase[: len(question.options)]
    if mine is not None and (len(mine) != 1 or mine.upper() not in letters):
        raise ValueError(f"mine must be one of the letters {', '.join(letters)}, not {mine!r}")
    asked = [f"{a}. {option}" for a, option in zip(letters, question.options, strict=True)]
    markdown = f"**Predict.** {question.text}\n\n" + "\n".join(f"- {line}" for line in asked)
    display(Shown(markdown, "\n".join([question.text, *(f"  {line}" for line in asked)])))
    display(_opened(question, mine.upper()) if mine else _folded(question))


def remark(chosen: str, answer: str) -> str:
    """A friendly line on what the reader chose.

    >>> remark("A", "B")
    'You chose A. Compare your reason with this one.'
    """
    verdict = ", which is right." if chosen == answer else ". Compare your reason with this one."
    return f"You chose {chosen}{verdict}"


def _opened(question: Question, chosen: str) -> Shown:
    """What a reader sees who has chosen."""
    said, answer = remark(chosen, question.answer), f"Answer: {question.answer}"
    text = f"{said}\n\n**{answer}**, because {question.because}"
    return Shown(text, f"{said}\n{answer}, because {question.because}")


def _folded(question: Question) -> Shown:
    """The answer folded away, with buttons that open it where they work."""
    text = (
        "<details><summary>Choose a letter, then open the answer</summary>\n\n"
        f"**Answer: {question.answer}**, because {question.because}\n\n</details>"
    )
    plain = f'For the answer: predict("{question.key}", mine="A"), with your letter.'
    return Shown(text, plain, _buttons(question) if kernel_with_widgets() else None)


def _buttons(question: Question) -> Any:
    """Radio buttons that open the answer once one is chosen."""
    import ipywidgets

    letters = list(ascii_uppercase[: len(question.options)])
    choice = ipywidgets.RadioButtons(options=letters, value=None, description="My answer:")
    page = ipywidgets.Output()

    def reveal(change: dict[str, Any]) -> None:
        data = _opened(question, change["new"])._repr_mimebundle_()
        page.outputs = ({"output_type": "display_data", "data": data, "metadata": {}},)

    choice.observe(reveal, names="value")
    return ipywidgets.VBox([choice, page])
