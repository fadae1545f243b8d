"""What a reader is told holds: links, commands, tables, versions, the order of the packages."""

import ast
import json
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from functools import cache
from graphlib import TopologicalSorter
from importlib.metadata import version
from pathlib import Path
from urllib.parse import unquote

import edition
import pytest
import shown
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

import nmtlib
from nmtcourse.corpora import names
from nmtcourse.explorer.page import explore
from nmtcourse.main import build_parser
from nmtlib.data.corpus import SPLITS
from nmtlib.presets import load_settings, presets
from nmtlib.settings import Settings

ROOT = Path(__file__).resolve().parents[1]
README, CHINESE = ROOT / "README.md", ROOT / "README.zh.md"
MAKEFILE = ROOT / "Makefile"
PAGES = [
    README,
    CHINESE,
    ROOT / "CONTRIBUTING.md",
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


@pytest.mark.slow
def test_what_a_page_says_can_be_done():
    for page in PAGES:
        text = page.read_text("utf-8")
        assert all_problems(nmtlib_commands(text)) == {}
        assert set(make_targets(text)) <= makefile_targets(MAKEFILE.read_text("utf-8"))
        problems = {link: link_problem(link, page) for link in links(text)}
        assert {link: problem for link, problem in problems.items() if problem} == {}


def test_settings_that_a_page_shows_can_be_read():
    texts = "".join(page.read_text("utf-8") for page in PAGES)
    blocks = re.findall(r"(?ms)^```toml\n(.*?)^```", texts)
    # The site, too, refuses what is not TOML.
    assert blocks and all(tomllib.loads(block) for block in blocks)


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


# README in two languages

sys.path.append(str(ROOT / "benchmarks"))
import readme  # noqa: E402

MADE = re.compile(r"<!-- (?:badges|tree|graded):begin -->.*?<!-- \w+:end -->", re.DOTALL)
BLOCK = re.compile(r"(<!-- (\w+):begin -->\n).*?(?=<!-- \2:end -->)", re.DOTALL)
STAMP = re.compile(r"<!-- README\.md as translated: (\w+) -->\n")


def written(english: str) -> str:
    """The digest of what a person wrote in README; what the script fills in is translated by it."""
    return edition.digest(BLOCK.sub(r"\1", english))


def sections(text: str) -> list[str]:
    """The text from heading to heading, as both languages have it, with one address a page."""
    text = STAMP.sub("", MADE.sub("", text))
    text = re.sub(r"(?m)[ \t]+# .*$", "", text)  # comments are translated
    text = text.replace("make lab-zh", "make lab").replace(" --lang zh", "")
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


def test_the_doors_of_the_first_screen_lead_to_what_reads_on_any_host(tmp_path):
    for page in (README, CHINESE):
        screen = page.read_text("utf-8").partition("\n## ")[0]
        doors = re.findall(r"\*\*\[[^]]+\]\(([^)]+)\)\*\*", screen)
        assert len(doors) >= 4, "see tests/test_address.py for those that need an address"
        here = [door for door in doors if not door.startswith("https://")]
        assert all((ROOT / door).suffix in (".md", ".ipynb") for door in here)
        assert all((ROOT / door).is_file() for door in here)


@pytest.mark.slow
def test_the_explorer_that_comes_with_the_project_is_that_of_its_program(tmp_path):
    explorer = explore("cmn-en-zh", tmp_path / "explorer.html").read_bytes()
    stored = (ROOT / "figures" / "explorer.html").read_bytes()
    assert stored == explorer, "make it anew: nmtlib explore cmn-en-zh --out figures/explorer.html"


def test_the_first_lines_say_what_it_is_for_whom_and_how_long():
    for page, words in ((README, "course Python hours"), (CHINESE, "课 Python 小时")):
        text = re.sub(r"<!--.*?-->\n", "", page.read_text("utf-8"))
        first = text.removeprefix("# nmtlib\n").strip().splitlines()[0]
        assert all(word in first for word in words.split()), first
        assert "img.shields.io" not in text.partition("\n## ")[0], "no badge on the first screen"


def test_a_headline_shows_its_whole_record_or_is_refused():
    record = {"found": 32, "faults": 60, "false_alarms": 5}
    whole = "{found} of {faults} faults, {false_alarms} false alarms"
    assert readme.whole_record(whole, record, {}) == "32 of 60 faults, 5 false alarms"
    with pytest.raises(ValueError, match="leaves out false_alarms"):
        readme.whole_record("{found} of {faults} faults", record, {})
    for words in (readme.ENGLISH, readme.CHINESE):
        assert words["headlines"].keys() == readme.RECORDS_OF_HEADLINES.keys()
        assert words["phrases"].keys() == readme.ENGLISH["phrases"].keys()


def test_a_headline_says_none_and_all_as_a_person_does():
    phrases = {
        "named": {"of": "found", "none": "none named", "some": "{named} named", "all": "each named"}
    }
    for named, words in ((0, "none named"), (2, "2 named"), (3, "each named")):
        record = {"found": 3, "named": named}
        assert readme.whole_record("{found} found, {named}", record, phrases) == f"3 found, {words}"
    rounds = json.loads((readme.RESULTS / "homework-rounds.json").read_text("utf-8"))["rounds"]
    newest = rounds[max((name for name in rounds if name.isdigit()), key=int)]["summary"]
    right, wrong = newest["right"], newest["wrong"]
    caught = wrong - newest["wrong_accepted"]
    for words in (readme.ENGLISH, readme.CHINESE):
        shown = readme.headlines(words)
        assert not re.search(r"\b0 (?:were|was)|的有 0 个", shown)
        for count in (right, caught, wrong):  # of the newest round, whatever it is
            assert re.search(rf"(?<!\d){count}(?!\d)", shown)


# The tables are those of the records


@pytest.mark.slow
def test_the_pages_show_the_results_that_are_committed():
    command = [sys.executable, str(ROOT / "benchmarks" / "readme.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# The packages import downwards only, and in no circle

PACKAGES = ("nmtlib", "nmtcheck", "nmtcourse")  # each may import those before it


def modules(*packages: str) -> dict[str, Path]:
    """Every module of some packages by its dotted name."""
    paths = [path for package in packages for path in sorted((ROOT / package).rglob("*.py"))]
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in paths}


def imported(text: str) -> set[str]:
    """The dotted names that a module imports, in functions and for type checkers too.

    `from a import b` gives both `a` and `a.b`.
    """
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def upward(package: str, text: str) -> set[str]:
    """What a module of a package imports of the packages above it."""
    above = PACKAGES[PACKAGES.index(package) + 1 :]
    return {name for name in imported(text) if name.partition(".")[0] in above}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_none_above_it(package):
    found = {
        name: upward(package, path.read_text("utf-8")) for name, path in modules(package).items()
    }
    assert {name: names for name, names in found.items() if names} == {}


def test_the_core_gives_no_name_of_a_package_above_it():
    assert {home.split(".")[0] for home in nmtlib.PUBLIC.values()} == {"nmtlib"}


def dependencies(sources: dict[str, str]) -> dict[str, set[str]]:
    """For each module those of its package that it imports; a re-export is no edge."""
    return {name: (imported(text) & sources.keys()) - {name} for name, text in sources.items()}


@pytest.mark.parametrize("package", PACKAGES)
def test_no_imports_form_a_circle(package):
    plain = {name: path for name, path in modules(package).items() if path.stem != "__init__"}
    sources = {name: path.read_text("utf-8") for name, path in plain.items()}
    order = [*TopologicalSorter(dependencies(sources)).static_order()]  # CycleError names a circle
    assert {*order} == sources.keys()


# What is pinned is what is promised, and what is installed

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = ("moses", "export", "browser")  # what a student does not need


def lines(name: str) -> list[str]:
    """The lines of a file of requirements that pip acts on."""
    rows = (ROOT / name).read_text("utf-8").splitlines()
    return [line for row in rows if (line := row.split("#")[0].strip())]


def pins(name: str) -> dict[str, str]:
    """Package -> exact version; raises ValueError for a line that is no pin."""
    packages = (line for line in lines(name) if not line.startswith("-"))
    return {canonicalize_name(package): pin for package, pin in (p.split("==") for p in packages)}


def ranges(requirements: list[str]) -> dict[str, SpecifierSet]:
    """Package -> allowed versions."""
    parsed = map(Requirement, requirements)
    return {canonicalize_name(each.name): each.specifier for each in parsed}


OPTIONAL = PROJECT["optional-dependencies"]
STUDENT = ranges(
    PROJECT["dependencies"] + [r for n, rs in OPTIONAL.items() if n not in EXTRAS for r in rs]
)
BENCHMARKS = ranges([line for name in EXTRAS for line in OPTIONAL[name]])
PINS = pins("requirements.txt") | pins("requirements-extras.txt")


def test_a_student_installs_the_course_and_its_tests_and_nothing_else():
    assert lines("requirements.txt")[-1] == "-e ."
    assert pins("requirements.txt").keys() == STUDENT.keys()


def test_the_pin_lies_inside_the_range_and_is_installed():
    for name, allowed in (STUDENT | BENCHMARKS).items():
        assert len(allowed) > 0, f"give {name} a lower bound"
        assert allowed.contains(PINS[name])
    for name, allowed in STUDENT.items():
        installed = Version(version(name)).public  # "2.13.0+cpu" is a build of 2.13.0
        # The jobs with the oldest and the newest versions are inside the range, not at the pin.
        assert allowed.contains(installed), f"{name} {installed} is installed, not {allowed}"


def test_the_oldest_versions_are_the_lower_bounds():
    oldest = runpy.run_path(str(ROOT / ".github" / "oldest.py"))["oldest"]()
    bounds = dict(line.split("==") for line in oldest)
    assert {canonicalize_name(name) for name in bounds} == (STUDENT | BENCHMARKS).keys()
    assert all((STUDENT | BENCHMARKS)[canonicalize_name(n)].contains(v) for n, v in bounds.items())


def test_environment_yml_leaves_every_version_to_requirements_txt():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))
    python, *rest = environment["dependencies"]
    expected = ["pip", {"pip": ["-r requirements.txt"]}]
    assert rest == expected, "a conda package would escape the pins"
    assert SpecifierSet(PROJECT["requires-python"]).contains(python.removeprefix("python="))


def test_what_a_report_asked_has_a_cell_that_speaks_of_it():
    rows = re.findall(
        r"^\| .* \| \[\w+\]\((.+)\) \| `(.+)` \| (.+) \|$",
        (ROOT / "docs" / "mission.md").read_text("utf-8"),
        re.MULTILINE,
    )
    assert rows
    for notebook, cell_id, word in rows:
        cells = json.loads((ROOT / "docs" / notebook).read_text("utf-8"))["cells"]
        sources = {cell["id"]: "".join(cell["source"]) for cell in cells}
        assert word in sources[cell_id], (notebook, cell_id)
