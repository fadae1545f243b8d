"""Slips in translations from English to Chinese, counted by rules that need no dictionary.

The rules are rough, and some compare with one reference where another wording is as good.  So what
they count in a system is compared with what they count in translations by people.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

# Measure words of the corpus, each with what it is said of.
MEASURES: dict[str, str] = dict(
    entry.split(" ", 1)
    for entry in """\
个 people, things; 本 books; 次 occasions; 只 animals; 件 clothes, matters; 条 long things, skirts;
种 kinds; 张 flat things; 辆 vehicles; 家 firms; 位 people, politely; 场 events;
名 members; 份 portions; 杯 cups; 封 letters; 间 rooms; 座 mountains; 把 things with a handle;
支 sticks; 班 scheduled trips; 台 machines; 部 films; 栋 houses; 首 songs; 块 pieces;
句 sentences; 颗 small round things; 双 pairs; 幅 pictures; 架 planes; 顶 hats; 瓶 bottles;
朵 flowers; 根 stalks; 片 slices; 套 sets; 页 pages; 顿 meals; 枝 twigs; 匹 horses;
群 groups""".replace("\n", " ").split("; ")
)
COUNTED = re.compile(f"[一两三四五六七八九十几这那每]([{''.join(MEASURES)}])")
NAMES = {  # as the corpus writes them
    "tom": ("汤姆", "Tom"),
    "mary": ("玛丽", "Mary"),
    "john": ("约翰", "John"),
    "boston": ("波士顿",),
    "london": ("伦敦",),
    "tokyo": ("东京",),
    "kyoto": ("京都",),
}
NOT = re.compile("[不没别未无]")
NO_NOT = re.compile(  # words in which these characters deny nothing; "is it or not" is a question
    r"(.)不\1|不错|不久|不得不|差不多|特别|别人|别的|分别|区别|告别|不过|不但|不仅|不管|不论|无论|无聊|未来"
    "|对不起|不好意思|不同"
)
QUESTION = re.compile("[?？]")


def _solid(text: str) -> str:
    """Chinese as it is written: without spaces between words."""
    return text.replace(" ", "")


def measures(text: str) -> list[str]:
    """The measure words of a sentence: those that stand behind a number, this, that or each.

    >>> measures("他 有 两只 狗 和 一 本 书 。")
    ['只', '本']
    """
    return COUNTED.findall(_solid(text))


def denies(text: str) -> bool:
    """Whether a sentence says no, not or never.

    >>> denies("我 不想 去 。"), denies("你 是不是 学生 ？"), denies("不错 。")
    (True, False, False)
    """
    return bool(NOT.search(NO_NOT.sub("", _solid(text))))


def repeats(text: str) -> list[str]:
    """Words, and pairs of words, that a sentence says twice running; punctuation is none.

    >>> repeats("我 喜欢 喜欢 这 本 书 。")
    ['喜欢']
    """
    words = [word for word in text.split() if re.search(r"\w", word)]
    return [
        "".join(words[i : i + n])
        for n in (1, 2)
        for i in range(len(words) - 2 * n + 1)
        if words[i : i + n] == words[i + n : i + 2 * n]
    ]


def _names_lost(source: str, output: str) -> bool:
    source_words = source.split()
    return any(
        (name in source_words) != any(form in output for form in forms)
        for name, forms in NAMES.items()
    )


def _other_measure(reference: str, output: str) -> bool:
    expected, output_measures = Counter(measures(reference)), Counter(measures(output))
    return bool(expected and not expected & output_measures)


# Each rule: (source, output, reference) -> whether the output has the slip.
RULES: dict[str, Callable[[str, str, str], bool]] = {
    "another measure word, or none": lambda s, o, r: _other_measure(r, o),
    "了 on one side only": lambda s, o, r: ("了" in o) != ("了" in r),
    "a name lost or invented": lambda s, o, r: _names_lost(s, o),
    "wrong polarity": lambda s, o, r: denies(o) != denies(r),
    "question or statement": lambda s, o, r: ("?" in s) != bool(QUESTION.search(o)),
    "repeated word": lambda s, o, r: bool(set(repeats(o)) - set(repeats(r))),
    "English left over": lambda s, o, r: _latin(o) and not _latin(r),
    "less than 60 % of the length": lambda s, o, r: len(_solid(o)) < 0.6 * len(_solid(r)),
}


def _latin(text: str) -> bool:
    return bool(re.search("[A-Za-z]", text))


def slips(source: str, output: str, reference: str) -> list[str]:
    """The names of the rules that a translation breaks.  They are rough: see their false alarms."""
    return [name for name, broken in RULES.items() if broken(source, output, reference)]


def count_slips(triples: Sequence[tuple[str, str, str]]) -> dict[str, int]:
    """How many of some (source, output, reference) break each rule."""
    counts = Counter(name for triple in triples for name in slips(*triple))
    return {name: counts[name] for name in RULES}
