"""Write the bundled corpora from the grammar into the data files that `nmtlib.data` reads.

    python -m nmtcourse.toy.bundle

Each line is source, target and gold alignment (`0-0 1-2`, from 0), with a tab between them.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

from nmtcourse.toy import TOY_CORPORA, load_toy
from nmtlib.data.corpora import BUNDLED
from nmtlib.data.corpus import SPLITS, Pair
from nmtlib.files import write_atomically


def text_of(pairs: Sequence[Pair]) -> str:
    """The lines of a split.

    >>> text_of([Pair("ein Hund", "a dog", ((0, 0), (1, 1)))])
    'ein Hund\\ta dog\\t0-0 1-1\\n'
    """
    rows = ((p.source, p.target, " ".join(f"{s}-{t}" for s, t in p.alignment)) for p in pairs)
    return "".join("\t".join(row) + "\n" for row in rows)


def write(folder: Path = BUNDLED) -> None:
    """Write every split of every corpus; the same bytes each time with the same zlib."""
    for name in TOY_CORPORA:
        for split in SPLITS:
            text = text_of(getattr(load_toy(name), split))
            packed = gzip.compress(text.encode("utf-8"), mtime=0)
            write_atomically(folder / f"{name}.{split}.tsv.gz", packed)


if __name__ == "__main__":
    write()
