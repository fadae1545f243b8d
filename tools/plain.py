"""Rules on what makes a notebook easy to read: its length, its English, and its code."""

from __future__ import annotations

import ast
import re
import statistics
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import minutes
from cells import code, prose, tags

MOST_WORDS, MOST_IMPORTS, MOST_ASSERTS, MEDIAN_LINES = 3_900, 6, 12, 8  # of one notebook
COMPARED = 0.92  # of all cells with outputs
UNNATURAL = {  # English that sounds translated -> what to write
    r"(?i)\b(?:whoever|somebody|nobody)\b": "'you', 'we', or the thing itself",
    r"(?:^|[.:;] )(?:Who|One (?:can|may|must|sees|has|needs|could|should|would))\b": (
        "'you', 'we', or the thing itself"
    ),
    r"\b(?:stands?|lies?) in\b": "'is in', 'appears in', 'contains'",
    r"\bthere (?:stand|lie)s?\b": "'there is'",
    r"\bbut (?:for|that) (?:the|a|it)\b": "'except'",
    r"(?<![Tt]here )\b(?:is|are) no (?!longer|more|better|worse|larger|smaller|faster)[a-z]+": (
        "'is not'"
    ),
    r"\b(?:a|one|two|three|both|each) training(?! (?:data|loss|loop|set|run|pair|sen))\b": "'run'",
    r"\btrainings\b": "'runs'",
    r"\bwhat goes on\b|\bsaid so far\b": "'prefix', 'partial hypothesis'",
    r"\bthe way back\b": "'backward pass'",
    r"(?i)\bthe (?:model|decoder|encoder|network) (?:says|said|talks|knows|guesses)\b": (
        "'predicts', 'generates', 'outputs'"
    ),
}


def is_short(book: dict, path: Path) -> Iterator[str]:
    words = max(words_between_rests(book))
    if words > MOST_WORDS:
        yield f"{words:,} words, at most {MOST_WORDS:,} are read in one go"
    lengths = [minutes.written(cell["source"]) for cell in code(book)]
    median = statistics.median(lengths)
    if median > MEDIAN_LINES:
        yield f"the median cell has {median} lines of code, at most {MEDIAN_LINES}"


def asserts_little(book: dict, path: Path) -> Iterator[str]:
    count = asserts_of(book)
    if count > MOST_ASSERTS:
        yield f"{count} asserts, at most {MOST_ASSERTS}: what is no part of the lesson is a test"


def begins_with_few_imports(book: dict, path: Path) -> Iterator[str]:
    first = next(iter(code(book)), {"source": ""})
    if "plots.setup()" not in first["source"]:
        yield f"{first['id']}: plots.setup() comes here, before anything is shown"
    imports = re.findall(r"(?m)^(?:from|import) ", first["source"])
    if len(imports) > MOST_IMPORTS:
        yield f"{first['id']}: {len(imports)} imports, at most {MOST_IMPORTS} before the first idea"


def is_written_in_natural_english(book: dict, path: Path) -> Iterator[str]:
    for cell in book["cells"]:
        if cell["cell_type"] == "markdown":
            text = re.sub(r"(?s)```.*?```|`[^`]*`|\$[^$]*\$", "", cell["source"])
            for finding in unnatural(text):
                yield f"{cell.get('id')}: {finding}"


def unnatural(text: str) -> Iterator[str]:
    """What sounds translated in some English text."""
    for pattern, instead in UNNATURAL.items():
        for match in re.finditer(pattern, text, re.MULTILINE):
            yield f"{match[0].strip()!r} sounds translated; write {instead}"


def gives_each_symbol_one_meaning(book: dict, path: Path) -> Iterator[str]:
    for cell in book["cells"]:
        if cell["cell_type"] == "markdown" and re.search(r"\\sqrt\{?K\b", cell["source"]):
            yield f"{cell['id']}: K is the matrix of keys; the size of a head is d_k"


def has_code_to_imitate(book: dict, path: Path) -> Iterator[str]:
    for cell in code(book):
        if "predict" not in tags(cell):
            for finding in clever(cell["source"]):
                yield f"{cell['id']}: {finding}"


def clever(source: str) -> Iterator[str]:
    """What a student should not imitate in a cell's code."""
    try:
        tree = ast.parse(re.sub(r"(?m)^\s*[%!].*$", "", source))
    except SyntaxError:  # shown on purpose
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and any(k.arg is None for k in node.keywords):
            yield "options spread with ** hide which they are"
        if isinstance(node, ast.If | ast.While) and _has([node.test], ast.NamedExpr):
            yield "a walrus in a condition: assign first"
        if isinstance(node, ast.For) and _has(node.body, ast.Lambda):
            yield "a lambda kept in a loop sees the last value only"
        comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
        if isinstance(node, comprehension) and _has(ast.iter_child_nodes(node), comprehension):
            yield "a comprehension in a comprehension: write a loop"


def _has(trees: Iterable[ast.AST], kind: Any) -> bool:
    return any(isinstance(node, kind) for tree in trees for node in ast.walk(tree))


def compares_its_pictures(book: dict, path: Path) -> Iterator[str]:
    for cell in code(book):
        has_picture = any("image/png" in output.get("data", {}) for output in cell["outputs"])
        if has_picture and "nbval-ignore-output" in tags(cell):
            yield f"{cell['id']}: a picture that is not compared; call plots.varies() if it varies"


def words_between_rests(book: dict) -> list[int]:
    """The words of the Markdown cells up to each line 'Rest here', and after the last."""
    parts = re.split("(?i)rest here", prose(book["cells"]))
    return [len(part.split()) for part in parts]


def asserts_of(book: dict) -> int:
    """The asserts in the code of a notebook."""
    return sum(len(re.findall(r"(?m)^\s*assert\b", cell["source"])) for cell in code(book))


def course(books: Iterable[dict]) -> Iterator[str]:
    """What is wrong with all notebooks together."""
    cells = [cell for book in books for cell in code(book)]
    cells = [cell for cell in cells if cell["outputs"]]
    compared = sum("nbval-ignore-output" not in tags(cell) for cell in cells) / len(cells)
    if compared < COMPARED:
        yield f"{compared:.0%} of the cells with outputs are compared, at least {COMPARED:.0%}"


RULES = [
    is_short,
    asserts_little,
    begins_with_few_imports,
    is_written_in_natural_english,
    gives_each_symbol_one_meaning,
    has_code_to_imitate,
    compares_its_pictures,
]
