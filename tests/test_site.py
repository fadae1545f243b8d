"""The website: whole, and without a broken link or a request to elsewhere."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[1]
FORK = "https://github.com/someone/their-fork"
ATTENTION = "notebooks/04_scaled_dot_product_attention.html"
EXTRAS = ("sphinx", "myst_nb", "sphinx_book_theme", "playwright")
ICONS = """() => [...document.querySelectorAll("button, label")]
  .filter((button) => button.getBoundingClientRect().height > 0)
  .map((button) => [button, [...button.querySelectorAll("[class*='fa-']")]])
  .filter(([, icons]) => icons.length > 0)
  .map(([button, icons]) => [
    button.className,
    Math.max(...icons.map((icon) => icon.getBoundingClientRect().height)),
  ])"""
pytestmark = [pytest.mark.slow, pytest.mark.extras(*EXTRAS)]


class Page(HTMLParser):
    """What a page links to, what it loads, at once or later, and the places a link may name."""

    def __init__(self, path: Path):
        super().__init__()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.later: set[str] = set()
        self.places: set[str] = {""}
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.places |= {named[key] for key in ("id", "name") if named.get(key)}
        if tag == "a" and "href" in named:
            self.links.add(named["href"])
        elif tag == "link" and named.get("rel") in ("stylesheet", "icon"):
            self.loads.add(named["href"])
        elif tag == "iframe":
            # one without `src` gets it at a click
            lazy = named.get("loading") == "lazy" or "src" not in named
            (self.later if lazy else self.loads).add(named.get("src") or named["data-src"])
        elif tag in ("img", "script") and named.get("src"):
            self.loads.add(named["src"])


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The folder of the website, built as `make site` does, for a fork."""
    out = tmp_path_factory.mktemp("site")
    options = ["--out", str(out), "--repository", FORK, "--branch", "main"]
    command = [sys.executable, "docs/site/build.py", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return out / "html"


@pytest.fixture(scope="module")
def pages(site) -> dict[Path, Page]:
    """Every page of the site, read."""
    others = {"_static", "explorer", "slides"}
    paths = [path for path in site.rglob("*.html") if path.parent.name not in others]
    return {path: Page(path) for path in paths}


def broken(path: Path, address: str, pages: dict[Path, Page]) -> bool:
    """Whether an address in the page at `path` leads nowhere on the site."""
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        return False
    leads = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
    if not leads.is_file():
        return True
    return leads in pages and unquote(parts.fragment) not in pages[leads].places


def test_every_notebook_and_document_has_a_page(site):
    for pattern in ("notebooks/*.ipynb", "notebooks/homework/*.ipynb", "docs/*.md"):
        names = [path.relative_to(ROOT).with_suffix(".html") for path in ROOT.glob(pattern)]
        assert names and all((site / name).is_file() for name in names)
    assert not list(site.rglob("*solution*")), "no page spoils the homework"


def test_no_link_is_broken_and_nothing_that_a_page_loads_is_missing(site, pages):
    lost = {
        (path.relative_to(site).as_posix(), address)
        for path, page in pages.items()
        for address in page.links | page.loads | page.later
        if broken(path, address, pages)
    }
    assert lost == set()


def test_a_slide_loads_nothing_that_is_not_there(site):
    decks = sorted((site / "slides").glob("*.html"))
    loads = {(deck.name, source) for deck in decks for source in Page(deck).loads}
    here = {(name, source) for name, source in loads if not source.startswith("data:")}
    assert decks and {each for each in here if not (site / "slides" / each[1]).is_file()} == set()


@pytest.mark.parametrize("width", [390, 1280])
def test_every_button_shows_its_icon(site, browser, width):
    """On a phone the menus are behind two of them."""
    page = browser.new_page(viewport={"width": width, "height": 844})
    page.goto((site / "index.html").as_uri())
    icons = page.evaluate(ICONS)
    page.close()
    assert len(icons) >= 3 and all(height > 8 for _, height in icons), icons


def test_the_homework_has_its_minutes_and_points(site):
    cells = re.findall(r"<td[^>]*>(.*?)</td>", (site / "homework.html").read_text("utf-8"), re.S)
    numbers = [re.sub("<[^>]*>", "", cell).strip() for cell in cells]
    rows = [numbers[start : start + 4] for start in range(0, len(numbers), 4)]
    assert len(rows) == 12 and all(row[1].isdigit() and row[2].isdigit() for row in rows)


def test_no_page_loads_anything_from_elsewhere(pages):
    loaded = {address for page in pages.values() for address in page.loads | page.later}
    assert {address for address in loaded if urlsplit(address).netloc} == set()


def test_formulas_are_drawn_when_the_site_is_built(site):
    texts = {page: page.read_text("utf-8") for page in (site / "notebooks").rglob("*.html")}
    assert not [page for page, text in texts.items() if "tex-svg" in text or r"\(" in text]
    assert texts[site / ATTENTION].count("<mjx-container") > 50
