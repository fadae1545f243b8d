"""The Chinese edition: notebooks made of the English ones and of translated text.

    python tools/edition.py            make notebooks/zh/*.ipynb again
    python tools/edition.py --check    write nothing; fail where a text is stale or breaks a rule
    python tools/edition.py --todo 06  what of notebook 06 has no current translation
    python tools/edition.py --words 06  the texts in its code that have no translation

`notebooks/zh/NN.toml` holds, for each Markdown cell, the digest of the English text that was
translated, and the Chinese text; `nmtcourse/teaching/asked/zh/NN.toml` does so for the questions,
`nmtcourse/homework/zh/*.toml` for the homework. Code is that of the English notebook; the table
`comments` has its comments in Chinese, and `code.CELL` the texts of a cell that it prints or draws,
each as it is written between its quotation marks. Nothing is translated when a notebook runs:
`plots.setup("zh")` only chooses the language of what the course's own functions say. Outputs are
those of a run, `python tools/execute.py notebooks/zh/06*.ipynb`, as long as their numbers are those
of the English.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import io
import json
import re
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from cells import headings

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
CHINESE = NOTEBOOKS / "zh"
GLOSSARY = ROOT / "docs" / "zh" / "glossary.toml"
ASKED = ROOT / "nmtcourse" / "teaching" / "asked"
HOMEWORK = ROOT / "nmtcourse" / "homework" / "zh"
SETUP = {"en": "plots.setup()", "zh": 'plots.setup("zh")'}
STRING = r"""([A-Za-z]*)(\"\"\"|\'\'\'|"|\')((?:\\.|(?!\2)[\s\S])*)\2"""
HAN = r"[\u3400-\u9fff]"
# code, formulas and addresses: the same in both languages
CODE = r"```[\s\S]*?```|`(?:[^`\n]|\n(?!\n))*`"
FORMULA = r"\$\$[\s\S]*?\$\$|\$(?:[^$\n]|\n(?!\n))+\$"
LINK = r"\]\(([^)\s]+)\)"
NUMBER = r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?"
UNITS = {"万": 10**4, "million": 10**6, "M": 10**6, "亿": 10**8}
TYPOGRAPHY = {
    rf"{HAN}[,;:!?](?![\w/])|[,;:!?] ?{HAN}": "full-width punctuation after Chinese",
    rf"{HAN}\.(?:\s|$)": "a full stop 。 after Chinese",
    rf"{HAN}[A-Za-z0-9]|[A-Za-z0-9]{HAN}": "a space between Chinese and Latin letters or digits",
    r"[「」『』]|\"": "quotation marks “ ”",
    rf"{HAN}(?: +|\n){HAN}": "no space and no line break between Chinese characters",
    rf"{HAN} “|” {HAN}": "no space beside quotation marks",
    r"[\d一两几] ?百万|百万个": "万 and 亿, or the number itself",
    r"(?:缩小|减少|降低)了? ?\d+ 倍": "缩小到原来的 1/16",
}
BESIDE_MARKS = rf"[，。：；！？、]\s|{HAN}[,;:!?](?:\s|$)|{HAN} “|” {HAN}"  # in code: spaces align
ITALICS = rf"(?<!\*)\*{HAN}[^*\n]*\*(?!\*)"


def digest(text: str) -> str:
    """What tells whether an English text is still the one that was translated."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


ENGLISH = {p.stem: p for f in ("*.ipynb", "deeper/*.ipynb") for p in NOTEBOOKS.glob(f)}


def names() -> list[str]:
    """The notebooks that have a translation, such as "06_masking", with the deeper ones."""
    return [n for n in sorted(ENGLISH) if (CHINESE / f"{n.split('_')[0]}.toml").is_file()]


def read(path: Path) -> dict:
    return tomllib.loads(path.read_text("utf-8")) if path.is_file() else {}


def translation(number: str) -> dict[str, dict]:
    """The Chinese texts of the cells of a notebook."""
    tables = read(CHINESE / f"{number}.toml").items()
    return {key: table for key, table in tables if key not in ("comments", "code")}


@cache
def english(name: str) -> dict:
    """The English notebook; nobody changes it."""
    return json.loads(ENGLISH[name].read_text("utf-8"))


def source(cell: dict) -> str:
    return "".join(cell["source"])


def questions(number: str) -> dict[str, str]:
    """The English questions of a notebook, each as one text."""
    asked = read(ASKED / f"{number}.toml").items()
    return {key: json.dumps(about, ensure_ascii=False) for key, about in asked}


def stale(now: dict[str, str], translated: dict[str, dict]) -> Iterator[str]:
    """The English texts whose translation is missing, or is one of another text."""
    for key, text in now.items():
        if key not in translated:
            yield f"{key} has no translation:\n{text}"
        elif (made := translated[key])["english"] != digest(text):
            yield f"{key} is stale; the English text, {digest(text)}, is now:\n{text}\n\n{made}"
    yield from (f"{key} translates nothing" for key in translated.keys() - now.keys())


def findings(name: str) -> Iterator[str]:
    """What is wrong with the translation of a notebook and of its questions."""
    number = name.split("_")[0]
    cells = [cell for cell in english(name)["cells"] if cell["cell_type"] == "markdown"]
    pairs = [
        ({cell["id"]: source(cell) for cell in cells}, translation(number)),
        (questions(number), read(ASKED / "zh" / f"{number}.toml")),
    ]
    for now, translated in pairs:
        yield from (f"{name}: {finding}" for finding in stale(now, translated))
        for key in now.keys() & translated.keys():
            about = translated[key]
            texts = about["text"] if "text" in about else question_text(about)
            told = differences(now[key], texts)
            yield from (f"{name}, {key}: {finding}" for finding in told)
    yield from (f"{name}, {finding}" for finding in code_findings(name))


def code_findings(name: str) -> Iterator[str]:
    """What is wrong with the Chinese texts in the code of a notebook."""
    cells = {cell["id"]: cell for cell in english(name)["cells"] if cell["cell_type"] == "code"}
    for key, texts in read(CHINESE / f"{name.split('_')[0]}.toml").get("code", {}).items():
        code = source(cells[key]) if key in cells else ""
        written = {literal.text for literal in literals(code)}
        yield from (f"{key}: the code has no text {text!r}" for text in texts.keys() - written)
        if not same_code(in_chinese(code, texts), code):
            yield f"{key}: its texts change the code, such as what is computed inside braces"
        for text in texts.values():
            if found := re.search(BESIDE_MARKS, text):
                yield f"{key}: {text!r}: full-width punctuation, without a space: {found[0]!r}"
            yield from (f"{key}: {text!r}: {finding}" for finding in other_terms(text))


def other_terms(text: str) -> Iterator[str]:
    """The terms of a text that are not those of the glossary."""
    for other, term in avoided().items():
        if other in text:
            yield f"{other!r}: the glossary has {term['zh']!r} for {term['en']!r}"


@cache
def avoided() -> dict[str, dict]:
    """What the glossary says a term is not called, with the term."""
    terms = read(GLOSSARY).get("term", ())
    return {other: term for term in terms for other in term.get("not", ())}


def homework() -> dict[Path, str]:
    """The pages of the homework in Chinese."""
    from nmtcourse.homework import grading, pages  # only now: it imports torch

    made = grading.assignments().values()
    return {
        CHINESE / "homework" / f"{each.stem}.ipynb": pages.notebook(each, language="zh")
        for each in made
    }


def homework_findings(file: str, now: dict[str, str]) -> Iterator[str]:
    """What is wrong with the long texts in a file of the homework; `now` are the English ones."""
    translated = read(HOMEWORK / file).get("texts", {})
    yield from (f"homework, {file}: {finding}" for finding in stale(now, translated))
    for key in now.keys() & translated.keys():
        told = differences(now[key], translated[key]["text"])
        yield from (f"homework, {file}, {key}: {finding}" for finding in told)


def long_texts() -> dict[str, dict[str, str]]:
    """The long English texts of the homework by the file of their translation."""
    from nmtcourse.homework import grading, pages

    frame = {"opening": pages.OPENING, "task": pages.TASK, "closing": pages.CLOSING}
    found = {"common.toml": frame}
    for number, each in grading.assignments().items():
        tasks = {task.id: task.text for task in each.tasks.values()}
        found[f"{number}.toml"] = {"opening": each.opening, **tasks}
    return found


def question_text(about: dict) -> str:
    """A translated question in the form of the English one in `questions`."""
    return json.dumps({k: v for k, v in about.items() if k != "english"}, ensure_ascii=False)


def differences(text: str, chinese: str) -> Iterator[str]:
    """Where a translation differs in what is no matter of language, or breaks a rule of writing."""
    for what, pattern in {"code": CODE, "formulas": FORMULA, "links": LINK}.items():
        found = [re.findall(pattern, each) for each in (chinese, text)]
        ours, theirs = (Counter(" ".join(one.split()) for one in ones) for ones in found)
        if ours != theirs:
            yield f"{what} differ: missing {list(theirs - ours)}, added {list(ours - theirs)}"
    plain, theirs = prose(chinese), prose(text)
    ours, wanted = Counter(amounts(plain)), Counter(amounts(theirs))
    if ours != wanted:
        missing, added = list(wanted - ours), list(ours - wanted)
        yield f"numbers differ: missing {missing}, added {added}"
    if len(re.findall(r"[A-Za-z]{4,}", theirs)) > 2 and not re.search(HAN, plain):
        yield "not in Chinese"
    if not text.startswith("{"):  # the JSON of a question has quotation marks of its own
        for pattern, wanted in TYPOGRAPHY.items():
            for found in re.finditer(pattern, plain):
                yield f"{plain[max(0, found.start() - 8) : found.end() + 8]!r}: {wanted}"
        yield from (f"{found!r}: bold, not italics" for found in re.findall(ITALICS, chinese))
        yield from (f"{found!r}: Markdown sees no bold text" for found in unseen(chinese))
    yield from other_terms(plain)


def amounts(text: str) -> Iterator[str]:
    """The numbers of a text: 450 万 is 4.5 million, and 1/16 as large is 16 times smaller."""
    text = re.sub(r"(?<![\d/])1/(\d+)", r"\1", text)
    text = re.sub(r"\b[Aa]\s+million\b", "1 million", text)
    for number, unit in re.findall(rf"({NUMBER})(?:\s?(万|亿|million|M\b))?", text):
        if unit:
            number = f"{Decimal(number.replace(',', '')) * UNITS[unit]:,.0f}"
        yield number


def unseen(text: str) -> Iterator[str]:
    """Bold text that Markdown takes for stars: a stop inside, and Chinese right beside it."""
    for line in text.splitlines():
        for bold in re.finditer(r"\*\*(.+?)\*\*", line):
            before, after = line[: bold.start()][-1:], line[bold.end() :][:1]
            if re.match(r"[，。！？：；）”]", bold[1][-1]) and re.match(rf"{HAN}|\w", after):
                yield bold[0]
            if re.match(r"[（“]", bold[1][0]) and re.match(rf"{HAN}|\w", before):
                yield bold[0]


def prose(text: str) -> str:
    """The text without code, formulas, addresses and marks of Markdown."""
    text = re.sub(rf"{CODE}|{FORMULA}", "X", text)
    return re.sub(r"\*\*|(?<!\w)[*_]|[*_](?!\w)", "", re.sub(LINK, "]", text))


def chinese(name: str) -> dict:
    """The notebook in Chinese: texts, questions, the words of its code, outputs of its own run."""
    from nmtcourse.teaching.predictions import hiding  # only now: it imports the package

    number, notebook = name.split("_")[0], deepcopy(english(name))
    translated, tables = translation(number), read(CHINESE / f"{number}.toml")
    comments, texts = tables.get("comments", {}), tables.get("code", {})
    stored = read_notebook(CHINESE / f"{name}.ipynb")
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = moved(translated[cell["id"]]["text"].strip("\n"), name)
        elif asked := re.match(r'predict\("(\d\db?\.[\w-]+)"\)$', source(cell)):
            cell["outputs"] = outputs(asked[1])
        else:
            if SETUP["en"] in source(cell):  # its output says when results are shown
                cell["outputs"][0]["data"] = hiding("zh")._repr_mimebundle_()
            ours = stored.get(cell["id"], {})
            if ours and same_code(source(ours), source(cell)) and same_results(ours, cell):
                cell["outputs"] = ours["outputs"]
            code = in_chinese(source(cell), texts.get(cell["id"], {}))
            cell["source"] = commented(code, comments).replace(SETUP["en"], SETUP["zh"])
    return notebook


def read_notebook(path: Path) -> dict[str, dict]:
    """The cells of a notebook by their ids; none where it is not there."""
    cells = json.loads(path.read_text("utf-8"))["cells"] if path.is_file() else []
    return {cell["id"]: cell for cell in cells}


def commented(code: str, comments: dict[str, str]) -> str:
    """Code with its comments in another language, where there are such; all else as it was."""
    lines = code.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column] + lines[row - 1][column:].replace(
                token.string, comments.get(token.string, token.string)
            )
    return "".join(lines)


class Literal(NamedTuple):
    """A string in code: where it begins and ends, and what is written between its marks."""

    start: int
    end: int
    opening: str  # such as f"
    text: str


def literals(code: str) -> Iterator[Literal]:
    """The strings of some code, the last one first; those inside an f-string belong to it.

    Strings that Python joins, because they follow each other, are one.
    """
    lines = code.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    def place(row: int, column: int) -> int:  # ast counts the bytes of a line
        return starts[row - 1] + len(lines[row - 1].encode()[:column].decode())

    found = []
    for node in outermost_strings(ast.parse(code)):
        start = place(node.lineno, node.col_offset)
        end = place(node.end_lineno, node.end_col_offset)
        parts = re.findall(STRING, code[start:end])
        prefix = max(prefix.lower() for prefix, *_ in parts)  # joined with an f-string, it is one
        text = "".join(text for *_, text in parts)
        found.append(Literal(start, end, prefix + parts[0][1], text))
    yield from sorted(found, reverse=True)


def outermost_strings(node: ast.AST) -> Iterator[ast.expr]:
    """The strings and f-strings below a node of a syntax tree, docstrings left out."""
    for child in ast.iter_child_nodes(node):
        is_text = isinstance(child, ast.Constant) and isinstance(child.value, str)
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue
        if is_text or isinstance(child, ast.JoinedStr):
            yield child
        else:
            yield from outermost_strings(child)


def in_chinese(code: str, texts: dict[str, str]) -> str:
    """Code with other texts between the quotation marks of its strings."""
    for literal in literals(code):
        if literal.text in texts:
            closing = literal.opening.lstrip("fFrRbB")
            written = f"{literal.opening}{texts[literal.text]}{closing}"
            code = code[: literal.start] + written + code[literal.end :]
    return code


def same_code(ours: str, theirs: str) -> bool:
    """Whether two pieces of code differ in their texts, comments and language alone."""
    try:
        return skeleton(ours) == skeleton(theirs)
    except SyntaxError:
        return False


def skeleton(code: str) -> str:
    """The syntax tree of some code without what its texts say."""
    return ast.dump(Blank().visit(ast.parse(code.replace(SETUP["zh"], SETUP["en"]))))


class Blank(ast.NodeTransformer):
    """Empties each text; an f-string keeps what it computes, in any order and width."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Constant("") if isinstance(node.value, str) else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        fields = [part for part in node.values if isinstance(part, ast.FormattedValue)]
        return ast.JoinedStr(sorted(map(self.visit, fields), key=ast.dump))

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        return ast.FormattedValue(self.visit(node.value), node.conversion, None)


def same_results(ours: dict, theirs: dict) -> bool:
    """Whether outputs are of the same kinds and have the same numbers; some vary by themselves."""
    kinds = [[output["output_type"] for output in cell["outputs"]] for cell in (ours, theirs)]
    varies = "nbval-ignore-output" in theirs["metadata"].get("tags", ())
    return kinds[0] == kinds[1] and (varies or numbers(ours) == numbers(theirs))


def numbers(cell: dict) -> Counter:
    """The numbers in all that a cell shows, in whatever order; a figure is as wide as its words."""
    texts = []
    for output in cell["outputs"]:
        forms = {kind: form for kind, form in output.get("data", {}).items() if "image" not in kind}
        if len(forms) == len(output.get("data", {})) or "Figure" in str(forms):  # no diagram
            texts += [json.dumps([output.get("text", ""), forms], ensure_ascii=False)]
    shown = re.sub(r"Figure [\d.]+ x [\d.]+ in", "", "\n".join(texts).replace("\\n", "\n"))
    return Counter(re.findall(NUMBER, shown))


def moved(text: str, name: str) -> str:
    """Links as they are seen from a notebook in notebooks/zh, and commands for a Chinese page.

    A heading is named by its cell: JupyterLab does not find one by a name in Chinese.
    """

    def seen(match: re.Match) -> str:
        page, sharp, heading = match[1].partition("#")
        if re.match(r"https?:|mailto:", page):
            return match[0]
        stem = Path(page).stem or name
        if stem not in names():
            page = page if ENGLISH[name].parent.name == "deeper" else f"../{page}"
            ours = page.replace("/docs/", "/docs/zh/")
            return f"]({ours if (CHINESE / ours).is_file() else page}{sharp}{heading})"
        return f"]({stem}.ipynb{sharp}{sharp and 'cell-id=' + cell_of(stem, heading)})"

    text = re.sub(r"`(nmtlib homework start \d\d)`", r"`\1 --lang zh`", text)
    return re.sub(LINK, seen, text)


def cell_of(name: str, heading: str) -> str:
    """The id of the cell of a notebook that begins with a heading, given as in JupyterLab."""
    for cell in english(name)["cells"]:
        found = [each.replace(" ", "-") for each in headings(source(cell))]
        if cell["cell_type"] == "markdown" and found[:1] == [unquote(heading)]:
            return cell["id"]
    raise ValueError(f"{name} has no cell whose first heading is #{heading}")


def outputs(key: str) -> list[dict]:
    """What a notebook stores where the question `key` is asked in Chinese."""
    from nmtcourse.teaching.predictions import displayed  # only now: it imports the package

    return [
        {"data": shown._repr_mimebundle_(), "metadata": {}, "output_type": "display_data"}
        for shown in displayed(key, language="zh")
    ]


def written(notebook: dict) -> str:
    """A notebook as nbformat writes it."""
    import nbformat

    return nbformat.writes(nbformat.from_dict(notebook), version=4) + "\n"


def missing_words(name: str) -> list[str]:
    """The texts in the code of a notebook that have no translation, with their cells."""
    texts = read(CHINESE / f"{name.split('_')[0]}.toml").get("code", {})
    missing = []
    for cell in english(name)["cells"]:
        known = texts.get(cell["id"], {})
        for literal in reversed([*literals(source(cell))] if cell["cell_type"] == "code" else []):
            plain = re.sub(r"{[^{}]*}", "", literal.text)
            if literal.text not in known and re.search("[A-Za-z]{3}", plain):
                missing.append(f"{cell['id']}: {literal.text}")
    return missing


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--todo", metavar="NN")
    parser.add_argument("--words", metavar="NN")
    options = parser.parse_args()
    if number := options.todo or options.words:
        (name,) = [name for name in ENGLISH if name.startswith(f"{number}_")]
        found = findings(name) if options.todo else missing_words(name)
        print("\n\n".join(found) or "all is translated")
        return 0
    told = [finding for name in names() for finding in findings(name)]
    told += [found for item in long_texts().items() for found in homework_findings(*item)]
    print("\n".join(told), end="\n" if told else "")
    made = {} if told else {CHINESE / f"{name}.ipynb": written(chinese(name)) for name in names()}
    for path, text in (made | homework() if made else made).items():
        if not path.is_file() or path.read_text("utf-8") != text:
            told.append(path.name)
            print(f"{path.relative_to(NOTEBOOKS)} {'would change' if options.check else 'made'}")
            if not options.check:
                path.parent.mkdir(exist_ok=True)
                path.write_text(text, "utf-8", newline="\n")
    return 1 if told and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
