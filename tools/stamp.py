"""The mark in a picture that tells what it was made from: `--check` compares it with today's."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from PIL import Image

DESCRIPTION = 0x010E  # the tag of Exif that holds the mark


def digest(*parts: bytes) -> str:
    """A short name of some bytes."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(hashlib.sha256(part).digest())
    return whole.hexdigest()[:16]


def marked(digest: str) -> Image.Exif:
    """What to save a picture with."""
    exif = Image.Exif()
    exif[DESCRIPTION] = digest
    return exif


def mark_of(picture: Path) -> str:
    """The mark of a stored picture, empty where it has none."""
    with Image.open(picture) as image:
        return image.getexif().get(DESCRIPTION, "")


def check(made: dict[Path, str]) -> int:
    """Name the pictures whose mark is not the digest of today; the exit status."""
    stale = [picture.name for picture, digest in made.items() if mark_of(picture) != digest]
    for name in stale:
        print(f"figures/{name} is out of date: run python {sys.argv[0]}")
    return len(stale)
