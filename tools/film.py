"""Take the pictures of the explorer: figures/explorer.webp, in which it translates, and .png.

    python tools/film.py            # needs Chromium and playwright
    python tools/film.py --check    # are the stored ones of today's page? (needs neither)

The film is the page of a shipped model as another page embeds it, one frame for each word that
the model generates, at the page's own pace.
"""

from __future__ import annotations

import io
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import stamp
from PIL import Image

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "figures"
SECONDS = 6.0  # one round of the film
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
FILM = (
    "multi30k-de-en",
    "embed=1&theme=light&lang=en&sentence=Ein Mann repariert vor seinem Haus ein altes Fahrrad.",
)
STILL = (
    "toy-de-en",
    "theme=light&lang=en&layer=1&head=1&row=7&sentence=Tom hat am Montag keine Tasche gekauft .",
)
# What a viewer cannot use, and the milliseconds of a page that is being photographed.
HIDDEN = """#tries, #another, #facts, .id { display: none !important }
.chips::before { color: transparent !important }
#sentence #input, #sentence .translation { min-height: 0 }"""


def pace() -> int:
    """The milliseconds that the page gives to a word while it plays."""
    code = (ROOT / "nmtcourse" / "explorer" / "web" / "views" / "picture.js").read_text("utf-8")
    return int(re.search(r"PACE = (\d+)", code)[1])


def digests() -> dict[Path, str]:
    """What each picture is made from: this file, the program of the page, a model."""
    from nmtcourse.explorer.page import build
    from nmtlib.run import find_run

    parts, made = [Path(__file__).read_bytes(), build({}).encode()], {}
    for picture, (name, _) in {"explorer.webp": FILM, "explorer.png": STILL}.items():
        files = sorted(path for path in find_run(name).folder.iterdir() if path.is_file())
        made[FIGURES / picture] = stamp.digest(*parts, *(path.read_bytes() for path in files))
    return made


def opened(browser: Any, address: tuple[str, str], folder: Path, **size: int) -> Any:
    """The page of a shipped model in the given state."""
    from nmtcourse.explorer.page import explore

    name, state = address
    page = explore(name, folder / f"{name}.html")
    view = browser.new_page(viewport=size, device_scale_factor=1.5)
    view.goto(f"{page.as_uri()}#{state}")
    view.wait_for_selector("html[data-ready]")
    return view


def frames(view: Any) -> list[Image.Image]:
    """What the page shows after each word, from the first to the last."""
    view.add_style_tag(content=HIDDEN)
    view.clock.install(time=0)
    view.clock.pause_at(1000)  # from here on a picture takes no time
    view.locator("#play").click()
    found = []
    for _ in range(view.locator("#target-chips .chip").count()):
        photo = Image.open(io.BytesIO(view.locator("#sentence").screenshot())).convert("RGB")
        found.append(photo.point([round(value / 5) * 5 for value in range(256)] * 3))
        view.clock.run_for(pace())
    return found


def main() -> int:
    """Write both pictures, or compare what they were made from with what there is today."""
    if "--check" in sys.argv[1:]:
        return stamp.check(digests())
    from playwright.sync_api import sync_playwright

    exif = {path.name: stamp.marked(digest) for path, digest in digests().items()}
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        start = playwright.chromium.launch
        browser = start(executable_path=shutil.which("chromium"), args=FLAGS)
        first, *rest = frames(opened(browser, FILM, Path(folder), width=920, height=700))
        times = [pace()] * len(rest)
        times.append(round(1000 * SECONDS) - sum(times))  # the last frame stays
        film = {"save_all": True, "append_images": rest, "duration": times, "loop": 0}
        film |= {"lossless": True, "method": 6, "exif": exif["explorer.webp"]}
        first.save(FIGURES / "explorer.webp", **film)
        still = opened(browser, STILL, Path(folder), width=1400, height=900)
        photo = Image.open(io.BytesIO(still.screenshot(full_page=True))).convert("RGB")
        colours = photo.quantize(256)
        colours.save(FIGURES / "explorer.png", optimize=True, exif=exif["explorer.png"])
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
