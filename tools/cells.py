"""What rules ask of the cells of a notebook."""

from __future__ import annotations

import re


def code(book: dict) -> list[dict]:
    """The code cells that hold code."""
    cells = (cell for cell in book["cells"] if cell["cell_type"] == "code")
    return [cell for cell in cells if cell["source"].strip()]


def cells_with(statement: str, book: dict) -> list[dict]:
    """The code cells in which a line begins with a pattern."""
    return [cell for cell in code(book) if re.search(rf"(?m)^\s*{statement}", cell["source"])]


def tags(cell: dict) -> list[str]:
    return cell["metadata"].get("tags", [])


def prose(cells: list[dict]) -> str:
    """The text of the Markdown cells."""
    return "\n\n".join(cell["source"] for cell in cells if cell["cell_type"] == "markdown")


def headings(text: str) -> list[str]:
    """The headings of Markdown text, those inside code blocks left out."""
    plain = re.sub(r"(?ms)^```.*?^```", "", text)
    return [match.strip() for match in re.findall(r"(?m)^#+\s+(.*?)\s*#*$", plain)]
