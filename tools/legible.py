"""Pictures of a deck, large enough to be read from the last row: none with text under 12 pixels.

A figure of a notebook may be higher than a slide, which then shows it small.  Its smallest text is
that of its ticks (`SMALLEST` points), so the size of a picture and its dots an inch say how high
that text is on a slide.  A picture whose text would be too small is cut into bands, each a slide.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from PIL import Image

from nmtcourse.teaching.style import STYLE

SMALLEST = STYLE["xtick.labelsize"]  # points
READABLE = 12.0  # pixels on a screen of 1280 x 720
WIDTH, HEIGHT = 1144, 505  # pixels that slides.css leaves for a picture there
SEARCH = 0.15  # of a band: how far from its end a better place for the cut may be


def opened(data: str) -> Image.Image:
    """The picture that a cell stores as text."""
    return Image.open(io.BytesIO(base64.b64decode(data)))


def text_pixels(width: int, height: int, dots_an_inch: float) -> float:
    """How high the smallest text of a picture is on a slide, in pixels."""
    scale = min(WIDTH / width, HEIGHT / height)
    return SMALLEST * dots_an_inch / 72 * scale


def dots_an_inch(image: Image.Image) -> float:
    """The resolution of a picture, as matplotlib notes it."""
    return float(image.info["dpi"][0])


def bands_needed(image: Image.Image) -> int:
    """Into how many bands a picture has to be cut; 1 is the whole.

    Raises ValueError where the picture is too wide: no band would help.
    """
    width, height = image.size
    dots = dots_an_inch(image)
    if text_pixels(width, 1, dots) < READABLE:
        raise ValueError(
            f"a picture of {width} x {height} pixels is too wide for a slide: its smallest text "
            f"would be under {READABLE:g} pixels; choose another cell"
        )
    number = 1
    # A cut moves to the emptiest row near by, so a band can be larger than its share.
    while text_pixels(width, band_height(height, number), dots) < READABLE:
        number += 1
    return number


def band_height(height: int, number: int) -> int:
    """The most rows that one of several bands can have."""
    share = height / number
    return height if number == 1 else math.ceil(share * (1 + 2 * SEARCH))


def cut(image: Image.Image, number: int) -> Iterator[Image.Image]:
    """The bands of a picture from top to bottom, cut where fewest pixels are drawn."""
    grey = np.asarray(image.convert("L"), dtype=np.float64)
    # How much each row differs from white, with its neighbours: words are higher than a row.
    ink = np.convolve((255 - grey).sum(axis=1), np.ones(9), mode="same")
    share = image.height / number
    ends = [0]
    for band in range(1, number):
        first = round(share * (band - SEARCH))
        last = round(share * (band + SEARCH))
        ends.append(first + int(ink[first:last].argmin()))
    ends.append(image.height)
    for top, bottom in zip(ends, ends[1:], strict=False):
        yield image.crop((0, top, image.width, bottom))


def stored(image: Image.Image, dots: float) -> str:
    """A picture as the text that a cell stores."""
    drawn = io.BytesIO()
    image.save(drawn, "png", dpi=(dots, dots), optimize=True)
    return base64.b64encode(drawn.getvalue()).decode("ascii")


def bands(output: dict[str, Any]) -> list[dict[str, Any]]:
    """An output with a picture as one or more outputs, each large enough to be read."""
    image = opened(output["data"]["image/png"])
    number = bands_needed(image)
    if number == 1:
        return [output]
    dots = dots_an_inch(image)
    parts = [stored(band, dots) for band in cut(image, number)]
    return [{**output, "data": {**output["data"], "image/png": part}} for part in parts]
