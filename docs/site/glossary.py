"""The glossary: each term, what it means, its Chinese, and the notebook to read about it."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TERMS = ROOT / "docs" / "zh" / "glossary.toml"
HEAD = """# Glossary

The terms of the course, each in one line, with its Chinese. The last column leads to the
notebook to read about it.

| term | what it means | 中文 | notebook |
| --- | --- | --- | --- |
"""


def page() -> str:
    """The page, in the order of the alphabet."""
    texts = {path: prose(path) for path in sorted(ROOT.glob("notebooks/[0-9]*.ipynb"))}
    terms = tomllib.loads(TERMS.read_text("utf-8"))["term"]
    rows = [row(term, texts) for term in sorted(terms, key=lambda term: term["en"].lower())]
    return HEAD + "\n".join(rows) + "\n"


def other_names() -> dict[str, str]:
    """What else a Chinese reader may call a term, and its Chinese, of a pair of characters."""
    terms = tomllib.loads(TERMS.read_text("utf-8"))["term"]
    terms = [term for term in terms if len(term["zh"]) > 1]
    names = {without_brackets(term["en"]).lower(): term["zh"] for term in terms}
    for term in terms:
        for name in [*term.get("not", ()), *term.get("also", ())]:
            names[name.lower()] = term["zh"]
    return names


def without_brackets(term: str) -> str:
    """A term without what it is called as well: "BLEU" of "BLEU (score)"."""
    return re.sub(r" \(.*", "", term)


def prose(notebook: Path) -> str:
    """The Markdown of a notebook."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    return "\n".join(texts)


def row(term: dict[str, str], texts: dict[Path, str]) -> str:
    """A term, what it means, its Chinese, and a link to the notebook to read about it."""
    link = ""
    best = None
    for path in texts:  # the one that the glossary says
        if path.name.startswith(term.get("notebook", "none")):
            best = path
            break
    if best is None:
        best = notebook_about(without_brackets(term["en"]), texts)
    if best:
        title = re.search(r"# (.+)", texts[best])[1]
        link = f"[{title}](notebooks/{best.name})"
    return f"| {term['en']} | {term['means']} | {term['zh']} | {link} |"


def notebook_about(term: str, texts: dict[Path, str]) -> Path | None:
    """The notebook whose text uses a term most, the first of equals; None where none does."""
    word = re.compile(rf"\b{re.escape(term)}", re.IGNORECASE)
    used = {path: len(word.findall(re.sub(r"(?m)^#.*", "", text))) for path, text in texts.items()}
    best = max(used, key=used.__getitem__)
    return best if used[best] else None
