"""What the pages tell the reader to type and to open exists: commands, make targets, links."""

import re
import shlex
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import shown

from nmtcourse.main import build_parser
from nmtlib.data.corpora import names
from nmtlib.data.corpus import SPLITS
from nmtlib.presets import load_settings, presets
from nmtlib.settings import Settings

ROOT = Path(__file__).resolve().parents[1]
README, MAKEFILE = ROOT / "README.md", ROOT / "Makefile"
PAGES = [
    README,
    ROOT / "README.zh.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted([*ROOT.glob("docs/*.md"), *ROOT.glob("docs/zh/*.md")]),
]
OPERATORS = {"|", "||", "&", "&&", ";", ">", ">>", "<", "2>", "&>", "(", ")"}
FENCE = re.compile(
    r"^ {0,3}(`{3,}|~{3,})[^\n]*\n(.*?)(?:^ {0,3}\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL
)


# Reading a document


def fenced_lines(text: str) -> list[str]:
    """The lines of all fenced code blocks; a backslash at the end joins a line with the next."""
    blocks = [block.replace("\\\n", " ") for _, block in FENCE.findall(text)]
    return [line.strip() for block in blocks for line in block.splitlines() if line.strip()]


def commands(text: str) -> list[list[str]]:
    """The commands in fenced code blocks as words, without prompt, comments and assignments.

    A line with several commands (joined by a pipe, &&, ...) counts as several; what a redirection
    names is no word.
    """
    found = []
    for line in fenced_lines(text):
        lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split, lexer.commenters = True, ""
        try:
            words = list(lexer)
        except ValueError:
            continue  # a quote that does not close: prose or output, no command
        comment = next((i for i, word in enumerate(words) if word.startswith("#")), len(words))
        command: list[str] = []
        skip = False
        for word in [*words[:comment], ";"]:
            if skip:
                skip = False
            elif word and set(word) <= set("<>&") and set(word) & set("<>"):
                skip = True
            elif word in OPERATORS:
                while command and re.fullmatch(r"[A-Za-z_]\w*=.*", command[0], re.DOTALL):
                    command.pop(0)
                if command:
                    found.append(command)
                command = []
            else:
                command.append(word)
    return found


def nmtlib_commands(text: str) -> list[list[str]]:
    """Arguments of every `nmtlib ...` and `... -m nmtlib ...` in fenced code blocks."""
    found = []
    for command in commands(text):
        if command[0].rpartition("/")[2] == "nmtlib":
            found.append(command[1:])
        elif "nmtlib" in command and command[command.index("nmtlib") - 1] == "-m":
            found.append(command[command.index("nmtlib") + 1 :])
    return found


def make_targets(text: str) -> list[str]:
    """Every target X of a `make X`, in fenced code blocks and between single backticks."""
    inline = [
        shlex.split(span)
        for span in re.findall(r"(?<!`)`(make [^`\n]+)`(?!`)", FENCE.sub("", text))
    ]
    found = [command[1:] for command in [*commands(text), *inline] if command[0] == "make"]
    return [
        word for words in found for word in words if "=" not in word and not word.startswith("-")
    ]


def makefile_targets(text: str) -> set[str]:
    """The targets that a Makefile has rules for."""
    rules = re.findall(r"^([A-Za-z0-9][\w./ -]*?)\s*::?(?!=)", text, re.MULTILINE)
    return {target for rule in rules for target in rule.split()}


def links(text: str) -> list[str]:
    """Targets of all links and images outside code, in Markdown and in HTML."""
    text = re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", FENCE.sub("", text))
    inline = re.findall(r"\]\(\s*<?([^)\s>]+)>?(?:\s+[\"'][^)]*)?\)", text)
    references = re.findall(r"^ {0,3}\[[^\]]+\]:\s*<?([^\s>]+)", text, re.MULTILINE)
    html = re.findall(r"<(?:img|a|source)\b[^>]*?\b(?:src|href|srcset)=[\"']([^\"'\s]+)", text)
    return inline + references + html


def anchors(text: str) -> set[str]:
    """The names under which GitHub lets one jump to the headings of a Markdown text."""
    found: set[str] = set()
    for heading in re.findall(
        r"^ {0,3}#{1,6}[ \t]+(.+?)[ \t]*#*[ \t]*$", FENCE.sub("", text), re.MULTILINE
    ):
        heading = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")
        number = sum(1 for name in found if re.fullmatch(rf"{re.escape(slug)}(-\d+)?", name))
        found.add(f"{slug}-{number}" if slug in found else slug)
    return found | set(re.findall(r"<a\s+(?:name|id)=[\"']([^\"']+)", text))


notebook_anchors = cache(shown.anchors)


# Finding what is wrong


def command_problem(arguments: list[str]) -> str:
    """Why the program would refuse these arguments, or nothing."""
    try:
        options = build_parser().parse_args(arguments)
    except SystemExit as left:
        return "" if left.code == 0 else "the command line does not accept it"
    try:
        if options.command == "train":
            own = options.preset is None or options.preset.endswith(".toml")
            settings = Settings() if own else load_settings(options.preset)
            settings.with_assignments(options.assignments)
            if options.preset is None and not options.resume:
                return "it names no preset"
    except ValueError as error:
        return str(error)
    parts = [name.split("-") for name in names()]
    corpora = [*names(), *(f"{stem}-{target}-{source}" for stem, source, target in parts)]
    files = options.command == "data" and options.action == "check" and "." in (options.name or "")
    if options.command == "data" and options.action != "list" and options.name not in corpora:
        if files:
            return ""
        return f"unknown corpus {options.name!r}"
    if options.command == "evaluate" and options.split not in SPLITS:
        return f"unknown split {options.split!r}"
    if options.command == "summary" and options.what:
        own = options.what.endswith(".toml") or Path(options.what).parts[0] == "runs"
        return "" if own or options.what in presets() else f"unknown preset {options.what!r}"
    return ""


def link_problem(link: str, document: Path) -> str:
    """Why a link leads to no file or heading of this repository, or nothing."""
    if re.match(r"[a-z][a-z0-9+.-]*:|//", link, re.IGNORECASE):
        return ""  # another site, or mailto:
    path, _, anchor = unquote(link).partition("#")
    if workflow := re.match(r"../../actions/workflows/([\w.]+)(/badge.svg)?$", path):
        there = (ROOT / ".github" / "workflows" / workflow[1]).is_file()
        return "" if there else "there is no such workflow"  # GitHub finds it from README's page
    if path.startswith("/"):
        return "it starts at the root of the disk"
    target = document.parent / path if path else document
    if not target.exists():
        return "there is no such file"
    if not target.resolve().is_relative_to(
        ROOT if document.is_relative_to(ROOT) else document.parent
    ):
        return "it leaves the repository"
    if anchor and target.suffix == ".md" and anchor not in anchors(target.read_text("utf-8")):
        return "there is no such heading"
    if anchor and target.suffix == ".ipynb" and anchor not in notebook_anchors(target):
        return "there is no such heading"
    return ""


# The pages and the Makefile


def all_problems(given: list[list[str]]) -> dict[str, str]:
    """Command -> what is wrong with it, of those with which something is."""
    found = {shlex.join(["nmtlib", *words]): command_problem(words) for words in given}
    return {command: problem for command, problem in found.items() if problem}


def test_what_a_page_says_can_be_done():
    for page in PAGES:
        text = page.read_text("utf-8")
        assert all_problems(nmtlib_commands(text)) == {}
        assert set(make_targets(text)) <= makefile_targets(MAKEFILE.read_text("utf-8"))
        problems = {link: link_problem(link, page) for link in links(text)}
        assert {link: problem for link, problem in problems.items() if problem} == {}


def test_the_python_in_the_readme_runs(capsys):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(block, {})
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 2 and "dog" in said[0] and "woman" in said[1]


def test_every_command_in_the_makefile_is_accepted():
    recipes = re.findall(r"^\t[@-]*(.*(?:\\\n.*)*)", MAKEFILE.read_text("utf-8"), re.MULTILINE)
    assert recipes
    given = nmtlib_commands("```\n" + "\n".join(recipes) + "\n```\n")
    assert all_problems([words for words in given if not any("$" in word for word in words)]) == {}


# What the tests promise


def test_each_promise_names_a_test_that_is_there():
    text = (ROOT / "docs" / "reliability.md").read_text("utf-8")
    promises = re.findall(r"^\| .+ \| `(tests/\S+\.py)::(\w+)` \|$", text, re.MULTILINE)
    assert len(promises) >= 15
    text_of = {file: (ROOT / file).read_text("utf-8") for file, _ in promises}
    assert [name for file, name in promises if f"def {name}(" not in text_of[file]] == []
