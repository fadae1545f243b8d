"""README in two languages: what its first screen shows, and that the Chinese one keeps up."""

import re
from pathlib import Path

import edition
import film
import pytest
import stamp
import tiles
from PIL import Image
from test_docs import PAGES, links

ROOT = Path(__file__).resolve().parents[1]
README, CHINESE = ROOT / "README.md", ROOT / "README.zh.md"
MADE = re.compile(r"<!-- (?:badges|tree|graded):begin -->.*?<!-- \w+:end -->", re.DOTALL)
BLOCK = re.compile(r"(<!-- (\w+):begin -->\n).*?(?=<!-- \2:end -->)", re.DOTALL)
STAMP = re.compile(r"<!-- README\.md as translated: (\w+) -->\n")


def written(english: str) -> str:
    """The digest of what a person wrote in README; what the script fills in is translated by it."""
    return edition.digest(BLOCK.sub(r"\1", english))


def sections(text: str) -> list[str]:
    """The text from heading to heading, as both languages have it, with one address a page."""
    _, text = STAMP.sub("", MADE.sub("", text)).split("\n", 1)  # the first line has the switch
    text = text.replace("notebooks/zh/", "notebooks/")
    text = re.sub(r'<a href="([^"]+)">|<[^>]+>', lambda tag: f"]({tag[1]})", text)
    text = re.sub(r"!\[[^]]*\]", "", text)
    return re.split(r"(?m)^(?=##+ )", text)  # "# " can be a comment in a command


def findings(english: str, chinese: str) -> list[str]:
    """Where the Chinese README is not what the English one says today."""
    ours, theirs = sections(chinese), sections(english)
    if [each[:4].count("#") for each in ours] != [each[:4].count("#") for each in theirs]:
        return ["the headings differ"]
    told = [f for pair in zip(theirs, ours, strict=True) for f in edition.differences(*pair)]
    stamped = STAMP.search(chinese)
    if not stamped or stamped[1] != written(english):
        told.append(f"README.md has changed since; translate it, then stamp: {written(english)}")
    return told


def test_the_chinese_readme_says_what_the_english_one_says_today():
    assert findings(README.read_text("utf-8"), CHINESE.read_text("utf-8")) == []


@pytest.mark.parametrize(
    ("english", "chinese", "told"),
    [
        (("## Results", "## The results"), None, "README.md has changed"),
        (("on a laptop", "on 2 laptops"), None, "numbers differ"),
        (None, ("docs/checks.md", "docs/check.md"), "links differ"),
        (None, ("notebooks/zh/06_masking", "notebooks/zh/07_masking"), "links differ"),
        (None, ("### nmtlib", "nmtlib"), "headings differ"),
        (None, ("| 42.9 |", "| 43.9 |"), "numbers differ"),
        (None, ("make train ", "make trian "), "code differ"),
        (None, ("束搜索", "集束搜索"), "the glossary has"),
    ],
)
def test_a_chinese_readme_that_falls_behind_is_found(english, chinese, told):
    texts = [page.read_text("utf-8") for page in (README, CHINESE)]
    for place, change in enumerate((english, chinese)):
        if change:
            assert change[0] in texts[place]
            texts[place] = texts[place].replace(*change, 1)
    assert any(told in finding for finding in findings(*texts))


@pytest.mark.parametrize("page", [README, CHINESE], ids=["en", "zh"])
def test_the_first_screen_has_the_other_language_a_film_and_the_way_in(page):
    lines = page.read_text("utf-8").splitlines()
    assert "[English](README.md)" in lines[0] or "[中文](README.zh.md)" in lines[0]
    first = "\n".join(lines[: lines.index("<!-- headlines:end -->") + 1])
    shown = {link.partition("#")[0] for link in links(first)}
    assert {"figures/explorer.webp", "docs/explorer.md", "LICENSE"} <= shown
    assert any("00_tour.ipynb" in link for link in shown)
    assert {each.name for each in PAGES} - {page.name} <= {
        Path(each).name for each in links("\n".join(lines))
    }


def test_the_film_is_short_and_light_and_moves():
    path = ROOT / "figures" / "explorer.webp"
    assert path.stat().st_size < 1.5e6
    times = []
    with Image.open(path) as film:
        for frame in range(film.n_frames):
            film.seek(frame)
            film.load()
            times.append(film.info["duration"])
    assert len(times) > 5 and sum(times) <= 6000


@pytest.mark.parametrize("made", [film.digests, lambda: {tiles.PICTURE: tiles.digest()}])
def test_the_pictures_are_of_todays_page_and_notebooks(made):
    assert stamp.check(made()) == 0, "run the tool that this names"


def test_a_picture_of_older_figures_is_found(monkeypatch, capsys):
    monkeypatch.setattr(tiles, "stored", lambda notebook: b"another figure")
    assert stamp.check({tiles.PICTURE: tiles.digest()}) == 1
    assert "course.png is out of date" in capsys.readouterr().out
