"""Make the pages light: formulas drawn once, and of the theme's styles those that a page uses."""

from __future__ import annotations

import html
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from shutil import which

FORMULA = re.compile(
    r'(?s)(<(span|div) class="math notranslate nohighlight">)\s*\\([(\[])(.*?)\\[)\]](?=</\2>)'
)
MATHJAX = re.compile(
    r"(?s)\s*<script>window\.MathJax = .*?</script>\s*<script [^>]*mathjax/[^>]*></script>"
)
RULE = re.compile(r"([^{}]*)\{[^{}]*\}")
CLASS = re.compile(r"\.([A-Za-z][\w-]*)")


def draw_formulas(out: Path, mathjax: Path) -> bool:
    """Draw the formulas of all pages as SVG; False without node: then each browser draws them."""
    node = which("node")
    if not node:
        return False
    pages = {}
    for page in out.rglob("*.html"):
        text = page.read_text("utf-8")
        if MATHJAX.search(text):
            pages[page] = text
    # For each page its formulas, each with whether it is displayed: [["a^2", false], …]
    formulas = []
    for text in pages.values():
        of_page = []
        for _, _, bracket, formula in FORMULA.findall(text):
            of_page.append([html.unescape(formula), bracket == "["])
        formulas.append(of_page)
    command = [node, str(Path(__file__).with_name("formulas.cjs")), str(mathjax)]
    drawn = subprocess.run(
        command, input=json.dumps(formulas), text=True, stdout=subprocess.PIPE, check=True
    )
    for (page, text), drawing in zip(pages.items(), json.loads(drawn.stdout), strict=True):
        svgs = iter(drawing["svgs"])

        def picture(formula: re.Match[str], svgs: Iterator[str] = svgs) -> str:
            label = f'role="img" aria-label="{html.escape(html.unescape(formula[4]).strip())}"'
            return formula[1] + next(svgs).replace('role="img"', label)

        text = MATHJAX.sub("", FORMULA.sub(picture, text))
        glyphs = f'<svg style="display: none" aria-hidden="true">{drawing["glyphs"]}</svg></body>'
        page.write_text(text.replace("</body>", glyphs), "utf-8")
    return True


def drop_unused(out: Path, *styles: Path) -> None:
    """Take rules for classes out of style sheets that no page and no script names."""
    used: set[str] = set()
    for page in out.rglob("*.html"):
        for names in re.findall(r'class="([^"]*)"', page.read_text("utf-8")):
            used.update(names.split())
    for script in out.glob("_static/**/*.js"):  # any word may be the class of what it makes
        used.update(re.findall(r"[A-Za-z][\w-]*", script.read_text("utf-8")))

    def filter_rule(rule: re.Match[str]) -> str:
        selectors = rule[1].split(",")
        if "(" in rule[1]:  # a comma may be inside, as in :is(a, b)
            selectors = [rule[1]]
        for selector in selectors:
            if used.issuperset(CLASS.findall(selector)):
                return rule[0]
        return ""

    for style in styles:
        text = RULE.sub(filter_rule, style.read_text("utf-8"))
        style.write_text(re.sub(r"@media[^{}]*\{\s*\}", "", text), "utf-8")
