"""What a check says in Chinese: every phrase has a translation, and every part finds its place."""

import ast
import re
from pathlib import Path

import edition
import pytest

from nmtcourse.homework import chinese, masters
from nmtcourse.homework.catalogue import assignments, find_task
from nmtcourse.homework.compare import Finding
from nmtcourse.homework.grading import Verdict

MASTERS = sorted(Path(masters.__path__[0]).glob("a*.py"))
HAN = re.compile(edition.HAN)
ALIKE = {"BLEU", "`float((found <= 0).double().mean())`"}  # in both languages
JOINED = {  # of parts that are written in two places
    "stopped after {time} s: the cell {cell}",
    "nothing is written here yet, or a part is still a stub.",
    "(Not counted: there is no homework here or in the folder homework; name its folder with "
    "--folder.)",
}


def phrases(assignment):
    """What an assignment says in whole sentences."""
    yield assignment.title
    for task in assignment.tasks.values():
        yield from [task.title, task.read, *task.hints, *task.mistakes]
        for each in task.properties:
            yield from [each.statement, each.advice]


@pytest.mark.parametrize("assignment", assignments().values(), ids=lambda each: each.stem)
def test_every_sentence_has_a_translation(assignment):
    told = [*dict.fromkeys(phrases(assignment))]
    assert [
        text for text in told if not HAN.search(chinese.chinese(text)) and text not in ALIKE
    ] == []
    found = {text: [*edition.differences(text, chinese.chinese(text))] for text in told}
    wrong = {text: slips for text, slips in found.items() if slips and slips != ["not in Chinese"]}
    assert wrong == {}


@pytest.mark.parametrize("number", [*assignments(), "common"])
def test_no_phrase_is_left_of_a_text_that_has_gone(number):
    """Each is a sentence of the assignment, or has a part that its checks write."""
    kept = edition.read(chinese.FOLDER / f"{number}.toml")["phrases"]
    here = (
        MASTERS if number == "common" else [p for p in MASTERS if p.name.startswith(f"a{number}")]
    )
    course = Path(masters.__path__[0]).parents[1]
    sources = [*here, *course.glob("homework/*.py"), *course.glob("projects/*.py")]
    written = " ".join(" ".join(path.read_text("utf-8") for path in sources).split())
    told = {*phrases(assignments()[number])} if number != "common" else set()
    parts = {text: re.split(r"{\w+}", text) for text in kept if text not in told}
    gone = {t for t, ps in parts.items() if any(p.strip(" ,:()") not in written for p in ps)}
    assert {text for text in gone - JOINED if "\n" not in text} == set()


def written(path):
    """The strings with a space that the checks of a master write, each part of theirs being 7."""
    tree = ast.parse(path.read_text("utf-8"))
    skipped = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
            first = node.body[0]
            skipped |= {first.value} if isinstance(first, ast.Expr) else set()
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            about = [*map(ast.unparse, node.decorator_list)]
            own = any(text.startswith("homework.task") for text in about)
            for part in [node] if own else node.decorator_list:
                skipped |= {*ast.walk(part)}
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Assignment":
            skipped |= {*ast.walk(node)}
        if isinstance(node, ast.JoinedStr):
            skipped |= {inner for inner in ast.walk(node) if inner is not node}
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.JoinedStr):
            parts = [each.value if isinstance(each, ast.Constant) else "7" for each in node.values]
            yield "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


# inputs of checks, types with a number, parts of a longer message
DATA = re.compile(
    r"der (hund|ball) .*|(the )?7 7|cost\(.*|the machine crashed|7of a .*"
    r"|for (the toy|a good late end)"
)


@pytest.mark.parametrize("path", MASTERS, ids=lambda path: path.stem)
def test_every_message_has_a_translation(path):
    said = {text.strip() for text in written(path) if " " in text.strip()}
    assert len(said) > 3
    said = {text for text in said if re.search("[a-z]{2}", text) and not DATA.fullmatch(text)}
    assert {text for text in said if not HAN.search(chinese.chinese(text))} == set()


def test_every_message_with_parts_is_found_when_they_are_filled():
    for english, translated in chinese.read_translations()[0].items():
        filled, expected = (re.sub(r"{(\w+)}", r"x_\1", text) for text in (english, translated))
        assert "".join(chinese.chinese(filled).split()) == "".join(expected.split()), english


def test_parts_of_a_message_find_their_places():
    given = "for x of shape (1, 2, 3, 4), n_heads = 2: your result at [0, 1] is 0.31"
    told = "x 形状 (1, 2, 3, 4), n_heads = 2 时：你的结果在 [0, 1] 处是 0.31"
    assert chinese.chinese(given) == told
    assert chinese.chinese(f"called again with other values, {given}").startswith("换了别的值")
    error = "ValueError: your result is empty, in line 3 of plan"
    assert chinese.chinese(error) == error
    assert chinese.chinese("A new sentence of x at 3 is long.").startswith("A new")


def test_a_verdict_is_chinese_but_for_names_and_numbers():
    task = find_task("04.2")
    cause = [*task.mistakes][2]
    finding = Finding("for q of shape (2, 3): your result at [0] is 1", "0.5", cause)
    told = Verdict(task, 2.0, task.properties[0].statement, finding).as_text("zh")
    assert told.splitlines() == [
        "04.2 带掩码的注意力：得 2 / 6 分",
        "  要求：没有掩码时，结果就是公式 1。",
        "  测得：q 形状 (2, 3) 时：你的结果在 [0] 处是 1",
        "  应为：0.5",
        "  多半因为：分数没有缩放。",
        "  先读：笔记本 04 第 2、4、8 节",
    ]
