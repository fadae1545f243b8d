"""The website: whole, without a broken link or a request to elsewhere, and usable in a browser."""

import functools
import gzip
import http.server
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[1]
FORK = "https://github.com/someone/their-fork"
ATTENTION = "notebooks/04_scaled_dot_product_attention.html"
LOOKED_AT = ["index.html", ATTENTION, "docs/results.html", "api/nmtlib.model.html"]
LOOKED_AT += [
    "glossary.html",
    "explorer.html",
    "docs/commands.html",
    "search.html?q=attention",
    "notebooks/homework/07_model.html",
]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.extras("sphinx", "myst_nb", "sphinx_book_theme", "playwright"),
]


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
            (self.later if named.get("loading") == "lazy" else self.loads).add(named["src"])
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
    found = {
        (path.relative_to(site).as_posix(), address)
        for path, page in pages.items()
        for address in page.links | page.loads | page.later
        if broken(path, address, pages)
    }
    assert found == set()


def test_a_chinese_page_says_so_and_has_chinese_labels(site):
    for name in ("06_masking.html", "homework/06_masks.html"):
        text = (site / "notebooks" / "zh" / name).read_text("utf-8")
        assert '<html lang="zh-CN"' in text and "目录" in text and ">下载</a>" in text
        assert ">在 Colab 打开</a>" in text and "在 Colab 上先运行 <code>%pip" in text
        assert "下一页" in text and ">next<" not in text
    english = (site / "notebooks" / "06_masking.html").read_text("utf-8")
    assert '<html lang="en"' in english and ">Download</a>" in english and ">next<" in english


def test_a_notebook_leads_to_its_slides_and_to_a_pdf_that_was_printed(site, tmp_path, monkeypatch):
    text = (site / ATTENTION).read_text("utf-8")
    assert 'href="../slides/04_scaled_dot_product_attention.html"' in text
    assert len(list((site / "slides").glob("*.html"))) == len(list(ROOT.glob("notebooks/*.ipynb")))
    monkeypatch.syspath_prepend(ROOT / "docs" / "site")
    import gather

    monkeypatch.setattr(gather, "PRINTED", tmp_path)
    assert "PDF" not in gather.launch("notebooks/00_tour.ipynb", "", "main")
    (tmp_path / "00_tour.pdf").touch()
    assert 'href="../print/00_tour.pdf">PDF' in gather.launch("notebooks/00_tour.ipynb", "", "main")
    assert "Slides" not in gather.launch("notebooks/homework/04_attention.ipynb", "", "main")


@pytest.mark.parametrize(("folder", "word"), [("", "Homework"), ("zh/", "作业")])
def test_a_notebook_leads_to_its_homework(folder, word, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs" / "site")
    import gather

    line = gather.launch(f"notebooks/{folder}04_scaled_dot_product_attention.ipynb", "", "main")
    assert f'<a href="homework/04_attention.html">{word}</a>' in line
    assert f">{word}<" not in gather.launch(f"notebooks/{folder}00_tour.ipynb", "", "main")


def test_a_broken_link_is_found(pages, site):
    start = site / "index.html"
    assert broken(start, "notebooks/99_none.html", pages)
    assert broken(start, f"{ATTENTION}#no-such-heading", pages)
    assert not broken(start, f"{ATTENTION}#summary", pages)


def test_no_page_loads_anything_from_elsewhere(pages):
    loaded = {address for page in pages.values() for address in page.loads | page.later}
    assert {address for address in loaded if urlsplit(address).netloc} == set()


def test_a_notebook_can_be_run_elsewhere_taken_along_and_changed(site, pages):
    for notebook in [*ROOT.glob("notebooks/*.ipynb"), *ROOT.glob("notebooks/homework/*.ipynb")]:
        name = notebook.relative_to(ROOT).as_posix()
        links = pages[site / Path(name).with_suffix(".html")].links
        assert (
            f"https://colab.research.google.com/github/someone/their-fork/blob/main/{name}" in links
        )
        assert (
            f"https://mybinder.org/v2/gh/someone/their-fork/main?urlpath=lab/tree/{name}" in links
        )
        assert f"{FORK}/edit/main/{name}" in links
        assert (site / "_sources" / name).read_bytes() == notebook.read_bytes()


def test_the_first_page_says_how_to_install_from_its_own_repository(site):
    text = (site / "index.html").read_text("utf-8")
    assert f"pip install git+{FORK}" in text and "git+URL" not in text


def test_the_glossary_says_in_a_line_what_each_term_means(site):
    text = (site / "glossary.html").read_text("utf-8")
    rows = re.findall(r"<tr class=\"row-(?:even|odd)\">(.+?)</tr>", text, re.DOTALL)[1:]
    told = [re.findall(r"<p>(.*?)</p>", row, re.DOTALL)[1].split() for row in rows]
    assert len(told) > 100 and [words for words in told if not 3 <= len(words) <= 20] == []


def sent(path: Path) -> int:
    """The bytes of a file as a server sends them: pictures as they are, text compressed."""
    content = path.read_bytes()
    return min(len(content), len(gzip.compress(content)))


def test_the_first_page_is_light(site, pages):
    loads = {urlsplit(address).path for address in pages[site / "index.html"].loads}
    sizes = {name: sent(site / name) for name in [*loads, "index.html"] if "mathjax" not in name}
    assert "_static/explorer.webp" in sizes and sum(sizes.values()) < 1.5e6, sizes


def test_the_search_index_knows_where_label_smoothing_is_explained(site):
    text = (site / "searchindex.js").read_text("utf-8")
    index = json.loads(text.removeprefix("Search.setIndex(").rstrip().removesuffix(")"))

    def pages_with(stem: str) -> set[str]:
        numbers = [index[part].get(stem, []) for part in ("terms", "titleterms")]
        flat = (n if isinstance(n, list) else [n] for n in numbers)  # one page is a bare number
        return {index["docnames"][number] for each in flat for number in each}

    both = pages_with("label") & pages_with("smooth")
    assert "notebooks/08_label_smoothing_and_noam" in both
    assert not any(name.startswith("files/") for name in both)


# In a browser


@pytest.fixture(scope="module")
def address(site) -> Iterator[str]:
    """Where the site is served."""

    class Silent(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Silent, directory=site)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def page(browser, address):
    """An empty page; at its end it must have complained of nothing and asked nobody else."""
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    problems: list[str] = []
    opened.on("console", lambda said: said.type == "error" and problems.append(said.text))
    opened.on("pageerror", lambda error: problems.append(str(error)))
    inside = (address, "data:", "blob:")
    opened.on("request", lambda asked: asked.url.startswith(inside) or problems.append(asked.url))
    yield opened
    opened.close()
    assert problems == []


def test_formulas_and_pictures_are_drawn(page, address):
    page.goto(f"{address}/{ATTENTION}")
    page.wait_for_selector("article mjx-container svg")
    page.wait_for_function("() => MathJax.startup.promise.then(() => true)")
    written = page.locator("article .math").count()
    assert page.locator("article mjx-container svg").count() >= written > 10
    assert page.locator("mjx-merror, [data-mjx-error]").count() == 0
    page.evaluate("document.querySelectorAll('article details').forEach((d) => (d.open = true))")
    for picture in page.locator("article img").all():
        picture.scroll_into_view_if_needed()
        assert picture.evaluate("img => img.decode().then(() => img.naturalWidth)") > 100


def test_the_search_finds_the_notebook(page, address):
    page.goto(address)
    page.keyboard.press("Control+k")
    page.keyboard.type("label smoothing")
    page.keyboard.press("Enter")
    first = page.locator("#search-results li a").first
    first.wait_for()
    assert "08_label_smoothing" in first.get_attribute("href")


@pytest.mark.parametrize(
    ("query", "number"),
    [
        ("显存不足怎么办", "12"),
        ("训练很慢", "12"),
        ("标签平滑", "08"),
        ("批大小 损失", "08"),
        ("为什么除以根号", "04"),
        ("波长", "03"),
        ("贪心搜索 同一句", "10"),
        ("早停 留下哪些权重", "09"),
        ("-1e12 NaN", "06"),
        ("为什么八个头", "05"),
        ("多少个参数", "07"),
        ("层归一化 批量归一化", "07"),
        ("显存不足", "12"),
        ("为什么乘以根号", "02"),
        ("学出来的位置", "03"),
        ("BLEU 0.23 算好吗", "14"),
        ("47 轮 过拟合", "09"),
        ("批大小 64 损失 大", "08"),
        ("贪心 输出 同一句话", "10"),
        ("参数量 1.86 亿", "14"),
        ("掩码 -1e12", "06"),
        ("验证集 准确率 第10轮", "09"),
        ("键值缓存", "10"),
        ("头", "05"),
        ("掩码是什么", "06"),
        ("为什么要乘以 sqrt(d_model)", "02"),
        ("OOM", "12"),
        ("断点续训", "09"),
        ("梯度累积", "12"),
        ("混合精度", "12"),
        ("长度惩罚", "10"),
        ("BLEU 怎么算", "11"),
        ("隐藏的 bug 调试", "15"),
    ],
)
def test_the_search_finds_a_chinese_question(page, address, query, number):
    page.goto(f"{address}/search.html?q={query}")
    page.get_by_text("Search finished").wait_for()
    found = [link.get_attribute("href") for link in page.locator("#search-results li a").all()]
    assert any(f"notebooks/zh/{number}_" in href for href in found[:2]), found
    assert f"/{number}_" in found[0], found  # also the homework, or the English notebook


@pytest.mark.parametrize(
    ("query", "number"),
    [("beam search", "10"), ("attention divided by sqrt", "04"), ("CUDA out of memory", "12")],
)
def test_the_search_finds_an_english_question(page, address, query, number):
    page.goto(f"{address}/search.html?q={query}")
    page.get_by_text("Search finished").wait_for()
    first = page.locator("#search-results li a").first
    assert f"notebooks/{number}_" in first.get_attribute("href")


def test_the_search_shows_what_was_typed(page, address):
    page.goto(f"{address}/search.html?q=为什么八个头 Softmax")
    page.get_by_text("Search finished").wait_for()
    assert page.evaluate("localStorage.sphinx_highlight_terms") == "为什么八个头 softmax"


def test_the_page_turns_dark(page, address):
    page.emulate_media(color_scheme="light")
    page.goto(address)
    background = "() => getComputedStyle(document.body).backgroundColor"
    bright = page.evaluate(background)
    page.locator(".theme-switch-button").click()
    page.locator(".theme-change-button[data-mode=dark]").click()
    assert page.locator("html[data-theme=dark]").count() == 1
    assert page.evaluate(background) != bright


def test_the_first_page_becomes_the_explorer_only_when_asked(page, address):
    asked: list[str] = []
    page.on("request", lambda request: asked.append(urlsplit(request.url).path))
    page.goto(address)
    page.locator("details.explorer img").wait_for()
    page.mouse.wheel(0, 500)
    page.wait_for_load_state("networkidle")
    assert not [path for path in asked if "/explorer/" in path]
    page.locator("details.explorer summary").click()
    inside = page.frame_locator("details.explorer iframe")
    inside.locator("#target-chips .chip").first.wait_for()
    assert asked[-1] == "/explorer/multi30k-de-en.html"
    assert not page.locator("details.explorer img").is_visible()


def test_the_search_finds_a_term_in_the_glossary(page, address):
    page.goto(f"{address}/search.html?q=简短惩罚")
    page.get_by_text("Search finished").wait_for()
    found = page.locator("#search-results li a")
    assert "glossary.html" in [
        a.get_attribute("href").split("?")[0].split("#")[0] for a in found.all()
    ]


@pytest.mark.parametrize("name", ["toy-de-en", "toy-en-zh", "multi30k-de-en", "cmn-en-zh"])
def test_the_explorer_of_a_bundled_model_opens(page, site, address, name):
    assert (site / "explorer" / f"{name}.html").stat().st_size < 6e6
    assert page.goto(f"{address}/explorer/{name}.html").ok
    page.wait_for_selector("html[data-ready]")
    links = [link.get_attribute("href") for link in page.locator("a[href]").all()]
    assert any(href.startswith("../notebooks/") for href in links)
    for href in links:
        assert page.request.get(urljoin(page.url, href)).ok, href


@pytest.mark.parametrize("name", ["index.html", "notebooks/10_decoding.html"])
def test_code_is_not_cut_off_beside_the_side_bars(page, address, name):
    page.goto(f"{address}/{name}")  # 1280 pixels wide
    widths = "pres => pres.map(pre => pre.scrollWidth - pre.clientWidth)"
    assert max(page.locator(".bd-article pre").evaluate_all(widths)) <= 0


@pytest.mark.parametrize("name", LOOKED_AT)
def test_a_page_fits_a_phone(page, address, name):
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(f"{address}/{name}")
    if name == ATTENTION:
        page.wait_for_function("() => MathJax.startup.promise.then(() => true)")
    if name.startswith("search"):  # results come one after the other
        page.get_by_text("Search finished").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
