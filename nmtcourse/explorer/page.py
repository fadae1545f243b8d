"""One HTML file of an explorer: the program in `web/`, its style, and the data of a run."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path

from nmtcourse.explorer.packing import WEB, learning, pack
from nmtcourse.outputs import PAGE
from nmtlib.errors import require
from nmtlib.files import stamp, write_output
from nmtlib.model.choices import require_expressible
from nmtlib.run import Run, find_run
from nmtlib.training.checkpoint import describe_run, read_checkpoint

BYTES_A_WEIGHT = 2.14  # two, of which one can be compressed, five digits for each four
REST = 200_000  # bytes of the program and the examples

STYLE = '<link rel="stylesheet" href="style.css">'
SCRIPT = '<script type="module" src="app.js" async></script>'  # not after what is not needed yet
PAYLOAD = '<script type="application/json" id="payload"></script>'
LEARNING = '<script type="application/json" id="learning"></script>'

IMPORT = re.compile(r'^import\s*\{([^}]*)\}\s*from\s*"(\.{1,2}/[\w./-]+)";\n', re.MULTILINE)
# No `let`, which could change after it was handed over.
EXPORT = re.compile(r"^export ((?:async )?(?:function\*?|class|const) (\w+))", re.MULTILINE)
COMMENT = re.compile(r"^[ \t]*(?://[^\n]*|/\*.*?\*/[ \t]*)\n", re.MULTILINE | re.DOTALL)


def explore(
    run: str | Path,
    out: str | Path,
    *,
    megabytes: float = 6.0,
    links: Mapping[str, str] | None = None,
    notebooks: str = "",
) -> Path:
    """Write the explorer of a run, or of a shipped model by its name, into one HTML file.

    The file needs no other and asks no server.  `links` are the names and addresses of pages with
    other models, `notebooks` is the address of a notebook, "{stem}" for its name.  An older page of
    ours is replaced; raises FileExistsError for another file and for a page that was edited,
    ValueError where the page would be larger than `megabytes`, or cannot compute the model or
    imitate its tokenizer, and as `Translator.load` does.
    """
    require(megabytes > 0, "megabytes", "greater than 0", megabytes)
    folder, out = find_run(run), Path(out)
    PAGE.require(out)
    require_expressible(describe_run(folder).settings.model, "explorer")  # before weights are read
    require_small(folder, megabytes)
    name = folder.folder.resolve().name
    data = pack(folder, name)
    data["links"] = [{"name": name, "href": href} for name, href in (links or {}).items()]
    page = build(data | {"notebooks": notebooks}, learning(name))
    size = len(page.encode("utf-8"))
    if size > megabytes * 1e6:
        raise too_large(folder, size, megabytes)
    write_output(out, page)
    return out


def require_small(run: Run, megabytes: float) -> None:
    """Raise ValueError where the weights alone would not fit, before they are packed."""
    saved = read_checkpoint(run.weights_file())
    about = saved.described()
    weights = 0
    for name, tensor in saved.tensors.items():
        if name.startswith("model."):
            weights += tensor.numel()
    if weights * 2 > megabytes * 1e6:
        codecs = sum(len(codec.to_json().encode()) for codec in (about.source, about.target))
        raise too_large(run, weights * BYTES_A_WEIGHT + codecs + REST, megabytes)


def too_large(run: Run, size: float, megabytes: float) -> ValueError:
    """What to do about a page of `size` bytes."""
    needed = math.ceil(size * 1.03 / 1e5) / 10
    return ValueError(
        f"{run.folder}: its page would take about {size / 1e6:.2f} MB, more than {megabytes:g} MB; "
        f"train a smaller model, or allow it with --megabytes {needed:g}: it then opens and "
        f"translates more slowly"
    )


def build(data: Mapping[str, object], later: str) -> str:
    """The page as text.  Raises ValueError where `web/` is not as this bundler expects it.

    `later` is JSON that a reader's browser gets after all that the first view needs.
    """
    page = (WEB / "index.html").read_text("utf-8")
    css = lean((WEB / "style.css").read_text("utf-8"))
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    parts = {
        STYLE: f"<style>\n{css}</style>",
        SCRIPT: f'<script type="module" async>\n{bundle(WEB / "app.js")}</script>',
        # "<" as an escape: no sentence can end the element that it stands in.
        PAYLOAD: PAYLOAD.replace("></", ">{}</".format(text.replace("<", "\\u003c"))),
        LEARNING: LEARNING.replace("></", ">{}</".format(later.replace("<", "\\u003c"))),
    }
    for tag, part in parts.items():
        require(page.count(tag) == 1, "index.html", f"with one {tag}", page.count(tag))
        page = page.replace(tag, part)
    start, end = page.split("\n", 1)
    return stamp(f"{start}\n", end)


def lean(code: str) -> str:
    """Code without indentation and without comments that have lines of their own."""
    return re.sub(r"^[ \t]+", "", COMMENT.sub("", code), flags=re.MULTILINE)


def bundle(entry: Path) -> str:
    """The modules that `entry` needs and itself, in one script.

    Each becomes a function of its own, so that modules may use the same names.  Raises ValueError
    for a circle of imports or a form of import or export that is not used here.
    """
    order: list[Path] = []
    visit(entry.resolve(), order, ())
    return "".join(as_function(path) for path in order)


def visit(path: Path, order: list[Path], path_here: tuple[Path, ...]) -> None:
    """Put a module into `order`, after those that it imports."""
    if path in path_here:
        circle = " → ".join(module.name for module in (*path_here, path))
        raise ValueError(f"modules import each other in a circle: {circle}")
    if path in order:
        return
    for _, target in IMPORT.findall(path.read_text("utf-8")):
        visit((path.parent / target).resolve(), order, (*path_here, path))
    order.append(path)


def as_function(path: Path) -> str:
    """A module as `const module_x = (() => { … return { exports }; })();`."""

    def import_to_const(match: re.Match[str]) -> str:
        names, target = match.groups()
        names = re.sub(r"\s+as\s+", ": ", " ".join(names.split()))
        return f"const {{ {names} }} = {variable((path.parent / target).resolve())};\n"

    code = path.read_text("utf-8")
    exported = ", ".join(name for _, name in EXPORT.findall(code))
    code = lean(EXPORT.sub(r"\1", IMPORT.sub(import_to_const, code)))
    odd = re.search(r"^(?:import|export)\b.*|</script|<!--", code, re.MULTILINE)
    require(odd is None, path.name, "in the forms that this bundler knows", odd and odd.group())
    start = f"// {path.relative_to(WEB.resolve()).as_posix()}\n"
    return f"{start}const {variable(path)} = (() => {{\n{code}return {{ {exported} }};\n}})();\n\n"


def variable(path: Path) -> str:
    """The name of a module in the bundle: `views/beam.js` is `module_views_beam`."""
    stem = path.relative_to(WEB.resolve()).with_suffix("").as_posix()
    return "module_" + re.sub(r"\W", "_", stem)
