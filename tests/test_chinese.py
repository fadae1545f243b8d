"""The Chinese edition is that of today's English text, and is written by its rules."""

import json
import re
import shutil

import edition
import execute
import nbformat
import pytest
import reading
from cells import headings, prose
from fontTools.ttLib import TTFont

from nmtcourse.homework.catalogue import assignments
from nmtcourse.teaching import language
from nmtcourse.teaching.style import CJK_FONT


def test_every_notebook_is_translated_as_it_is_today():
    assert edition.names() == sorted(edition.ENGLISH) != []
    assert [found for name in edition.names() for found in edition.findings(name)] == []


def test_a_question_leads_to_the_same_cell_in_both_languages():
    pages = (edition.ROOT / "docs" / page for page in ("questions.md", "zh/questions.md"))
    theirs, ours = (re.findall(r"/(\w+)\.ipynb#(\S+)\)", page.read_text("utf-8")) for page in pages)
    assert [(name, f"cell-id={edition.cell_of(name, place)}") for name, place in theirs] == ours


def test_a_notebook_has_the_code_and_outputs_of_the_english_one():
    for name in edition.names():
        stored = (edition.CHINESE / f"{name}.ipynb").read_text("utf-8")
        assert stored == edition.written(edition.chinese(name)), "run: python tools/edition.py"
        for ours, theirs in zip(
            json.loads(stored)["cells"], edition.english(name)["cells"], strict=True
        ):
            assert ours["id"] == theirs["id"] and ours["cell_type"] == theirs["cell_type"]
            if theirs["cell_type"] == "code":
                skeletons = [edition.skeleton(edition.source(cell)) for cell in (ours, theirs)]
                assert skeletons[0] == skeletons[1]
                asks = "predict" in theirs["metadata"].get("tags", ())
                setup = edition.SETUP["en"] in edition.source(theirs)  # says when it shows results
                assert asks or setup or edition.same_results(ours, theirs)


CODE = """\
scores = {"own": 1, "other": 2}  # two
print("greedy:", f"{scores['own']:<5} of {len(scores)}", "own", end=", ")
plots.setup()"""
TEXTS = {
    "greedy:": "贪心",
    "{scores['own']:<5} of {len(scores)}": "{len(scores)} 里 {scores['own']}",
}


def test_texts_of_the_code_are_translated_and_nothing_else():
    made = edition.in_chinese(CODE, TEXTS)
    lines = made.splitlines()
    assert lines[0] == CODE.splitlines()[0]
    assert lines[1] == """print("贪心", f"{len(scores)} 里 {scores['own']}", "own", end=", ")"""
    assert edition.skeleton(made) == edition.skeleton(CODE)
    assert edition.in_chinese(CODE, {}) == CODE
    joined = 'print("a " f"{x} b" " c")'
    assert edition.in_chinese(joined, {"a {x} b c": "甲{x}乙"}) == 'print(f"甲{x}乙")'


@pytest.mark.parametrize("old, new", [("own'", "other'"), ("2}", "3}"), ("len", "max")])
def test_other_code_has_another_skeleton(old, new):
    same = old == "own'"  # a text, which may be another
    assert (edition.skeleton(CODE) == edition.skeleton(CODE.replace(old, new))) == same


def outputs_of(name):
    """The texts that a notebook prints, English and Chinese, with the ids of their cells."""
    chinese = edition.read_notebook(edition.CHINESE / f"{name}.ipynb")
    for cell in edition.english(name)["cells"]:
        texts = []
        for side in (cell, chinese[cell["id"]]):
            outputs = side.get("outputs", ())
            texts.append("".join("".join(output.get("text", "")) for output in outputs))
        if texts[0]:
            yield cell["id"], texts[0].splitlines(), texts[1].splitlines()


def test_a_page_prints_what_its_own_code_says():
    for name in edition.names():
        texts = edition.read(edition.CHINESE / f"{name.split('_')[0]}.toml").get("code", {})
        for cell, english, chinese in outputs_of(name):
            for text, translated in texts.get(cell, {}).items():
                said = text.split("{")[0].strip()  # up to what is computed
                if re.search("[A-Za-z]{4}", said) and said in "\n".join(english):
                    stale = said not in translated and said in "\n".join(chinese)
                    assert not stale, f"{name}, {cell}: run it with tools/execute.py"


NOTE = re.compile(r"  (?:seeds? [\d, ]+ recorded|种子 [\d、]+ 已记录)$")  # behind a row


def columns(lines, spaced=False):
    """How many numbers of these lines end below each other, perhaps behind wide spaces alone."""
    rows = []
    for line in [NOTE.sub("", line) for line in lines]:
        found = [*re.finditer(edition.NUMBER, line)]
        starts = [0, *(number.end() for number in found)]
        gaps = [line[start : number.start()] for start, number in zip(starts, found, strict=False)]
        wide = [not spaced or bool(re.search(r"\S\s{2}|^\s{2,}$", gap)) for gap in gaps]
        rows.append([*zip((language.width(line[: n.end()]) for n in found), wide, strict=True)])
    if len({len(row) for row in rows}) > 1:
        return 0
    pairs = (zip(*column, strict=True) for column in zip(*rows, strict=True))
    return sum(len(set(ends)) == 1 and any(wide) for ends, wide in pairs)


def lost_columns(name):
    """The lines of Chinese tables that have fewer columns than the English ones."""
    for cell, english, chinese in outputs_of(name):
        for row in range(len(english) - 1 if len(english) == len(chinese) else 0):
            two = slice(row, row + 2)
            if columns(chinese[two]) < columns(english[two], spaced=True):
                yield f"{name}, {cell}: " + "\n".join(chinese[two])


def test_a_table_keeps_its_columns():
    assert columns(["loss  1.0   20", "BLEU  3.5  100"]) == 2
    assert columns(["损失  1.0   20", "BLEU  3.5  100"]) == 2
    assert columns(["损失 1.0   20", "BLEU  3.5  100"]) == 0
    assert [lost for name in edition.names() for lost in lost_columns(name)] == []


def test_no_space_follows_full_width_punctuation():
    spaced = re.compile(r"(?<=\S)[，。：；！？] (?=\S)")  # the corpora have spaces on both sides
    for name in edition.names():
        for cell, _, chinese in outputs_of(name):
            assert [line for line in chinese if spaced.search(line)] == [], (name, cell)


def test_what_is_drawn_has_letters_that_the_font_has():
    letters = TTFont(CJK_FONT).getBestCmap()
    for path in sorted(edition.CHINESE.glob("*.ipynb")):
        for cell in edition.read_notebook(path).values():
            for output in cell.get("outputs", ()):
                if "image/png" in output.get("data", {}):
                    drawn = "".join(output["data"].get("text/plain", ""))
                    assert {c for c in drawn if ord(c) > 0x2E7F and ord(c) not in letters} == set()


def test_a_number_is_the_same_in_both_languages():
    pairs = {
        "4.5 million pairs": "450 万个句对",
        "a\nmillion ids": "100 万个编号",
        "16 times smaller": "缩小到原来的 1/16",
        "65M": "6500 万",
        "1,024 of 2": "2 个里有 1,024 个",
    }
    for english, chinese in pairs.items():
        assert sorted(edition.amounts(english)) == sorted(edition.amounts(chinese)), english
    told = list(edition.differences("It is 16 times smaller.", "它缩小 16 倍。"))
    assert len(told) == 1 and "缩小到原来的" in told[0]


RULES = {
    "是原来的 8 倍": ["大了八倍", "快了 {x:.1f} 倍", "比它多 R 倍", "多 3 倍"],
    "before %": ["5 %"],
}
FINE = ["大了一倍", "放大十倍", "变成八倍", "是所需的 R 倍", "最大的 5%"]


def test_a_multiple_and_a_share_are_written_one_way():
    for rule, texts in RULES.items():
        for text in texts:
            (finding,) = edition.wording(text)
            assert rule in finding
            assert list(edition.phrase_findings({"a phrase": text})) == [f"'a phrase': {finding}"]
            assert len(list(edition.differences("", text))) >= 1
    assert [finding for text in FINE for finding in edition.wording(text)] == []


def test_every_comment_is_translated_or_said_to_stay(tmp_path, monkeypatch):
    cells = [
        {"id": "a", "cell_type": "code", "source": ["x = 1  # (B, T): ids\n", "# Frau\n# (N,)"]}
    ]
    monkeypatch.setattr(edition, "english", lambda name: {"cells": cells})
    monkeypatch.setattr(edition, "CHINESE", tmp_path)
    table = {'"# (B, T): ids"': '"# (B, T)：编号"', '"# Frau"': '"# Frau"', '"# old"': '"# 旧"'}
    for left_out, says in (('"# Frau"', "no '# Frau'"), ('"# (B, T): ids"', "no '# (B, T): ids'")):
        lines = [f"{key} = {text}" for key, text in table.items() if key != left_out]
        (tmp_path / "06.toml").write_text("[comments]\n" + "\n".join(lines), "utf-8")
        missing, unused = edition.comment_findings("06_masking")
        assert says in missing and "no code has '# old'" in unused


def test_the_glossary_holds_for_all_that_the_course_says():
    avoided = next(iter(edition.avoided()))
    assert "the glossary has" in next(edition.phrase_findings({"a": f"一个{avoided}"}))
    assert list(edition.phrase_findings(edition.read(edition.WORDS))) == []
    for page in (edition.ROOT / "README.zh.md", *(edition.ROOT / "docs" / "zh").glob("*.md")):
        # a row of a table may name what others say
        text = re.sub(r"^\|.*", "", page.read_text("utf-8"), flags=re.MULTILINE)
        assert list(edition.wording(edition.prose(text))) == [], page.name


@pytest.mark.nightly
@pytest.mark.parametrize("name", edition.names())
def test_a_notebook_says_the_same_in_another_folder(name, tmp_path):
    folder = tmp_path / "mine"
    shutil.copytree(edition.CHINESE, folder)
    (folder / f"{name}.ipynb").rename(folder / f"{name[:2]}_copy.ipynb")
    now = execute.execute(folder / f"{name[:2]}_copy.ipynb", timeout=3600)
    stored = nbformat.read(edition.CHINESE / f"{name}.ipynb", as_version=4)
    for cell, before in zip(now["cells"], stored["cells"], strict=True):
        tags = cell["metadata"].get("tags", ())
        if cell["cell_type"] == "code" and "nbval-ignore-output" not in tags:
            reading.write_outputs_as_stored(cell["outputs"], before["outputs"], str, tags, ())
            texts = ["".join(o.get("text", "")) for side in (cell, before) for o in side["outputs"]]
            half = len(texts) // 2
            assert texts[:half] == texts[half:], cell["id"]


def test_the_homework_is_translated_as_it_is_today():
    for file in [path.name for path in sorted(edition.HOMEWORK.glob("*.toml"))]:
        assert list(edition.homework_findings(file, edition.long_texts()[file])) == []


def test_the_pages_of_the_homework_are_made_of_their_texts():
    pages, titles = edition.homework(), re.compile(r'"## \d\d\.\d [^"]*[\u3400-\u9fff]')
    kept = {*(edition.CHINESE / "homework").glob("*.ipynb")}
    assert len(pages) == 12 and kept == pages.keys()
    for path, text in pages.items():
        assert path.read_text("utf-8") == text, "run: python tools/edition.py"
        theirs = json.loads((edition.NOTEBOOKS / "homework" / path.name).read_text("utf-8"))
        for ours, english in zip(json.loads(text)["cells"], theirs["cells"], strict=True):
            same = ours == english if ours["cell_type"] == "code" else ours["id"] == english["id"]
            assert same, (path.name, ours["id"])
            found = edition.differences(edition.source(english), edition.source(ours))
            assert ours["cell_type"] == "code" or list(found) == [], (path.name, ours["id"])
        named = len(titles.findall(text)) + ("## 11.2 BLEU" in text)
        assert named == len(assignments()[path.name[:2]].tasks)


PAGES = sorted({*edition.CHINESE.glob("*.ipynb"), *edition.CHINESE.glob("homework/*.ipynb")})


def lost_places(path):
    """The links of a page that name no cell with a heading, or the English of a translated page."""
    text = prose(nbformat.read(path, as_version=4)["cells"])
    for page, cell in re.findall(r"\]\(([^()\s]+\.ipynb)(?:#([^()\s]+))?\)", text):
        cells = nbformat.read(path.parent / page, as_version=4)["cells"]
        named = [each["source"] for each in cells if f"cell-id={each['id']}" == cell]
        if cell and not (named and headings(named[0])):
            yield f"{page}#{cell}"
        if re.search(r"\.\./(homework/)?\d\d_", page):
            yield page


@pytest.mark.slow
def test_links_lead_to_headings_and_never_to_an_english_page_that_is_translated():
    for path in PAGES:
        assert list(lost_places(path)) == []  # their anchors on the site: test_site


NAMED = """attention,self-attention,cross-attention,multi-head attention,query,mask,padding mask,
causal mask,padding,embedding,positional encoding,encoder,decoder,feed-forward network,reference,
residual connection,layer normalisation,batch normalisation,byte-pair encoding,label smoothing,
learning rate,warm-up,cross-entropy,perplexity,gradient clipping,gradient accumulation,checkpoint,
early stopping,overfitting,greedy search,beam search,length penalty,sampling,mixed precision,
weight tying,back-translation,knowledge distillation,unknown word,brevity penalty,fused kernel,
token,scaled dot-product attention""".replace("\n", "").split(",")


def test_a_term_has_its_english_name_where_a_notebook_uses_it_first():
    terms = {term["zh"]: term["en"] for term in edition.read(edition.GLOSSARY)["term"]}
    any_term = "未登录词元|" + "|".join(sorted(terms, key=len, reverse=True))
    assert set(NAMED) <= set(terms.values())
    for name in edition.names():
        texts, seen = edition.translation(name.split("_")[0]), set()
        cells = [texts[c["id"]]["text"] for c in edition.english(name)["cells"] if c["id"] in texts]
        lines = (x for x in "\n".join(cells).splitlines() if not x.startswith(("#", "**用时")))
        text = edition.prose(re.sub(r"\[[^]\n]*\]\([^)\s]+\)", "", "\n".join(lines)))
        for match in re.finditer(any_term, text):
            if (english := terms.get(match[0])) in NAMED and english not in seen:
                seen.add(english)
                behind = rf"”?(?:（[^）]*|，){english.replace('-', '-?')}"
                assert re.match(behind, text[match.end() :], re.IGNORECASE), (name, match[0])


def test_no_name_of_a_term_is_that_of_another():
    terms = edition.read(edition.GLOSSARY)["term"]
    names = [n for t in terms for n in {t["zh"], *t.get("not", ()), *t.get("also", ())}]
    assert sorted(names) == sorted(set(names))
