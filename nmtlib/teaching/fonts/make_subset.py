"""Make nmtlib-CJK.otf, the Chinese characters that the course may show, from the full Noto Sans CJK
SC.

    python nmtlib/teaching/fonts/make_subset.py NotoSansCJKsc-Regular.otf

needs fontTools (matplotlib brings it) and the corpus cmn-en-zh.  The same font gives the same
bytes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from nmtlib.data import corpora
from nmtlib.data.corpus import SPLITS

FAMILY = "nmtlib CJK"  # the original name belongs to the original font
TARGET = Path(__file__).with_name("nmtlib-CJK.otf")
MOST_BYTES = 1_000_000
PUNCTUATION = "　、。〃々〈〉《》「」『』【】〔〕〖〗—…·“”‘’！（），．：；？～￥％＋－＝／"
COPYRIGHT, LICENCE, LICENCE_ADDRESS = 0, 13, 14  # entries of the name table that stay as they are


def characters() -> set[int]:
    """The code points to keep: those of the Mandarin corpora, the 3,755 commonest of GB 2312, and
    punctuation.
    """
    kept = {*PUNCTUATION, *_common()}
    for name in ("toy-en-zh", "cmn-en-zh"):
        corpus = corpora.load(name)
        kept.update(
            character
            for split in SPLITS
            for pair in getattr(corpus, split)
            for character in pair.target
        )
    return {ord(character) for character in kept if ord(character) > 0x7F}


def _common() -> Iterator[str]:
    """The first level of the Chinese standard GB 2312: the characters of everyday text."""
    for row in range(0xB0, 0xD8):
        for cell in range(0xA1, 0xFF if row < 0xD7 else 0xFA):
            yield bytes([row, cell]).decode("gb2312")


def make(source: Path, target: Path = TARGET) -> int:
    """Write the subset of the font file `source` and return its size in bytes.

    Raises ValueError, and writes nothing, if it would have more than MOST_BYTES.
    """
    from io import BytesIO

    from fontTools import subset
    from fontTools.ttLib import TTFont

    options = subset.Options(layout_features=[], hinting=False, notdef_outline=True, name_IDs=["*"])
    options.drop_tables += [
        "BASE",
        "GPOS",
        "GSUB",
        "VORG",
        "vhea",
        "vmtx",
        "DSIG",
    ]  # no vertical text, no variants
    font = TTFont(source, recalcTimestamp=False)
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=characters())
    subsetter.subset(font)
    _rename(font)
    font.save(data := BytesIO())
    if len(data.getvalue()) > MOST_BYTES:
        raise ValueError(
            f"the subset has {len(data.getvalue())} bytes, expected at most {MOST_BYTES}; keep fewer characters"
        )
    return target.write_bytes(data.getvalue())


def _rename(font) -> None:
    """Give the font a family of its own, in the name table and in the table of outlines."""
    names, postscript = font["name"], FAMILY.replace(" ", "-")
    kept = {entry: names.getDebugName(entry) for entry in (COPYRIGHT, LICENCE, LICENCE_ADDRESS)}
    version = f"Version {font['head'].fontRevision:.3f}, subset"
    ours = {
        1: FAMILY,
        2: "Regular",
        3: f"{postscript};subset",
        4: FAMILY,
        5: version,
        6: postscript,
    }
    names.names = []
    for entry, text in sorted({**kept, **ours}.items()):
        names.setName(
            text, entry, 3, 1, 0x409
        )  # Windows, Unicode, American English: what every program reads
    outlines = font["CFF "].cff
    outlines.fontNames = [postscript]
    top = outlines.topDictIndex[0]
    top.FullName = top.FamilyName = FAMILY
    top.Notice = kept[COPYRIGHT]
    for number, part in enumerate(top.FDArray):
        part.FontName = f"{postscript}-{number}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path, help="NotoSansCJKsc-Regular.otf")
    parser.add_argument("--target", type=Path, default=TARGET)
    arguments = parser.parse_args()
    print(f"{arguments.target}: {make(arguments.source, arguments.target)} bytes")
