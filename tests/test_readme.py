"""README in two languages: what its first screen shows, and that the Chinese one keeps up."""

import re
from pathlib import Path

import edition

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
