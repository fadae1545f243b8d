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
    if not (node := which("node")):
        return False
    pages = {page: page.read_text("utf-8") for page in out.rglob("*.html")}
    pages = {page: text for page, text in pages.items() if MATHJAX.search(text)}
    asked = [
        [[html.unescape(f[3]), f[2] == "["] for f in FORMULA.findall(t)] for t in pages.values()
    ]
    command = [node, str(Path(__file__).with_name("formulas.cjs")), str(mathjax)]
    text = json.dumps(asked)
    drawn = subprocess.run(command, input=text, text=True, stdout=subprocess.PIPE, check=True)
    for (page, text), found in zip(pages.items(), json.loads(drawn.stdout), strict=True):
        svgs = iter(found["svgs"])

        def picture(formula: re.Match[str], svgs: Iterator[str] = svgs) -> str:
            label = f'role="img" aria-label="{html.escape(html.unescape(formula[4]).strip())}"'
            return formula[1] + next(svgs).replace('role="img"', label)

        text = MATHJAX.sub("", FORMULA.sub(picture, text))
        glyphs = f'<svg style="display: none" aria-hidden="true">{found["glyphs"]}</svg></body>'
        page.write_text(text.replace("</body>", glyphs), "utf-8")
    return True


def drop_unused(out: Path, *styles: Path) -> None:
    """Take rules for classes out of style sheets that no page and no script names."""
    classes = [
        name
        for page in out.rglob("*.html")
        for names in re.findall(r'class="([^"]*)"', page.read_text("utf-8"))
        for name in names.split()
    ]
    scripts = (
        re.findall(r"[A-Za-z][\w-]*", path.read_text("utf-8"))
        for path in out.glob("_static/**/*.js")
    )
    used = {*classes, *(word for words in scripts for word in words)}

    def kept(rule: re.Match[str]) -> str:
        selectors = [rule[1]] if "(" in rule[1] else rule[1].split(",")
        return rule[0] if any(used.issuperset(CLASS.findall(s)) for s in selectors) else ""

    for style in styles:
        text = RULE.sub(kept, style.read_text("utf-8"))
        style.write_text(re.sub(r"@media[^{}]*\{\s*\}", "", text), "utf-8")
