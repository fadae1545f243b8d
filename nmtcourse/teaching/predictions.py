"""Questions that the reader answers before a notebook shows the result.

Questions and answers are in `asked/NN.toml`, one file for each notebook, so that the notebook's own
cells do not give the answer away; `asked/zh` holds them in Chinese.
"""

from __future__ import annotations

import random
import tomllib
from functools import cache
from pathlib import Path
from string import ascii_uppercase
from typing import Any, NamedTuple

from nmtcourse.teaching.language import chosen_language
from nmtcourse.teaching.show import Shown, kernel_with_widgets
from nmtlib.errors import did_you_mean

ASKED = Path(__file__).with_name("asked")
# While a question waits (its answer is folded, or no button is pressed), JupyterLab and the pages
# that nbconvert makes hide what the next code cells put out, except errors, up to the next text.
WAITS = "waits-for-a-choice"
QUESTION = f".jp-OutputArea-child + .jp-OutputArea-child :is(details:not([open]), .{WAITS})"
AFTER = ["+ .jp-CodeCell " * n for n in range(1, 7)]
AFTER += ["+ .jp-MarkdownCell " + cells for cells in AFTER[:2]]
RESULT = """.jp-OutputArea:has(.jp-OutputArea-child):not(:has([data-mime-type$=error])) {{
&::before {{ content: "{}"; opacity: 0.6; margin-left: calc(var(--jp-cell-prompt-width) + 6px); }}
.jp-OutputArea-child {{ display: none; }}
}}"""


class Words(NamedTuple):
    """What stands around a question, in one language."""

    predict: str
    choose: str
    answer: str
    because: str
    mine: str
    right: str
    compare: str
    call: str
    first: str


WORDS = {
    "en": Words(
        predict="Predict.",
        choose="Choose a letter, then open the answer",
        answer="Answer: {}",
        because=", because {}",
        mine="My answer:",
        right="You chose {}, which is right.",
        compare="You chose {}. Compare your reason with this one.",
        call="For the answer: {}, with your letter.",
        first="First answer the question above.",
    ),
    "zh": Words(
        predict="先猜一猜。",
        choose="先选一个字母，再展开答案",
        answer="答案：{}",
        because="。{}",
        mine="我的答案：",
        right="你选了 {}，答对了。",
        compare="你选了 {}。对照一下你的理由和下面的理由。",
        call="查看答案：{}，换成你选的字母。",
        first="先回答上面的问题，结果才会显示。",
    ),
}


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
def questions(language: str = "en") -> dict[str, Question]:
    """Every question of the course by its key, such as "06.leak", in English or Chinese ("zh")."""
    known = {}
    for file in sorted((ASKED if language == "en" else ASKED / language).glob("*.toml")):
        for name, about in tomllib.loads(file.read_text("utf-8")).items():
            key = f"{file.stem}.{name}"
            options = [about["right"], *about["wrong"]]
            random.Random(key).shuffle(options)  # the same order in each run and language
            right = options.index(about["right"])
            known[key] = Question(key, about["question"], options, right, about["because"])
    return known


def predict(key: str, *, mine: str | None = None) -> None:
    """Ask the question `key` before its result is shown: the reader chooses a lettered option.

    The reader clicks a letter where widgets run, or writes it as `mine`, and then sees the answer
    and the reason; in a stored notebook the answer is folded below the question.  Raises ValueError
    for a key that no question has, and for a letter that no option has.
    """
    from IPython.display import display

    for shown in displayed(key, mine=mine, language=chosen_language()):
        display(shown)


def displayed(key: str, *, mine: str | None = None, language: str = "en") -> tuple[Shown, Shown]:
    """The question and its answer as `predict` displays them.  Raises what `predict` raises."""
    known = questions("en") | questions(language)
    if key not in known:
        raise ValueError(f"the course has no question {key!r}{did_you_mean(key, known)}")
    question, words = known[key], WORDS[language]
    letters = ascii_uppercase[: len(question.options)]
    if mine is not None and (len(mine) != 1 or mine.upper() not in letters):
        raise ValueError(f"mine must be one of the letters {', '.join(letters)}, not {mine!r}")
    asked = [f"{a}. {option}" for a, option in zip(letters, question.options, strict=True)]
    markdown = f"**{words.predict}** {question.text}\n\n" + "\n".join(f"- {line}" for line in asked)
    text = Shown(markdown, "\n".join([question.text, *(f"  {line}" for line in asked)]))
    return text, _opened(question, mine.upper(), words) if mine else _folded(question, words)


def hiding(language: str = "en") -> Shown:
    """A style for the page: results stay hidden until the question before them is answered."""
    after = ",\n".join(f"& {cells.strip()}" for cells in AFTER)
    result = RESULT.format(WORDS[language].first)
    style = f"<style>\n.jp-Cell:has({QUESTION}) {{\n{after} {{\n{result}\n}}\n}}\n</style>"
    return Shown(style, "", kind="text/html")


def remark(chosen: str, answer: str, words: Words = WORDS["en"]) -> str:
    """A friendly line on what the reader chose.

    >>> remark("A", "B")
    'You chose A. Compare your reason with this one.'
    """
    return (words.right if chosen == answer else words.compare).format(chosen)


def _opened(question: Question, chosen: str, words: Words) -> Shown:
    """What a reader sees who has chosen."""
    response, (answer, because) = remark(chosen, question.answer, words), _answer(question, words)
    return Shown(f"{response}\n\n**{answer}**{because}", f"{response}\n{answer}{because}")


def _answer(question: Question, words: Words) -> tuple[str, str]:
    return words.answer.format(question.answer), words.because.format(question.because)


def _folded(question: Question, words: Words) -> Shown:
    """The answer folded away, with buttons that open it where they work."""
    answer, because = _answer(question, words)
    folded = f"<details><summary>{words.choose}</summary>\n\n**{answer}**{because}\n\n</details>"
    plain = words.call.format(f'predict("{question.key}", mine="A")')
    return Shown(folded, plain, _buttons(question, words) if kernel_with_widgets() else None)


def _buttons(question: Question, words: Words) -> Any:
    """Radio buttons that open the answer once one is chosen."""
    import ipywidgets

    letters = list(ascii_uppercase[: len(question.options)])
    choice = ipywidgets.RadioButtons(options=letters, value=None, description=words.mine)
    page = ipywidgets.Output()

    def reveal(change: dict[str, Any]) -> None:
        data = _opened(question, change["new"], words)._repr_mimebundle_()
        page.outputs = ({"output_type": "display_data", "data": data, "metadata": {}},)
        box.remove_class(WAITS)

    choice.observe(reveal, names="value")
    box = ipywidgets.VBox([choice, page]).add_class(WAITS)
    return box
