"""The catalogue of silent bugs: mistakes that run, and often train, planted one by one in the real
code.

>>> from nmtlib.model import masks
>>> with plant("causal-mask-off-by-one"):
...     print(masks.causal_mask(3)[0, 0].int().tolist())
[[1, 1, 0], [1, 1, 1], [1, 1, 1]]
>>> print(get("causal-mask-off-by-one").diff())  # doctest: +ELLIPSIS
--- nmtlib/model/masks.py  causal_mask
+++ nmtlib/model/masks.py  causal_mask
@@
...
-    return full.tril(diagonal=past)[None, None]  # (1, 1, T, past + T)
+    return full.tril(diagonal=past + 1)[None, None]  # (1, 1, T, past + T)
"""

from __future__ import annotations

import difflib
from contextlib import AbstractContextManager
from pathlib import Path

from nmtlib.checks.bugs.bug import Bug, read_bugs
from nmtlib.checks.bugs.planting import edited

__all__ = ["BUGS", "Bug", "edited", "get", "plant"]

BUGS: list[Bug] = sorted(
    (bug for path in Path(__file__).parent.glob("*.toml") for bug in read_bugs(path)),
    key=lambda bug: bug.number,
)


def get(key: str) -> Bug:
    """The bug of that key.  Raises ValueError for an unknown one, naming the closest."""
    for bug in BUGS:
        if bug.key == key:
            return bug
    near = difflib.get_close_matches(str(key), [bug.key for bug in BUGS], n=1, cutoff=0.3)
    hint = f"did you mean {near[0]!r}?" if near else "the keys stand in nmtlib.checks.bugs.BUGS"
    raise ValueError(f"there is no bug {key!r} in the catalogue; {hint}")


def plant(key: str) -> AbstractContextManager[None]:
    """Run a block with one bug in the real code, as `Bug.plant`; afterwards all is clean again."""
    return get(key).plant()
