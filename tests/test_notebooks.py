"""The notebooks keep the rules, each rule finds its defect, and nbval notices what changed."""

import copy
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import execute
import nbformat
import pytest
import rules
import shown
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SANITIZE = ROOT / "tests" / "nbval_sanitize.cfg"

OPENING = """# 04 Attention
You will be able to compute it. **Time** 5 minutes.
It needs notebook [03](03_positions.ipynb#The-formula).

![A head of the model](../figures/head.png)"""
CLOSING = """## Summary
All is attention.
## Exercises
1. Easy: one. 2. Medium: two. 3. Hard: three, see [the top](#04-Attention).
## Further reading
[The paper](https://arxiv.org/abs/1706.03762), [the plan](../README.md#two-commands),
[a line](03_positions.py#L1), `heads[0](x)`"""


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_keeps_the_rules(path):
    assert list(rules.findings(path)) == []


@pytest.fixture
def project(tmp_path):
    """The path of a notebook that keeps all rules, in a small project."""
    for folder in ("notebooks", "figures"):
        (tmp_path / folder).mkdir()
    (tmp_path / "figures" / "head.png").write_bytes(b"picture")
    (tmp_path / "notebooks" / "03_positions.py").touch()
    (tmp_path / "README.md").write_text("# Plan\n## Two commands!\n")
    nbformat.write(
        new_notebook(cells=[new_markdown_cell("# 03\n## The formula")]),
        tmp_path / "notebooks/03_positions.ipynb",
    )
    picture = new_output(
        "display_data",
        data={"image/png": "aaaa", "text/plain": "Figure 6.0 x 3.5 in"},
        metadata={"image/png": {"alt": "Line plot: loss from 4 to 1"}},
    )
    slide = {"slideshow": {"slide_type": "slide"}}
    cells = [
        new_markdown_cell(OPENING, id="a"),
        new_code_cell("from nmtlib import model\nassert model", id="b", execution_count=1),
        new_code_cell("predict(1)", id="c", execution_count=2, metadata={"tags": ["predict"]}),
        new_code_cell(
            "plt.show()",
            id="d",
            execution_count=3,
            outputs=[picture, new_output("stream", text="0.5 of it\n")],
        ),
        *(new_markdown_cell(f"Slide {i}.", id=f"s{i}", metadata=slide) for i in range(10)),
        new_markdown_cell(CLOSING, id="e"),
    ]
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    path = tmp_path / "notebooks" / "04_attention.ipynb"
    nbformat.write(
        new_notebook(
            cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}}
        ),
        path,
    )
    return path


def test_a_good_notebook_keeps_all_rules(project):
    assert list(rules.findings(project)) == []


def cell(number, **changes):
    """A change of one cell."""
    return lambda book: book["cells"][number].update(changes)


def metadata(number, **changes):
    return lambda book: book["cells"][number]["metadata"].update(changes)


def output(number, kind, **content):
    return lambda book: book["cells"][number]["outputs"].append(new_output(kind, **content))


def swap(number, old, new):
    """A change of some words of a cell."""

    def change(book):
        assert old in book["cells"][number]["source"]
        book["cells"][number]["source"] = book["cells"][number]["source"].replace(old, new)

    return change


FAILURE = {"ename": "ValueError", "evalue": "no", "traceback": []}
DEFECTS = {
    "is_a_valid_notebook": [cell(1, id="a"), cell(1, outputs=[{"output_type": "none"}])],
    "was_run_top_to_bottom": [
        cell(1, execution_count=None),
        cell(2, execution_count=7),
        cell(3, execution_count=2),
    ],
    "has_no_error_outputs": [output(1, "error", **FAILURE), metadata(1, tags=["raises-exception"])],
    "writes_nothing_to_stderr": [output(1, "stream", name="stderr", text="UserWarning: old")],
    "stores_no_state": [
        output(1, "display_data", data={execute.WIDGET: {"model_id": "1"}}),
        metadata(0, execution={}),
        lambda book: book["metadata"].update(widgets={}),
    ],
    "names_the_usual_kernel": [
        lambda book: book["metadata"]["kernelspec"].update(name="venv"),
        lambda book: book["metadata"].pop("kernelspec"),
    ],
    "names_no_machine": [
        cell(1, source="open('/home/me/x')"),
        output(1, "stream", text="saved in /tmp/run"),
        swap(0, "Time", "/root/file"),
        swap(0, "Time", "pip install --index-url http://x y"),
        output(1, "display_data", data={"text/html": "<b>C:\\Users</b>"}),
    ],
    "ends_no_cell_with_a_semicolon": [cell(3, source="plt.show();\n")],
    "keeps_cells_short": [
        cell(1, source="from nmtlib import model\nassert model\n" + "x = 1\n" * 29)
    ],
    "runs_every_cell": [
        metadata(1, tags=["nbval-skip"]),
        cell(1, source="# NBVAL_SKIP\nassert nmtlib"),
    ],
    "uses_nmtlib": [
        cell(1, source="# import nmtlib\nassert 1"),
        cell(1, source="import nmtlibrary\nassert 1"),
    ],
    "asserts_its_claims": [swap(1, "assert model", "# assert model")],
    "shows_pictures": [
        cell(3, outputs=[]),
        lambda book: book["cells"][3]["outputs"][0]["data"].update(
            {"text/plain": "<Figure size 6x4>"}
        ),
    ],
    "asks_before_it_shows": [cell(2, source="1"), metadata(2, tags=[])],
    "opens_with_what_it_gives_and_needs": [
        swap(0, "# 04", "04"),
        swap(0, "will be able to", "can"),
        swap(0, "Time", "Long"),
        swap(0, "needs", "wants"),
    ],
    "states_honest_minutes": [
        swap(0, "**Time** 5", "Time 5"),
        swap(0, "**Time** 5", "**Time** 15"),
        swap(-1, "All is", "All is " + 19_000 * "very "),
        lambda book: [
            swap(0, "**Time** 5", "**Time** 95")(book),
            swap(-1, "All is", "All is " + 19_000 * "very ")(book),
        ],
    ],
    "closes_with_summary_exercises_and_reading": [
        swap(-1, "## Summary", ""),
        swap(-1, "## Further reading", ""),
        swap(-1, "Hard", "Third"),
        swap(-1, "## Exercises", "## Tasks"),
        swap(-1, "## Further reading", "## Further reading\n## Summary"),
    ],
    "links_to_what_exists": [
        swap(0, "03_positions", "03_position"),
        swap(0, "#The-formula", "#the-formula"),
        swap(-1, "#04-Attention", "#04"),
        swap(-1, "#two-commands", "#one"),
        swap(0, "![A head of the model](../figures/head.png)", '<img src="../figures/tail.png">'),
    ],
    "names_figures_that_exist": [
        swap(0, "head.png", "tail.png"),
        cell(3, source="open('../figures/a/b.svg')"),
    ],
    "describes_its_pictures": [
        lambda book: book["cells"][3]["outputs"][0].update(metadata={}),
        lambda book: book["cells"][3]["outputs"][0]["metadata"]["image/png"].update(alt="plot"),
        swap(0, "![A head of the model]", "![]"),
        swap(0, "![A head of the model]", "![The picture in head.png]"),
        swap(0, "![A head of the model](../figures/head.png)", '<img src="../figures/head.png">'),
    ],
    "has_a_deck": [
        metadata(5, slideshow={"slide_type": "skip"}),
        metadata(1, slideshow={"slide_type": "fragment"}),
        lambda book: book["cells"].extend(
            new_markdown_cell("More", metadata={"slideshow": {"slide_type": "slide"}})
            for _ in range(15)
        ),
        cell(1, source="x = 1\n" * 25, metadata={"slideshow": {"slide_type": "slide"}}),
    ],
    "is_small": [
        cell(
            3,
            outputs=[
                new_output("display_data", data={"image/png": "a" * 1_000_000, "text/plain": "F"})
            ],
        )
    ],
    "is_short": [
        swap(-1, "All is", "All is " + 4_000 * "very "),
        lambda book: [c.update(source="predict(1)\n" * 7) for c in book["cells"][1:4]],
    ],
    "asserts_little": [cell(1, source="from nmtlib import model\n" + "assert model\n" * 13)],
    "begins_with_few_imports": [
        cell(1, source="from nmtlib import model\n" + "import os\n" * 6 + "assert model")
    ],
    "is_written_in_natural_english": [
        swap(-1, "All is", "Whoever asks"),
        swap(-1, "All is", "Somebody says that all is"),
        swap(-1, "All is", "The answer lies in"),
        swap(-1, "All is", "It is no word of"),
        swap(-1, "All is", "After two trainings all is"),
        swap(-1, "All is", "The model says that all is"),
    ],
    "gives_each_symbol_one_meaning": [swap(-1, "All is", r"$\sqrt{K}$ is")],
    "has_code_to_imitate": [
        cell(3, source="plot(x, **options)"),
        cell(3, source="if (n := 1):\n    pass"),
        cell(3, source="for i in x:\n    f.append(lambda: i)"),
        cell(3, source="x = [[a for a in b] for b in c]"),
    ],
    "compares_its_pictures": [metadata(3, tags=["nbval-ignore-output"])],
}


def test_each_rule_has_a_planted_defect():
    assert list(DEFECTS) == [rule.__name__ for rule in rules.RULES]


@pytest.mark.parametrize("name", DEFECTS)
def test_a_rule_finds_its_defects(project, name):
    good = nbformat.read(project, as_version=4)
    for number, plant in enumerate(DEFECTS[name]):
        book = copy.deepcopy(good)
        plant(book)
        text = nbformat.writes(book) if name != "is_a_valid_notebook" else "{}"
        project.write_text(text, encoding="utf-8")
        rule = next(rule for rule in rules.RULES if rule.__name__ == name)
        assert list(rule(book, project)), f"defect {number} was not found"


def test_the_course_keeps_its_limits():
    books = [nbformat.read(path, as_version=4) for path in NOTEBOOKS]
    assert list(rules.plain.course(books)) == []


def test_the_whole_course_has_its_limits(project):
    book = nbformat.read(project, as_version=4)
    book["cells"][1]["outputs"] = book["cells"][3]["outputs"]
    assert list(rules.plain.course([book])) == []
    long = copy.deepcopy(book)
    long["cells"][-1]["source"] += 43_000 * " word"
    long["cells"][0]["source"] = long["cells"][0]["source"].replace("5 minutes", "1081 minutes")
    long["cells"][1]["source"] += "\nassert model" * 5_800
    long["cells"][1]["metadata"]["tags"] = ["nbval-ignore-output"]
    assert len(list(rules.plain.course([long]))) == 5


@pytest.mark.parametrize("path", NOTEBOOKS[1:13], ids=lambda path: path.name)
def test_a_closing_names_the_homework_by_its_titles(path):
    """The three tasks in code; the fourth is a choice."""
    page = next(path.parent.glob(f"homework/{path.name[:2]}_*.ipynb"))
    texts = [rules.prose(nbformat.read(file, as_version=4)["cells"]) for file in (path, page)]
    named = re.search(r"(?s)grades itself: (\*.*?\*)\.", texts[0])
    titles = re.findall(r"(?m)^## \d\d\.\d (.+)$", texts[1])[:3]
    assert named and re.findall(r"\*(.+?)\*", " ".join(named[1].split())) == titles


def test_pages_describe_their_pictures():
    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("benchmarks/*.md")]
    assert not [found for page in pages for found in shown.undescribed(page.read_text("utf-8"))]


def test_the_minutes_are_those_of_words_lines_and_figures(project):
    book = nbformat.read(project, as_version=4)
    before = execute.minutes.minutes(book)
    book["cells"][-1]["source"] += "\n" + 2_000 * "word " + "$a + b$"
    book["cells"][1]["source"] += "\n\nx = 1" * 15
    source = "**a.py**\n\n```python\nx = 1\ny = 2\n```\n"
    shown = new_output("display_data", data={"image/png": "a", "text/markdown": source})
    book["cells"][3]["outputs"].append(shown)
    added = 2_002 / 200 + (15 + 2) * 8 / 60 + 1
    assert execute.minutes.minutes(book) == pytest.approx(before + added)
    assert execute.minutes.state(book) == 15 == execute.minutes.stated(book)
    assert "**Time** 15 minutes" in book["cells"][0]["source"]
    assert not list(rules.states_honest_minutes(book, project))


def test_every_figure_is_shown_somewhere(project):
    assert list(rules.unshown_figures(ROOT)) == []
    root = project.parents[1]
    assert list(rules.unshown_figures(root)) == []
    (root / "figures" / "two-heads.svg").touch()
    assert len(list(rules.unshown_figures(root))) == 1
    (root / "README.md").write_text("diagrams.two_heads()")
    assert list(rules.unshown_figures(root)) == []


SETUP = """import warnings
import matplotlib.pyplot as plt
from nmtcourse.teaching import style
style.setup()"""
NUMBER = "loss = 1.234\nprint(f'loss {loss:.3f}')"
CURVE = "figure, axes = plt.subplots()\n_ = axes.plot([1, 2, 4, 8])\nplt.show()"
TIMED = "import time\nprint(f'{time.time() % 97:.3f} s on cpu')"
CHANGED = [
    (SETUP, SETUP),
    (NUMBER, NUMBER.replace("1.234", "1.235")),
    (CURVE, CURVE.replace("4, 8", "4, 9")),
    (CURVE, CURVE.replace("1, 2, 4, 8", "2, 4, 8, 16")),
    (CURVE, CURVE.replace("plt.show()", "plt.close()")),
    (NUMBER, "warnings.warn('old')\n" + NUMBER),
    (TIMED, TIMED),
]


@pytest.mark.slow
def test_nbval_notices_what_changed_and_nothing_else(tmp_path):
    """Stored outputs of good code beside changed code: only the first and the last cell agree."""
    good = tmp_path / "good.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell(source) for source, _ in CHANGED]), good)
    stored = execute.execute(good, timeout=120)
    nbformat.write(stored, good)
    for stored_cell, (_, changed) in zip(stored.cells, CHANGED, strict=True):
        stored_cell.source = changed
    nbformat.write(stored, tmp_path / "broken.ipynb")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--nbval",
        "--nbval-current-env",
        f"--nbval-sanitize-with={SANITIZE}",
        "-p",
        "no:cacheprovider",
        "-q",
        "-rfE",
        "--tb=no",
        ".",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)::Cell (\d+)", done.stdout, re.MULTILINE)
    assert failed == [("broken.ipynb", str(number)) for number in (1, 2, 3, 4, 5)], done.stdout


def test_durations_are_not_compared_and_results_are():
    pairs = re.findall(r"^regex: (.*)\nreplace: (.*)$", SANITIZE.read_text("utf-8"), re.MULTILINE)

    def sanitized(text):
        for pattern, replacement in pairs:
            text = re.sub(pattern, replacement, text)
        return text

    same = [
        ("took 3.21 s", "took 13.4 s"),
        ("  45 ms a batch", "   5 ms a batch"),
        ("on cpu", "on cuda:0"),
        ("21,508 tokens/s", " 9,012 tokens/s"),
        ("<f at 0x7f12ab34cd56>", "<f at 0x7f12ab34cd00>"),
    ]
    for one, other in same:
        assert sanitized(one) == sanitized(other) != one
    for result in (
        "BLEU 99.37",
        "loss 1.234, perplexity 3.44",
        "d_k = 64, 2 layers",
        "[0.25, 0.75]",
        "2 sentences",
    ):
        assert sanitized(result) == result


def test_the_sanitize_file_is_found_from_any_folder(tmp_path, monkeypatch):
    namespace = {}
    exec((ROOT / "conftest.py").read_text(), namespace)
    option = SimpleNamespace(nbval_sanitize_with="tests/nbval_sanitize.cfg")
    monkeypatch.chdir(tmp_path)
    namespace["pytest_configure"](SimpleNamespace(option=option, rootpath=ROOT))
    assert Path(option.nbval_sanitize_with) == SANITIZE
