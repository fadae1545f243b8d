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
WORDS = ROOT / "nmtcourse" / "teaching" / "words" / "zh.toml"
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
}
SOME = r"(?: ?[A-Z\d,.]+ ?| ?\{[^{}]*\} ?|[二两三四五六七八九十百几]+)"  # how many times: 大了 8 倍
WORDING = {
    r"[\d一两几] ?百万|百万个": "万 and 亿, or the number itself",
    rf"(?:缩小|减少|降低)了?{SOME}倍": "缩小到原来的 1/16",
    # 大了 8 倍 is 9 times as large, which is hardly ever meant; 放大 8 倍 is 8 times as large
    rf"(?<!放)(?:大|多|快|高|长|慢|宽|增加|提高)了?{SOME}倍": "是原来的 8 倍",
    r"[\d}] %": "no space before %",
}
BESIDE_MARKS = rf"[，。：；！？、]\s|{HAN}[,;:!?](?:\s|$)|{HAN} “|” {HAN}"  # in code: spaces align
SHAPE = r"\([^)]*\)|`[^`]*`"  # what in a comment is no matter of language
ITALICS = rf"(?<!\*)\*{HAN}[^*\n]*\*(?!\*)"


def digest(text: str) -> str:
    """What tells whether an English text is still the one that was translated."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


ENGLISH_PATHS = [*NOTEBOOKS.glob("*.ipynb"), *NOTEBOOKS.glob("deeper/*.ipynb")]
ENGLISH = {path.stem: path for path in ENGLISH_PATHS}


def number_of(name: str) -> str:
    """The number that begins the name of a notebook: "06" of "06_masking"."""
    return name.split("_")[0]


def names() -> list[str]:
    """The notebooks that have a translation, such as "06_masking", with the deeper ones."""
    return [name for name in sorted(ENGLISH) if (CHINESE / f"{number_of(name)}.toml").is_file()]


def read(path: Path) -> dict:
    """The tables of a TOML file; none where it is not there."""
    if not path.is_file():
        return {}
    return tomllib.loads(path.read_text("utf-8"))


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
    tables = read(ASKED / f"{number}.toml")
    return {key: json.dumps(question, ensure_ascii=False) for key, question in tables.items()}


def stale(now: dict[str, str], translated: dict[str, dict]) -> Iterator[str]:
    """The English texts whose translation is missing, or is one of another text."""
    for key, text in now.items():
        if key not in translated:
            yield f"{key} has no translation:\n{text}"
            continue
        entry = translated[key]
        if entry["english"] != digest(text):
            yield f"{key} is stale; the English text, {digest(text)}, is now:\n{text}\n\n{entry}"
    for key in translated.keys() - now.keys():
        yield f"{key} translates nothing"


def findings(name: str) -> Iterator[str]:
    """What is wrong with the translation of a notebook and of its questions."""
    number = number_of(name)
    cells = [cell for cell in english(name)["cells"] if cell["cell_type"] == "markdown"]
    pairs = [  # English texts now, and what was translated, both by their keys
        ({cell["id"]: source(cell) for cell in cells}, translation(number)),
        (questions(number), read(ASKED / "zh" / f"{number}.toml")),
    ]
    for now, translated in pairs:
        for finding in stale(now, translated):
            yield f"{name}: {finding}"
        for key in now.keys() & translated.keys():
            entry = translated[key]
            text = entry["text"] if "text" in entry else question_text(entry)
            for finding in differences(now[key], text):
                yield f"{name}, {key}: {finding}"
    for finding in [*code_findings(name), *comment_findings(name)]:
        yield f"{name}, {finding}"


def code_findings(name: str) -> Iterator[str]:
    """What is wrong with the Chinese texts in the code of a notebook."""
    cells = {cell["id"]: cell for cell in english(name)["cells"] if cell["cell_type"] == "code"}
    for key, texts in read(CHINESE / f"{number_of(name)}.toml").get("code", {}).items():
        code = source(cells[key]) if key in cells else ""
        strings = {literal.text for literal in literals(code)}
        for text in texts.keys() - strings:
            yield f"{key}: the code has no text {text!r}"
        if not same_code(in_chinese(code, texts), code):
            yield f"{key}: its texts change the code, such as what is computed inside braces"
        for text in texts.values():
            marks = re.search(BESIDE_MARKS, text)
            if marks:
                yield f"{key}: {text!r}: full-width punctuation, without a space: {marks[0]!r}"
            for finding in wording(text):
                yield f"{key}: {text!r}: {finding}"


def comment_findings(name: str) -> Iterator[str]:
    """The comments of a notebook's code without Chinese, and the Chinese ones without a comment.

    A comment that stays as it is, such as a German word, has an entry that says so.
    """
    translated = read(CHINESE / f"{number_of(name)}.toml").get("comments", {})
    codes = [source(cell) for cell in english(name)["cells"] if cell["cell_type"] == "code"]
    written = {token.string for code in codes for token in comments_of(code)}
    for comment in sorted(written - translated.keys()):
        if re.search("[A-Za-z]{2}", re.sub(SHAPE, "", comment)):
            yield f"[comments] has no {comment!r}; give it itself where it stays as it is"
    for comment in translated.keys() - written:
        yield f"[comments]: no code has {comment!r}"
    for text in translated.values():
        for finding in wording(text):
            yield f"[comments]: {text!r}: {finding}"


def comments_of(code: str) -> list[tokenize.TokenInfo]:
    """The comments of some code."""
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    return [token for token in tokens if token.type == tokenize.COMMENT]


def wording(text: str) -> Iterator[str]:
    """Where a Chinese text breaks a rule that holds wherever it is shown."""
    for pattern, rule in WORDING.items():
        for match in re.finditer(pattern, text):
            yield f"{text[max(0, match.start() - 8) : match.end() + 8]!r}: {rule}"
    yield from other_terms(text)


def other_terms(text: str) -> Iterator[str]:
    """The terms of a text that are not those of the glossary."""
    for word, term in avoided().items():
        if word in text:
            yield f"{word!r}: the glossary has {term['zh']!r} for {term['en']!r}"


@cache
def avoided() -> dict[str, dict]:
    """What the glossary says a term is not called, with the term."""
    terms = read(GLOSSARY).get("term", ())
    return {word: term for term in terms for word in term.get("not", ())}


def homework() -> dict[Path, str]:
    """The pages of the homework in Chinese."""
    from nmtcourse.homework import catalogue, pages  # only now: it imports torch

    return {
        CHINESE / "homework" / f"{assignment.stem}.ipynb": pages.notebook(assignment, language="zh")
        for assignment in catalogue.assignments().values()
    }


def homework_findings(file: str, now: dict[str, str]) -> Iterator[str]:
    """What is wrong with the long texts in a file of the homework; `now` are the English ones."""
    translated = read(HOMEWORK / file).get("texts", {})
    for finding in stale(now, translated):
        yield f"homework, {file}: {finding}"
    for key in now.keys() & translated.keys():
        for finding in differences(now[key], translated[key]["text"]):
            yield f"homework, {file}, {key}: {finding}"
    for finding in phrase_findings(read(HOMEWORK / file).get("phrases", {})):
        yield f"homework, {file}: {finding}"


def phrase_findings(phrases: dict[str, str]) -> Iterator[str]:
    """What is wrong with the wording of short texts, by their English."""
    for text, translated in phrases.items():
        for finding in wording(prose(translated)):
            yield f"{text!r}: {finding}"


def long_texts() -> dict[str, dict[str, str]]:
    """The long English texts of the homework by the file of their translation."""
    from nmtcourse.homework import catalogue, pages

    frame = {"opening": pages.OPENING, "task": pages.TASK, "closing": pages.CLOSING}
    texts = {"common.toml": frame}
    for number, assignment in catalogue.assignments().items():
        tasks = {task.id: task.text for task in assignment.tasks.values()}
        texts[f"{number}.toml"] = {"opening": assignment.opening, **tasks}
    return texts


def question_text(entry: dict) -> str:
    """A translated question in the form of the English one in `questions`."""
    question = {key: value for key, value in entry.items() if key != "english"}
    return json.dumps(question, ensure_ascii=False)


def differences(text: str, chinese: str) -> Iterator[str]:
    """Where a translation differs in what is no matter of language, or breaks a rule of writing."""
    for what, pattern in {"code": CODE, "formulas": FORMULA, "links": LINK}.items():
        ours = count_matches(pattern, chinese)
        theirs = count_matches(pattern, text)
        if ours != theirs:
            yield f"{what} differ: missing {list(theirs - ours)}, added {list(ours - theirs)}"
    plain, plain_english = prose(chinese), prose(text)
    ours, theirs = Counter(amounts(plain)), Counter(amounts(plain_english))
    if ours != theirs:
        missing, added = list(theirs - ours), list(ours - theirs)
        yield f"numbers differ: missing {missing}, added {added}"
    # More than two words of English, and not one character of Chinese.
    if len(re.findall(r"[A-Za-z]{4,}", plain_english)) > 2 and not re.search(HAN, plain):
        yield "not in Chinese"
    if not text.startswith("{"):  # the JSON of a question has quotation marks of its own
        for pattern, rule in TYPOGRAPHY.items():
            for match in re.finditer(pattern, plain):
                yield f"{plain[max(0, match.start() - 8) : match.end() + 8]!r}: {rule}"
        for words in re.findall(ITALICS, chinese):
            yield f"{words!r}: bold, not italics"
        for words in unseen(chinese):
            yield f"{words!r}: Markdown sees no bold text"
    yield from wording(plain)


def count_matches(pattern: str, text: str) -> Counter:
    """How often a text has each match of a pattern, whatever its line breaks are."""
    return Counter(" ".join(match.split()) for match in re.findall(pattern, text))


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

    number = number_of(name)
    notebook = deepcopy(english(name))
    translated = translation(number)
    tables = read(CHINESE / f"{number}.toml")
    comments, texts = tables.get("comments", {}), tables.get("code", {})
    stored = read_notebook(CHINESE / f"{name}.ipynb")
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = moved(translated[cell["id"]]["text"].strip("\n"), name)
            continue
        question = re.match(r'predict\("(\d\db?\.[\w-]+)"\)$', source(cell))
        if question:
            cell["outputs"] = outputs(question[1])
            continue
        if SETUP["en"] in source(cell):  # its output says when results are shown
            cell["outputs"][0]["data"] = hiding("zh")._repr_mimebundle_()
        # Outputs of a Chinese run are kept as long as they show what the English cell shows.
        ours = stored.get(cell["id"], {})
        if ours and same_code(source(ours), source(cell)) and same_results(ours, cell):
            cell["outputs"] = ours["outputs"]
        code = in_chinese(source(cell), texts.get(cell["id"], {}))
        cell["source"] = commented(code, comments).replace(SETUP["en"], SETUP["zh"])
    return notebook


def read_notebook(path: Path) -> dict[str, dict]:
    """The cells of a notebook by their ids; none where it is not there."""
    if not path.is_file():
        return {}
    return {cell["id"]: cell for cell in json.loads(path.read_text("utf-8"))["cells"]}


def commented(code: str, comments: dict[str, str]) -> str:
    """Code with its comments in another language, where there are such; all else as it was."""
    lines = code.splitlines(keepends=True)
    for token in comments_of(code):
        row, column = token.start
        line = lines[row - 1]
        translated = comments.get(token.string, token.string)
        lines[row - 1] = line[:column] + line[column:].replace(token.string, translated)
    return "".join(lines)


class Literal(NamedTuple):
    """A string in code: where it begins and ends, and what is written between its marks."""

    start: int
    end: int
    opening: str  # such as f"
    text: str


# Of the code print(f"{n} words", 'x') the strings are, the last one first,
#
#     Literal(start=20, end=23, opening="'", text="x")
#     Literal(start=6, end=18, opening='f"', text="{n} words")
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

    strings = []
    for node in outermost_strings(ast.parse(code)):
        start = place(node.lineno, node.col_offset)
        end = place(node.end_lineno, node.end_col_offset)
        parts = re.findall(STRING, code[start:end])
        prefix = max(prefix.lower() for prefix, *_ in parts)  # joined with an f-string, it is one
        text = "".join(text for *_, text in parts)
        strings.append(Literal(start, end, prefix + parts[0][1], text))
    # From the end, so that what replaces one does not move those that are still to come.
    yield from sorted(strings, reverse=True)


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
            string = f"{literal.opening}{texts[literal.text]}{closing}"
            code = code[: literal.start] + string + code[literal.end :]
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
        if isinstance(node.value, str):
            return ast.Constant("")
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        fields = [part for part in node.values if isinstance(part, ast.FormattedValue)]
        return ast.JoinedStr(sorted(map(self.visit, fields), key=ast.dump))

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        return ast.FormattedValue(self.visit(node.value), node.conversion, None)


def same_results(ours: dict, theirs: dict) -> bool:
    """Whether outputs are of the same kinds and have the same numbers; some vary by themselves."""
    our_kinds = [output["output_type"] for output in ours["outputs"]]
    their_kinds = [output["output_type"] for output in theirs["outputs"]]
    if our_kinds != their_kinds:
        return False
    varies = "nbval-ignore-output" in theirs["metadata"].get("tags", ())
    return varies or numbers(ours) == numbers(theirs)


def numbers(cell: dict) -> Counter:
    """The numbers in all that a cell shows, in whatever order; a figure is as wide as its words."""
    texts = []
    for output in cell["outputs"]:
        forms = {kind: form for kind, form in output.get("data", {}).items() if "image" not in kind}
        if len(forms) == len(output.get("data", {})) or "Figure" in str(forms):  # no diagram
            texts += [json.dumps([output.get("text", ""), forms], ensure_ascii=False)]
    text = "\n".join(texts).replace("\\n", "\n")
    text = re.sub(r"Figure [\d.]+ x [\d.]+ in", "", text)
    return Counter(re.findall(NUMBER, text))


def moved(text: str, name: str) -> str:
    """Links as they are seen from a notebook in notebooks/zh, and commands for a Chinese page.

    A heading is named by its cell: JupyterLab does not find one by a name in Chinese.
    """

    def move_link(match: re.Match) -> str:
        page, sharp, heading = match[1].partition("#")
        if re.match(r"https?:|mailto:", page):
            return match[0]
        stem = Path(page).stem or name
        if stem in names():  # a Chinese notebook beside this one
            anchor = ""
            if sharp:
                anchor = f"#cell-id={cell_of(stem, heading)}"
            return f"]({stem}.ipynb{anchor})"
        if ENGLISH[name].parent.name != "deeper":  # notebooks/zh is one folder deeper
            page = f"../{page}"
        chinese_page = page.replace("/docs/", "/docs/zh/")
        if (CHINESE / chinese_page).is_file():
            page = chinese_page
        return f"]({page}{sharp}{heading})"

    text = re.sub(r"`(nmtlib homework start \d\d)`", r"`\1 --lang zh`", text)
    return re.sub(LINK, move_link, text)


def cell_of(name: str, heading: str) -> str:
    """The id of the cell of a notebook that begins with a heading, given as in JupyterLab."""
    for cell in english(name)["cells"]:
        anchors = [text.replace(" ", "-") for text in headings(source(cell))]
        if cell["cell_type"] == "markdown" and anchors[:1] == [unquote(heading)]:
            return cell["id"]
    raise ValueError(f"{name} has no cell whose first heading is #{heading}")


def outputs(key: str) -> list[dict]:
    """What a notebook stores where the question `key` is asked in Chinese."""
    from nmtcourse.teaching.predictions import displayed  # only now: it imports the package

    return [
        {"data": part._repr_mimebundle_(), "metadata": {}, "output_type": "display_data"}
        for part in displayed(key, language="zh")
    ]


def written(notebook: dict) -> str:
    """A notebook as nbformat writes it."""
    import nbformat

    return nbformat.writes(nbformat.from_dict(notebook), version=4) + "\n"


def missing_words(name: str) -> list[str]:
    """The texts in the code of a notebook that have no translation, with their cells."""
    texts = read(CHINESE / f"{number_of(name)}.toml").get("code", {})
    missing = []
    for cell in english(name)["cells"]:
        if cell["cell_type"] != "code":
            continue
        translated = texts.get(cell["id"], {})
        for literal in reversed([*literals(source(cell))]):  # in the order of the code
            plain = re.sub(r"{[^{}]*}", "", literal.text)
            if literal.text not in translated and re.search("[A-Za-z]{3}", plain):
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
    number = options.todo or options.words
    if number:
        (name,) = [name for name in ENGLISH if name.startswith(f"{number}_")]
        missing = findings(name) if options.todo else missing_words(name)
        print("\n\n".join(missing) or "all is translated")
        return 0
    problems = [finding for name in names() for finding in findings(name)]
    for file, texts in long_texts().items():
        problems += homework_findings(file, texts)
    problems += [f"words/zh.toml, {finding}" for finding in phrase_findings(read(WORDS))]
    if problems:
        print("\n".join(problems))
    pages: dict[Path, str] = {}
    if not problems:  # a notebook can be made only where nothing is stale
        pages = {CHINESE / f"{name}.ipynb": written(chinese(name)) for name in names()}
        pages |= homework()
    stale_files = write_changed(pages, options.check)
    return 1 if options.check and (problems or stale_files) else 0


def write_changed(pages: dict[Path, str], check: bool) -> list[str]:
    """The names of the pages that are not as they should be; written again, unless `check`."""
    changed = []
    for path, text in pages.items():
        if path.is_file() and path.read_text("utf-8") == text:
            continue
        changed.append(path.name)
        if check:
            print(f"{path.relative_to(NOTEBOOKS)} would change")
        else:
            print(f"{path.relative_to(NOTEBOOKS)} made")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8", newline="\n")
    return changed


if __name__ == "__main__":
    sys.exit(main())
