"""The Chinese edition is that of today's English text, and is written by its rules."""

import json
import re

import edition
import nbformat
from cells import headings, prose


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
                assert edition.uncommented(ours) == edition.uncommented(theirs)
                asks = "predict" in theirs["metadata"].get("tags", ())
                setup = "plots.setup()" in edition.source(theirs)  # says when results are shown
                assert asks or setup or edition.same_results(ours, theirs)


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
        assert len(titles.findall(text)) + ("## 11.2 BLEU" in text) == 4


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
