"""Make nmtlib-CJK.otf, the Chinese characters that the course may show, from Noto Sans CJK SC.

    python benchmarks/make_font_subset.py NotoSansCJKsc-Regular.otf

It needs fontTools (matplotlib brings it) and the corpus cmn-en-zh.  The same font gives the same
bytes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from nmtcourse.teaching.style import CJK_FONT
from nmtlib.data import corpora
from nmtlib.data.corpus import SPLITS

FAMILY = "nmtlib CJK"  # the original name belongs to the original font
MOST_BYTES = 1_000_000
PUNCTUATION = "　、。〃々〈〉《》「」『』【】〔〕〖〗—…·“”‘’！（），．：；？～￥％＋－＝／"
COPYRIGHT, LICENCE, LICENCE_ADDRESS = 0, 13, 14  # entries of the name table that stay as they are


def characters() -> set[int]:
    """The code points to keep: Mandarin corpora, punctuation, the 3,755 commonest of GB 2312."""
    kept = {*PUNCTUATION, *_common()}
    for name in ("toy-en-zh", "cmn-en-zh"):
        corpus = corpora.load(name)
        pairs = (pair for split in SPLITS for pair in getattr(corpus, split))
        kept.update(character for pair in pairs for character in pair.target)
    return {ord(character) for character in kept if ord(character) > 0x7F}


def _common() -> Iterator[str]:
    """The first level of the Chinese standard GB 2312: the characters of everyday text."""
    for row in range(0xB0, 0xD8):
        for cell in range(0xA1, 0xFF if row < 0xD7 else 0xFA):
            yield bytes([row, cell]).decode("gb2312")


def make(source: Path, target: Path = CJK_FONT) -> int:
    """Write the subset of the font file `source` and return its size in bytes.

    Raises ValueError, and writes nothing, if it would have more than MOST_BYTES.
    """
    from io import BytesIO

    from fontTools import subset
    from fontTools.ttLib import TTFont

    options = subset.Options(layout_features=[], hinting=False, notdef_outline=True, name_IDs=["*"])
    # No vertical text, no variants.
    options.drop_tables += ["BASE", "GPOS", "GSUB", "VORG", "vhea", "vmtx", "DSIG"]
    font = TTFont(source, recalcTimestamp=False)
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=characters())
    subsetter.subset(font)
    _rename(font)
    font.save(file := BytesIO())
    size = len(file.getvalue())
    if size > MOST_BYTES:
        raise ValueError(f"the subset has {size} bytes, more than {MOST_BYTES}; keep less of it")
    return target.write_bytes(file.getvalue())


def _rename(font) -> None:
    """Give the font a family of its own, in the name table and in the table of outlines."""
    names, postscript = font["name"], FAMILY.replace(" ", "-")
    kept = {entry: names.getDebugName(entry) for entry in (COPYRIGHT, LICENCE, LICENCE_ADDRESS)}
    version = f"Version {font['head'].fontRevision:.3f}, subset"
    texts = (FAMILY, "Regular", f"{postscript};subset", FAMILY, version, postscript)
    ours = dict(enumerate(texts, start=1))
    names.names = []
    for entry, text in sorted({**kept, **ours}.items()):
        # Windows, Unicode, American English: what every program reads.
        names.setName(text, entry, 3, 1, 0x409)
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
    parser.add_argument("--target", type=Path, default=CJK_FONT)
    arguments = parser.parse_args()
    print(f"{arguments.target}: {make(arguments.source, arguments.target)} bytes")
