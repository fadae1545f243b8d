"""Every cause that a notebook names has an arm of an experiment that could have refuted it.

`notebooks/claims/NN.toml` lists claims: `says`, words of the notebook, or `answer`, the key of a
question; and what holds it: `cell` and `arm`, a code cell and what its code or output shows of the
control; `file` and `arm`, recorded results; `repository` to `lines`, what
another author wrote; `cites`, a work that the notebook names; or `follows`,
the argument where definitions alone hold it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from edition import ASKED, NOTEBOOKS, ROOT, read, source

CLAIMS = NOTEBOOKS / "claims"
CAUSE = re.compile(r"(?i)\bbecause\b|\bthat is why\b|\btherefore\b|\bthe reason is\b")
SENTENCE = re.compile(r"(?<=[.?!:])[)*]*\s+(?=[A-Z*(`$\d])|\n\s*\n|\n\s*(?:-|\d\.) ")
NUMBERS = [path.stem for path in sorted(CLAIMS.glob("*.toml"))]
OTHERS = {"repository", "commit", "file", "lines"}  # where another author says or does it
HELD = ({"cell", "arm"}, {"file", "arm"}, {"cites"}, {"follows"}, OTHERS, {"document"})
ABOUT = re.compile(r"\b[Tt]he report(?:'s (?:loader|batches)| says| has)|published notebook")


def claims(number: str) -> list[dict[str, str]]:
    return read(CLAIMS / f"{number}.toml")["claim"]


def findings(number: str, listed: list[dict[str, str]]) -> Iterator[str]:
    """Causes that no claim quotes, and claims that nothing holds."""
    (path,) = [path for f in ("", "deeper/") for path in NOTEBOOKS.glob(f"{f}{number}_*.ipynb")]
    cells = {cell["id"]: cell for cell in json.loads(path.read_text("utf-8"))["cells"]}
    prose = "\n\n".join(source(c) for c in cells.values() if c["cell_type"] == "markdown")
    sentences = [_flat(one) for one in SENTENCE.split(re.sub(r"(?s)```.*?```", "", prose))]
    said = [_flat(claim["says"]) for claim in listed if "says" in claim]
    claiming = [s for s in sentences if CAUSE.search(s) or number > "12" and ABOUT.search(s)]
    unheld = [s for s in claiming if not any(one in s or s in one for one in said)]
    unheld += read(ASKED / f"{number}.toml").keys() - {claim.get("answer") for claim in listed}
    yield from (f"{number}: no arm is named for: {one}" for one in unheld)
    for claim in listed:
        where, arm = cells.get(claim.get("cell", ""), {}), claim.get("arm", claim.get("cites", ""))
        shown = json.dumps([where.get("source"), where.get("outputs")], ensure_ascii=False)
        here = "file" in claim and "repository" not in claim
        shown += (ROOT / claim["file"]).read_text("utf-8") if here else ""
        shown += prose if "cites" in claim else ""
        held = claim.keys() - {"says", "answer"} in HELD and _flat(arm) in _flat(shown)
        if not held or _flat(claim.get("says", "")) not in _flat(prose):
            yield f"{number}: not said, or not held by what it names: {claim}"


def _flat(text: str) -> str:
    """On one line, as Markdown shows it and as JSON stores it."""
    return " ".join(re.sub(r'\\n",?\s*"?|\\(?=")', " ", text).replace('"', "").split())


def test_every_cause_has_its_arm():
    for number in NUMBERS:
        assert list(findings(number, claims(number))) == []


def test_a_cause_without_its_arm_is_noticed():
    kept = claims(number := NUMBERS[0])
    for index, claim in enumerate(kept):
        others = kept[:index] + kept[index + 1 :]
        assert "answer" not in claim or list(findings(number, others)), claim
        missing = {
            key: text if key in {*OTHERS, "follows", "document"} else f"{text} not"
            for key, text in claim.items()
        }
        assert list(findings(number, [*others, missing])), claim
