"""What the pages tell the reader to type and to open exists: commands, make targets, links."""

import ast
import re
import shlex
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest
import shown
from nbformat import v4, write

from nmtlib.cli import build_parser
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
    *sorted(ROOT.glob("docs/*.md")),
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_says_can_be_done(page):
    text = page.read_text("utf-8")
    assert all_problems(nmtlib_commands(text)) == {}
    assert set(make_targets(text)) <= makefile_targets(MAKEFILE.read_text("utf-8"))
    problems = {link: link_problem(link, page) for link in links(text)}
    assert {link: problem for link, problem in problems.items() if problem} == {}


def test_the_readme_fits_on_three_screens_and_shows_the_essentials():
    text = README.read_text("utf-8")
    assert len(text.splitlines()) <= 230
    assert {"train", "test"} <= set(make_targets(text))
    assert nmtlib_commands(text), "the README shows how to train without make"
    linked = {link.partition("#")[0] for link in links(text)}
    pages = {path.relative_to(ROOT).as_posix() for path in PAGES if path != README}
    assert pages <= linked, "every page is linked from the README"


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


# The reading itself

SAMPLE = """
# Two commands

Type `nmtlib train PRESET` or `make lab`; [the paper](https://arxiv.org/abs/1706.03762),
![curves](figures/a%20b.png).

```bash
pip install -e .            # once
NMTLIB_DATA=~/data OMP_NUM_THREADS=2 nmtlib train toy-de-en --set training.epochs=2 \\
    --set "model.norm=post"   # two minutes
$ nmtlib evaluate runs/toy-de-en --beam 1 > result.json
echo "der hund ; läuft" | nmtlib translate runs/toy-de-en && make test bench JOBS=2
torchrun --nproc-per-node=2 -m nmtlib train multi30k-de-en
nmtlib translate runs/toy-de-en "ein # im Satz" 'it''s'
# nmtlib imagined
```

~~~
.venv/bin/python -m nmtlib summary
.venv/bin/nmtlib data list
~~~

```text
BLEU 41.2: it's no command
[no](link.md)
```

See `[no](code.md)`, [this heading](#two-commands), [the model](nmtlib/model/ "all of it"),
and [more][more].
<img src="figures/plot.png" width="50%"> <a href='LICENSE'>licence</a>

[more]: notebooks/00_start.ipynb
"""


def test_commands_are_found_with_their_words():
    assert nmtlib_commands(SAMPLE) == [
        ["train", "toy-de-en", "--set", "training.epochs=2", "--set", "model.norm=post"],
        ["evaluate", "runs/toy-de-en", "--beam", "1"],
        ["translate", "runs/toy-de-en"],
        ["train", "multi30k-de-en"],
        ["translate", "runs/toy-de-en", "ein # im Satz", "its"],
        ["summary"],
        ["data", "list"],
    ]
    assert (
        nmtlib_commands("nmtlib outside any block\n")
        == nmtlib_commands("```\n# nmtlib x\n```\n")
        == []
    )


def test_make_targets_are_found():
    assert sorted(make_targets(SAMPLE)) == ["bench", "lab", "test"]
    makefile = (
        "PYTHON := python\nARGS ?= x\n.PHONY: lab\n"
        "test lab: build\n\techo a:b\nbench-all:\n\techo x\n"
    )
    assert makefile_targets(makefile) == {"test", "lab", "bench-all"}


def test_links_are_found_outside_code():
    assert links(SAMPLE) == [
        "https://arxiv.org/abs/1706.03762",
        "figures/a%20b.png",
        "#two-commands",
        "nmtlib/model/",
        "notebooks/00_start.ipynb",
        "figures/plot.png",
        "LICENSE",
    ]


def test_headings_have_the_names_of_github():
    text = "# Two commands\n## `nmtlib`: what's in it?\n## Results\n### Results\n```\n# no\n```\n"
    assert anchors(text) == {"two-commands", "nmtlib-whats-in-it", "results", "results-1"}


@pytest.mark.parametrize(
    "command",
    [
        "train toy-de-en --set epochs=2 --out runs/x --minutes 5 --evaluate",
        "train own.toml --set training.epochs=2",
        "train --resume --out runs/x",
        "data fetch multi30k-en-de",
        "data list",
        "summary",
        "summary runs/toy-de-en",
        "summary toy-en-zh",
        "evaluate runs/x --split challenge",
        "translate runs/x der hund",
        "train --help",
    ],
)
def test_a_good_command_has_no_problem(command):
    assert command_problem(command.split()) == ""


@pytest.mark.parametrize(
    "command",
    [
        "trian toy-de-en",
        "train toy-de-em",
        "train",
        "train toy-de-en --epochs 2",
        "train toy-de-en --set epoch=2",
        "train toy-de-en --set max_tokens=512",
        "train own.toml --set epochs=0",
        "data fetch multi30k",
        "data check",
        "data remove toy-de-en",
        "summary toy-de-em",
        "evaluate runs/x --split valid",
        "evaluate",
        "",
    ],
)
def test_a_bad_command_has_a_problem(command, capsys):
    assert command_problem(command.split())


def test_links_are_followed(tmp_path):
    document = tmp_path / "docs" / "readme.md"
    (tmp_path / "docs" / "more").mkdir(parents=True)
    document.write_text("# One\n", "utf-8")
    (tmp_path / "docs" / "more" / "two three.md").write_text("## Second part\n", "utf-8")
    notebook = v4.new_notebook(cells=[v4.new_markdown_cell("## 1 · Why?")])
    write(notebook, tmp_path / "docs" / "four.ipynb")
    good = [
        "more/",
        "more/two%20three.md",
        "#one",
        "more/two%20three.md#second-part",
        "four.ipynb#1-%C2%B7-Why%3F",
        "https://x.org/#y",
        "mailto:a@b.c",
    ]
    assert [link_problem(link, document) for link in good] == [""] * len(good)
    bad = [
        "more/two.md",
        "#two",
        "more/two%20three.md#first",
        "four.ipynb#1-%C2%B7-How%3F",
        str(document),
        "../../etc",
        "http.md",
        "../../actions/workflows/none.yml/badge.svg",
    ]
    assert all(link_problem(link, document) for link in bad)


# What the tests promise


def unheld(file: str, name: str) -> str:
    """Why a promise that names this test is not held at every commit; "" where it is."""
    if not (ROOT / file).is_file():
        return f"no file {file}"
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    found = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name]
    if not found:
        return f"no test {name} in {file}"
    waits = any(ast.unparse(mark).endswith("nightly") for mark in found[0].decorator_list)
    return f"{name} waits for the night" if waits else ""


def test_each_promise_names_a_test_that_runs_at_every_commit():
    text = (ROOT / "docs" / "reliability.md").read_text("utf-8")
    promises = re.findall(r"^\| .+ \| `(tests/\S+\.py)::(\w+)` \|$", text, re.MULTILINE)
    assert len(promises) >= 15
    assert [problem for promise in promises if (problem := unheld(*promise))] == []


def test_a_promise_without_its_test_is_noticed():
    assert unheld("tests/none.py", "test_a") == "no file tests/none.py"
    assert unheld("tests/test_docs.py", "test_a") == "no test test_a in tests/test_docs.py"
    night = unheld(
        "tests/recipes/test_compile.py", "test_with_torchs_compiler_the_losses_are_the_same"
    )
    assert night.endswith("waits for the night")
