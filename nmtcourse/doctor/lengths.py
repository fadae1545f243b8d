"""How long the sentences are, and what that does to training and to scores."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nmtcourse.doctor.kinds import Finding
from nmtcourse.doctor.overlap import finding_about
from nmtcourse.doctor.survey import Survey
from nmtcourse.formats.languages import UNSPACED, script_of, unspaced

FEW = 5_000
FAR = 4.0  # times as long as usual, or a fourth
PERCENTILES = (1, 25, 50, 75, 99)


def judge_lengths(survey: Survey, tags: tuple[str, str]) -> Iterator[Finding]:
    """Pairs of strange lengths, and a split too small or too short to tell much."""
    kept, name = survey.kept, survey.split.name
    if not kept.any():
        return
    source, target = (survey.numbers[f"chars_{side}"] for side in "st")
    ratio = np.log((target + 3.0) / (source + 3.0))
    far = kept & (abs(ratio - np.median(ratio[kept])) > np.log(FAR))
    if far.any():
        yield finding_about(survey, "ratio", far)
    if name == "train" and kept.sum() < FEW:
        yield Finding("few", name, int(kept.sum()))
    if name == "train":
        return
    if unspaced([pair[1] for pair in survey.sample], tags[1]):
        yield Finding("unspaced", name, int(kept.sum()), len(survey))
    elif script_of(tags[1]) not in UNSPACED and (survey.numbers["words_t"][kept] < 4).all():
        yield Finding("bleu", name, int(kept.sum()), len(survey))


def percentiles(survey: Survey) -> list[str]:
    """The lengths of both sides and their ratio, in a line each."""
    good = survey.kept
    if not good.any():
        return []
    rows = []
    for word, unit in (("words", "words"), ("chars", "characters")):
        for side in ("source", "target"):
            values = survey.numbers[f"{word}_{side[0]}"][good]
            rows.append((f"{unit} of the {side}", np.percentile(values, PERCENTILES)))
    ratio = survey.numbers["chars_t"][good] / np.maximum(survey.numbers["chars_s"][good], 1)
    rows.append(("characters, target / source", np.percentile(ratio, PERCENTILES)))
    head = "".join(f"{p:>8}%" for p in PERCENTILES)
    return [f"  {'percentiles':<28}{head}"] + [
        f"  {name:<28}" + "".join(f"{value:>9.4g}" for value in values) for name, values in rows
    ]
