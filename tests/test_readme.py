"""README in two languages: what its first screen shows, and that the Chinese one keeps up."""

import re
import sys
from pathlib import Path

import edition

from nmtcourse.explorer.page import explore

ROOT = Path(__file__).resolve().parents[1]
README, CHINESE = ROOT / "README.md", ROOT / "README.zh.md"
sys.path.append(str(ROOT / "docs" / "site"))
import address  # noqa: E402

MADE = re.compile(r"<!-- (?:badges|tree|graded):begin -->.*?<!-- \w+:end -->", re.DOTALL)
BLOCK = re.compile(r"(<!-- (\w+):begin -->\n).*?(?=<!-- \2:end -->)", re.DOTALL)
STAMP = re.compile(r"<!-- README\.md as translated: (\w+) -->\n")


def written(english: str) -> str:
    """The digest of what a person wrote in README; what the script fills in is translated by it."""
    return edition.digest(BLOCK.sub(r"\1", english))


def sections(text: str) -> list[str]:
    """The text from heading to heading, as both languages have it, with one address a page."""
    _, text = STAMP.sub("", MADE.sub("", text)).split("\n", 1)  # the first line has the switch
    text = re.sub(r"(notebooks|docs)/zh/", r"\1/", text).replace("README.zh.md", "README.md")
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


def screen(page: Path) -> str:
    """What stands above the first section."""
    return page.read_text("utf-8").partition("\n## ")[0]


def test_the_doors_of_the_first_screen_lead_to_what_runs_or_reads(tmp_path):
    explorer = explore("cmn-en-zh", tmp_path / "explorer.html").read_bytes()
    for page in (README, CHINESE):
        doors = re.findall(r"\*\*\[[^]]+\]\(([^)]+)\)\*\*", screen(page))
        assert len(doors) == 4 and doors[0] == "figures/explorer.html"
        assert (ROOT / doors[0]).read_bytes() == explorer, "make it anew: nmtlib explore cmn-en-zh"
        assert doors[1].endswith(".ipynb") and all((ROOT / door).is_file() for door in doors)
        promise = re.search(r"^\*\*([^*\[]+)\*\*$", screen(page), re.MULTILINE)[1]
        assert len(promise.split()) <= 12 and len(page.read_text("utf-8").splitlines()) <= 180


def test_no_address_stays_open_once_the_repository_is_known():
    for page in (README, CHINESE):
        text = page.read_text("utf-8")
        assert not re.search(r"index-url|/whl\b", text), "pip asks where it is set up to ask"
        filled = address.filled(text, "https://github.com/Some/fork")
        assert "URL" in text and not re.search(r"\bURL\b", filled)
        assert (
            "figures/explorer.html" not in filled and "git+https://github.com/Some/fork" in filled
        )
        assert address.filled(text, "") == text
