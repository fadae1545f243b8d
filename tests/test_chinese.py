"""The Chinese edition is that of today's English text, and is written by its rules."""

import json
import re

import edition
import nbformat
import pytest
from cells import headings, prose
from nbformat.v4 import new_markdown_cell, new_notebook

ENGLISH = """## 2 · The mask
A key is `PAD` in 3 of 20,000 rows, see [05](05_multi_head_attention.ipynb): $d_k$ decides."""
GOOD = """## 2 · 掩码
20,000 行中有 3 行的键是 `PAD`，见 [05](05_multi_head_attention.ipynb)：由 $d_k$ 决定。"""


def test_every_notebook_is_translated():
    assert edition.names() == sorted(path.stem for path in edition.NOTEBOOKS.glob("*.ipynb"))


@pytest.mark.parametrize("name", edition.names())
def test_a_notebook_is_translated_as_it_is_today(name):
    assert list(edition.findings(name)) == []


@pytest.mark.parametrize("name", edition.names())
def test_a_notebook_has_the_code_and_outputs_of_the_english_one(name):
    stored = (edition.CHINESE / f"{name}.ipynb").read_text("utf-8")
    assert stored == edition.written(edition.chinese(name)), "run: python tools/edition.py"
    for ours, theirs in zip(
        json.loads(stored)["cells"], edition.english(name)["cells"], strict=True
    ):
        assert ours["id"] == theirs["id"] and ours["cell_type"] == theirs["cell_type"]
        if theirs["cell_type"] == "code":
            assert ours["source"] == theirs["source"]
            if "predict" not in theirs["metadata"].get("tags", ()):
                setup = "plots.setup()" in "".join(theirs["source"])  # says when results are shown
                assert ours["outputs"][setup:] == theirs["outputs"][setup:]


@pytest.mark.parametrize("file", [path.name for path in sorted(edition.HOMEWORK.glob("*.toml"))])
def test_the_homework_is_translated_as_it_is_today(file):
    assert list(edition.homework_findings(file, edition.long_texts()[file])) == []


def test_a_task_that_was_rewritten_is_stale():
    now = edition.long_texts()["04.toml"]
    later = now | {"04.1": now["04.1"].replace("a few hundred", "a thousand")}
    (told,) = edition.homework_findings("04.toml", later)
    assert "04.1 is stale" in told and "of a thousand" in told and "溢出" in told


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
        assert len(titles.findall(text)) + ("## 11.2 BLEU" in text) == 4


def test_a_translation_is_of_one_english_text():
    made = {"a": {"english": edition.digest(ENGLISH), "text": GOOD}}
    assert list(edition.stale({"a": ENGLISH}, made)) == []
    (told,) = edition.stale({"a": ENGLISH + "!"}, made)
    assert "a is stale" in told and ENGLISH + "!" in told and "掩码" in told
    assert next(edition.stale({"b": ENGLISH}, {})).startswith("b has no translation")
    assert list(edition.stale({}, made)) == ["a translates nothing"]


def test_what_is_no_matter_of_language_is_equal():
    assert list(edition.differences(ENGLISH, GOOD)) == []


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ("`PAD`", "`BOS`", "code differ"),
        ("$d_k$", "$d_v$", "formulas differ"),
        ("05_multi", "06_multi", "links differ"),
        ("20,000", "2,000", "numbers differ"),
        ("有 3 行", "有三行", "numbers differ"),
        ("掩码", "遮罩", "the glossary has '掩码'"),
        ("，见", ",见", "full-width"),
        ("决定。", "决定.", "full stop"),
        ("有 3 行", "有3行", "a space between"),
        ("掩码", '“掩码"', "quotation marks"),
        ("行的键", "行的 键", "no space"),
        ("掩码", "*掩码*", "bold, not italics"),
        ("，见", "**，见：**见", "sees no bold"),
        (GOOD, ENGLISH, "not in Chinese"),
    ],
)
def test_a_slip_in_a_translation_is_found(right, wrong, told):
    assert any(
        told in finding for finding in edition.differences(ENGLISH, GOOD.replace(right, wrong))
    )


def test_links_lead_out_of_the_folder(monkeypatch):
    monkeypatch.setattr(edition, "names", lambda: ["06_masking"])
    text = (
        "[a](06_masking.ipynb) [b](07_the_full_model.ipynb) [c](../docs/map.md) [d](https://x.org)"
    )
    assert edition.moved(text, "14") == (
        "[a](06_masking.ipynb) [b](../07_the_full_model.ipynb) [c](../../docs/map.md) "
        "[d](https://x.org)"
    )
    assert (
        edition.moved("`nmtlib homework start 04`", "04") == "`nmtlib homework start 04 --lang zh`"
    )


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


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_to_headings_and_never_to_an_english_page_that_is_translated(path):
    assert list(lost_places(path)) == []  # their anchors on the site: test_site


def test_a_lost_place_is_found(tmp_path):
    text = (
        "# A\n[a](a.ipynb#cell-id=one) [b](a.ipynb#cell-id=two) [c](a.ipynb#A) [d](../01_a.ipynb)"
    )
    cells = [new_markdown_cell(text, id="one"), new_markdown_cell("no heading", id="two")]
    (tmp_path / "zh").mkdir()
    for name in ("zh/a.ipynb", "01_a.ipynb"):
        nbformat.write(new_notebook(cells=cells), tmp_path / name)
    found = ["a.ipynb#cell-id=two", "a.ipynb#A", "../01_a.ipynb"]
    assert list(lost_places(tmp_path / "zh" / "a.ipynb")) == found


def test_a_heading_is_named_by_its_cell():
    there = "[a](06_masking.ipynb#4-%C2%B7-Does-my-decoder-see-the-future%3F-Change-one-token)"
    assert edition.moved(there, "14_x") == "[a](06_masking.ipynb#cell-id=cell-33)"
    here = edition.moved("[b](#Is-everything-installed?)", "00_tour")
    assert here == "[b](00_tour.ipynb#cell-id=cell-36)"
    with pytest.raises(ValueError, match="06_masking has no cell whose first heading is #Nowhere"):
        edition.moved("[c](06_masking.ipynb#Nowhere)", "14_x")
