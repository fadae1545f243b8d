"""What Sphinx is told: `docs/site/build.py` calls it on the pages that it has gathered."""

import json
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from shutil import copy, rmtree

from markupsafe import Markup
from sphinx.application import Sphinx
from sphinx.locale import _ as gettext
from sphinx.search.en import SearchEnglish

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))
import gather  # noqa: E402, F401  (myst_heading_slug_func)
import glossary  # noqa: E402
import light  # noqa: E402

project = "nmtlib"
author = "The nmtlib maintainers"
extensions = ["myst_nb"]
exclude_patterns = ["README.md"]  # the front page and others include its parts
smartquotes = False  # --set is two hyphens
html_theme = "sphinx_book_theme"
html_title = "nmtlib"
templates_path = ["templates"]
html_static_path = ["static", str(ROOT / "nmtcourse" / "teaching" / "fonts")]
html_static_path += map(str, (ROOT / "figures").glob("film*.webp"))
html_static_path += [str(ROOT / "figures" / "explorer.png")]  # what a link to the site shows
html_favicon = str(HERE / "static" / "favicon.svg")
html_context = {"default_mode": "auto"}
html_css_files = ["site.css"]
html_js_files = [("search.js", {"defer": "defer"})]
html_copy_source = True  # the notebooks to download
html_sourcelink_suffix = ""
html_show_copyright = html_show_sphinx = False
pygments_style = "default"
html_theme_options = {
    "home_page_in_toc": False,
    "navbar_persistent": [],  # the side bar has the search
    "show_navbar_depth": 1,
    "show_toc_level": 2,
    "use_download_button": False,  # each notebook has its own line of links
    "use_fullscreen_button": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
mathjax_path = "mathjax/tex-svg-full.js"  # one file, which asks for no other
mathjax3_config = {"options": {"enableMenu": False}}
myst_enable_extensions = ["amsmath", "dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 4
myst_heading_slug_func = "gather.slug"
nb_execution_mode = "off"
nb_merge_streams = True
nb_ipywidgets_js = {}  # else a script from elsewhere
nb_render_markdown_format = "myst"


ICONS = r"\.fa-[\w-]+(?:,\.fa-[\w-]+)*\{--fa:[^}]*\}|@font-face\{[^}]*Font ?Awesome[^}]*\}"


def finish(app: Sphinx, error: Exception | None) -> None:
    """Draw the formulas, add the stored notebooks, and take out what no page needs."""
    if error:
        return
    out = Path(app.outdir)
    package = Path(find_spec("sphinx-mathjax-offline").origin).parent / "static"
    if not light.draw_formulas(out, package / "mathjax"):
        (out / "_static" / "mathjax").mkdir(exist_ok=True)
        copy(package / mathjax_path, out / "_static" / "mathjax")
    (out / "_static" / "scripts" / "fontawesome.js").write_text("// site.css draws the icons\n")
    rmtree(out / "_static" / "vendor" / "fontawesome" / "webfonts")
    # theme.css only imports basic.css: with its text, the page needs one request less.
    basic = (out / "_static" / "basic.css").read_text("utf-8")
    first = out / "_static" / "styles" / "theme.css"
    first.write_text(basic.replace("url(", "url(../"), "utf-8")
    theme = out / "_static" / "styles" / "pydata-sphinx-theme.css"
    theme.write_text(re.sub(ICONS, "", theme.read_text("utf-8")), "utf-8")
    light.drop_unused(
        out, *out.glob("_static/styles/*-theme.css"), *out.glob("_static/mystnb.*.css")
    )
    for unused in out.glob("_static/**/*.map"):
        unused.unlink()
    for page in out.glob("_sources/notebooks/**/*.ipynb"):
        copy(ROOT / page.relative_to(out / "_sources"), page)


class Search(SearchEnglish):
    """English words, and Chinese pairs of characters: a dictionary would cut them in two ways."""

    js_splitter_code = Markup(f"const OTHER_NAMES = {json.dumps(glossary.other_names())};")

    def split(self, text: str) -> list[str]:
        """The words of a text; `splitQuery` in search.js does the same to a query."""
        pairs = re.findall(r"(?=([\u3400-\u9fff]{2}))", text)
        return pairs + re.findall(r"[^\W\u3400-\u9fff]+", text)


def one_language(tree: object, chinese: bool) -> str:
    """The side bar without the pages of the other language."""
    parts = re.split(r'(?=<p aria-level="2" class="caption")', str(tree))
    start = ""
    if not parts[0].startswith("<p aria-level"):
        start = parts.pop(0)  # what comes before the first group of pages
    groups = [part for part in parts if (">中文<" in part) == chinese]
    return start + "".join(groups).replace(">中文<", ">课程<")


def speak(app: Sphinx, page: str, template: str, context: dict, tree: object) -> None:
    """Say in the head of a Chinese page that it is one, and what stands around its text."""
    bar = context["generate_toctree_html"]
    context["generate_toctree_html"] = lambda *a, **b: one_language(bar(*a, **b), "/zh/" in page)
    context["base"] = app.config.html_baseurl
    if "/zh/" in page:
        words = {"previous": "上一页", "next": "下一页"}
        context["language"] = "zh-CN"
        context["theme_toc_title"] = "目录"
        context["_"] = lambda text: words.get(text.removesuffix(" page"), gettext(text))


def setup(app: Sphinx) -> None:
    """Connect the functions above to the steps of the build."""
    app.add_search_language(Search)
    app.connect("html-page-context", speak, priority=900)  # after the theme
    app.connect("build-finished", finish)
