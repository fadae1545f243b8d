"""The judges of notebook 14."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from nmtcourse.teaching.exercises import agree

ENGLISH = ("the", "cat", "here", "there", "sheep", "her", "him", "she", "he", "laughed", "knows")
CHINESE = ("他", "她", "认识", "笑", "了", "猫", "这里", "他们", "。")


def judge_1(wrong_pronoun: Callable[[str, str], bool], *, draw: Random) -> str:
    """Whether a translation has the pronoun of the other sex."""
    cases = [("she laughed .", "他 笑 了 。"), ("he laughed .", "她 笑 了 。")]
    cases += [("he knows the sheep .", "她 笑 。"), ("the sheep is here .", "她 笑 。")]
    cases += [("she knows him .", "她 认识 他 。"), ("he knows her .", "他 认识 她 。")]
    for _ in range(60):
        words = draw.choices(ENGLISH, k=draw.randint(1, 6))
        cases.append((" ".join(words), " ".join(draw.choices(CHINESE, k=draw.randint(1, 6)))))
    for source, output in cases:
        words = source.split()
        she, he = "she" in words, "he" in words
        expected = (she and not he and "他" in output and "她" not in output) or (
            he and not she and "她" in output and "他" not in output
        )
        hint = "words of the source, characters of the output; both ways round"
        agree(wrong_pronoun, source, output, expected=expected, why=hint)
    return f"{len(cases)} sentences"


def judge_2(segment: Callable[[str, set[str]], list[str]], *, draw: Random) -> str:
    """A text cut from the left into the longest words of a dictionary."""
    for number in range(40):
        dictionary = {"".join(draw.choices("研究生", k=draw.randint(1, 3))) for _ in range(8)}
        text = "".join(draw.choices("研究生 ", k=draw.randint(1, 12)))
        if number % 5 == 0:
            dictionary.clear()
        elif number % 5 == 1:  # a long word, in front
            dictionary.add(text := "".join(draw.choices("研究生", k=draw.randint(11, 15))))
            text += "研"
        elif number % 5 == 2:  # the longest word comes second
            dictionary, text = {"研究", "究生生"}, "研究生生" + text
        hint = "a list: from the left, the longest word that fits, or else one character"
        agree(segment, text, dictionary, expected=longest_first(text, dictionary), why=hint)
    return "40 texts"


def longest_first(text: str, dictionary: set[str]) -> list[str]:
    """The words of a text, each the longest that fits."""
    words: list[str] = []
    while text:
        ends = (end for end in range(len(text), 1, -1) if text[:end] in dictionary)
        end = next(ends, 1)
        words.append(text[:end])
        text = text[end:]
    return words


def judge_3(choose: Callable[[Sequence[str], Callable[[str], bool]], str], *, draw: Random) -> str:
    """The first of some translations that has no slip, or the first of all."""
    for number in range(30):
        texts = draw.choices(CHINESE, k=draw.randint(1, 10))  # best first, one may come twice
        texts = [" ".join([text] * draw.randint(1, 3)) for text in texts]
        bad = set(draw.sample(texts, draw.randint(0, len(texts))))
        if number % 3 == 0:  # only the last one is without a slip
            texts, bad = [*texts, "认识 猫"], set(texts)

        def has_slip(text: str, bad: set[str] = bad) -> list[str]:
            return ["a slip"] if text in bad else []

        expected = next((text for text in texts if text not in bad), texts[0])
        hint = "best first; all may have a slip; has_slip gives a list, empty if there is none"
        agree(choose, texts, has_slip, expected=expected, why=hint, untouched=True)
    return "30 lists of translations"
