"""The catalogue of silent bugs: mistakes that run, and often train, to plant in the real code.

>>> from nmtlib.model import attention
>>> with plant("causal-mask-off-by-one"):
...     print(attention.causal_mask(3)[0, 0].int().tolist())
[[1, 1, 0], [1, 1, 1], [1, 1, 1]]
>>> print(get("causal-mask-off-by-one").diff())  # doctest: +ELLIPSIS
--- nmtlib/model/attention.py  causal_mask
+++ nmtlib/model/attention.py  causal_mask
@@
...
-    return full.tril()[None, None]  # (1, 1, T, T)
+    return full.tril(diagonal=1)[None, None]  # (1, 1, T, T)
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from nmtcourse.bugs.bug import Bug, read_bugs
from nmtcourse.bugs.planting import edited
from nmtlib.errors import did_you_mean

__all__ = ["BUGS", "Bug", "edited", "get", "plant"]

BUGS: list[Bug] = sorted(
    (bug for path in Path(__file__).parent.glob("*.toml") for bug in read_bugs(path)),
    key=lambda bug: bug.number,
)


def get(key: str) -> Bug:
    """The bug of that key.  Raises ValueError for an unknown one, naming the closest."""
    bugs = {bug.key: bug for bug in BUGS}
    if key not in bugs:
        hint = did_you_mean(str(key), bugs) or "; the keys are in nmtcourse.bugs.BUGS"
        raise ValueError(f"there is no bug {key!r} in the catalogue{hint}")
    return bugs[key]


def plant(key: str) -> AbstractContextManager[None]:
    """Run a block with one bug in the real code, as `Bug.plant`; afterwards all is clean again."""
    return get(key).plant()
