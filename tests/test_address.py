"""One constant holds the address of the repository; what works only on the web follows from it."""

import re
import sys
import tomllib
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "docs" / "site"))

import address  # noqa: E402
import colab  # noqa: E402
import gather  # noqa: E402

FORK = "https://github.com/Some/their-fork"
WEB = re.compile(r"colab\.research|mybinder\.org|codespaces\.new|github\.io|git\+http|git clone")
PAGES = {ROOT / name: language for name, language in address.PAGES.items()}
PROJECT = (ROOT / "pyproject.toml").read_text("utf-8")


def test_the_pages_are_those_of_the_constant():
    known = tomllib.loads(PROJECT)["project"].get("urls", {}).get("Repository", "")
    for page, language in PAGES.items():
        text = page.read_text("utf-8")
        assert address.filled(text, language, known) == text, "run docs/site/address.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_without_an_address_no_link_promises_what_only_the_web_has(page):
    text = address.filled(page.read_text("utf-8"), PAGES[page], "")
    assert not WEB.search(text)
    assert not re.search(r"\bURL\b", text), "no placeholder"
    assert "make lab" in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_with_an_address_a_page_has_the_explorer_colab_and_binder(page):
    language = PAGES[page]
    text = address.filled(page.read_text("utf-8"), language, FORK, "trunk")
    tour = address.WORDS[language]["tour"]
    explorer = "https://some.github.io/their-fork/explorer/cmn-en-zh.html"
    colab = f"https://colab.research.google.com/github/Some/their-fork/blob/colab/{tour}"
    binder = f"https://mybinder.org/v2/gh/Some/their-fork/trunk?urlpath=lab/tree/{tour}"
    screen = text.partition("\n## ")[0]
    assert all(f"]({link})**" in screen for link in (explorer, colab, binder))
    assert f'<a href="{explorer}"><picture>' in screen, "the film is a door too"
    assert f"git clone {FORK} nmtlib" in text and f"git+{FORK}" in text
    assert (ROOT / tour).is_file(), "what Colab opens is there"
    assert address.filled(text, language, "") == page.read_text("utf-8"), "and back again"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_explorer_of_the_first_screen_can_be_opened_by_a_click(page):
    """Without an address this is the file itself, and the caption says what to do with it."""
    screen = address.filled(page.read_text("utf-8"), PAGES[page], "").partition("\n## ")[0]
    caption = screen.rpartition("</picture>")[2]
    (file,) = re.findall(r"]\((\S+)\)", caption)
    assert (ROOT / file).is_file() and file.endswith(".html")
    assert "open it in a browser" in caption or "用浏览器打开" in caption


def test_the_website_speaks_of_no_archive():
    text = (ROOT / "README.md").read_text("utf-8")
    assert "archive" in address.filled(text, "en", "")
    for repository in ("", FORK):
        assert "archive" not in address.filled(text, "en", repository, site=True)


def test_the_command_writes_the_constant_and_the_pages(tmp_path, monkeypatch):
    monkeypatch.setattr(address, "ROOT", tmp_path)
    monkeypatch.setattr(address, "PROJECT", tmp_path / "pyproject.toml")
    monkeypatch.delenv("NMTLIB_REPOSITORY", raising=False)
    (tmp_path / "pyproject.toml").write_text(PROJECT, "utf-8")
    for page in PAGES:
        (tmp_path / page.name).write_text(page.read_text("utf-8"), "utf-8")
    for given in (f"{FORK}.git", "https://github.com/other/name/"):  # a fork of a fork
        monkeypatch.setattr(sys, "argv", ["address.py", given, "main"])
        assert address.main() == 0
        expected = given.removesuffix("/").removesuffix(".git")
        assert address.repository() == expected
        assert f"git clone {expected} nmtlib" in (tmp_path / "README.md").read_text("utf-8")
    written = tomllib.loads((tmp_path / "pyproject.toml").read_text("utf-8"))
    assert written["project"]["urls"] == {"Repository": "https://github.com/other/name"}
    assert written["project"]["name"] == "nmtlib" and written["tool"]
    before = (tmp_path / "README.md").read_text("utf-8")
    monkeypatch.setattr(sys, "argv", ["address.py"])  # the constant as it is
    assert address.main() == 0 and (tmp_path / "README.md").read_text("utf-8") == before
    for wrong in (["URL"], ["https://example.org/a/b"]):
        monkeypatch.setattr(sys, "argv", ["address.py", *wrong])
        assert address.main() == 1
    assert (tmp_path / "README.md").read_text("utf-8") == before


def test_other_sites_than_github_have_no_colab():
    for other in ("", "https://example.org/a/b", "git@github.com:a/b"):
        assert address.owner_and_name(other) == address.pages(other) == ""


def test_each_page_of_a_notebook_opens_in_colab_and_binder_once_there_is_an_address():
    for folder in ("notebooks", "notebooks/zh"):
        name = f"{folder}/04_scaled_dot_product_attention.ipynb"
        there = gather.launch(name, FORK, "trunk")
        assert address.colab(FORK, name) in there
        assert address.binder(FORK, "trunk", name) in there
        assert not WEB.search(gather.launch(name, "", "trunk"))
    assert (ROOT / "environment.yml").is_file(), "from which Binder builds"


@pytest.mark.slow
def test_a_copy_for_colab_installs_the_package_and_links_to_whole_addresses(tmp_path):
    copies = colab.write_copies(tmp_path, FORK, "trunk")
    assert len(copies) == len(set(copies)) and len(copies) >= 2 * (16 + 12)
    for copy in copies:
        book = nbformat.read(copy, as_version=4)
        nbformat.validate(book)
        first, *rest = book.cells
        assert first.source.endswith(f"\n%pip install -q git+{FORK}@trunk")
        original = nbformat.read(ROOT / copy.relative_to(tmp_path), as_version=4)
        assert [cell.id for cell in rest] == [cell.id for cell in original.cells]
        text = "\n".join(cell.source for cell in rest if cell.cell_type == "markdown")
        for _, target in gather.CODE_OR_LINK.findall(text):
            assert not target or re.match("#|https?:", target), f"{copy.name}: {target}"
            if target.startswith(f"{FORK}/"):
                place = re.sub(r".*/(?:blob|tree)/trunk/|#.*", "", target)
                assert (ROOT / place).exists(), target
    tour = nbformat.read(tmp_path / "notebooks/zh/00_tour.ipynb", as_version=4)
    assert "运行" in tour.cells[0].source
    assert address.colab(FORK, "notebooks/zh/01_text_to_tensors.ipynb") in str(tour)


def test_the_copies_need_an_address(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("NMTLIB_REPOSITORY", raising=False)
    monkeypatch.setattr(address, "PROJECT", tmp_path / "pyproject.toml")
    (tmp_path / "pyproject.toml").write_text("[project]\n", "utf-8")
    monkeypatch.setattr(sys, "argv", ["colab.py", str(tmp_path / "copies")])
    assert colab.main() == 1 and not (tmp_path / "copies").exists()
    assert "of a repository on GitHub, not ''" in capsys.readouterr().err
