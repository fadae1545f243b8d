"""The cleaned copy of a corpus: both sides of each split together, settings, and a log."""

from __future__ import annotations

import json
import random
import shlex
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TextIO

import numpy as np

from nmtcourse.doctor.diagnosis import Diagnosis
from nmtcourse.doctor.kinds import BY_HAND
from nmtcourse.doctor.opening import Row
from nmtcourse.doctor.survey import Survey
from nmtcourse.doctor.texts import defects, is_one_element
from nmtcourse.formats.languages import is_tag, language_of_country
from nmtlib.data.corpus import Pair
from nmtlib.files import new_folder, open_new, text_lines, write_atomically
from nmtlib.settings import language_of

LOG = "log.jsonl"
SETTINGS = "own.toml"
SEED = 1
SIDES = ("source", "target")
Files = dict[str, list[TextIO]]


def write_cleaned(diagnosis: Diagnosis, folder: Path, held_out: int = 0) -> list[str]:
    """Write the cleaned copy into a new folder, and return what was done, in lines.

    Each split becomes two files with a sentence a line.  `held_out` pairs each are drawn from train
    for validation and test where there is neither.  `log.jsonl` has a line for each pair that was
    changed, dropped or exchanged, with its text before and after.  Raises FileExistsError for a
    folder that holds something, ValueError where no pair would be left or held out, or an encoding
    is undecided.
    """
    plan = {name: survey for name, survey in diagnosis.surveys.items() if survey.kept.any()}
    require_decided(diagnosis, "train" in plan)
    drawn = hold_out(diagnosis, held_out) if held_out else {}
    tags = [right_tag(tag) for tag in diagnosis.tags]
    ends = [language_of(tag) or side for tag, side in zip(tags, SIDES, strict=True)]
    ends = ends if ends[0] != ends[1] else list(SIDES)
    names = [*plan, *(name for name in ("validation", "test") if drawn)]
    with new_folder(folder) as part:
        with ExitStack() as stack:
            sides: Files = {
                name: [stack.enter_context(open_new(part / f"{name}.{end}")) for end in ends]
                for name in names
            }
            log = stack.enter_context(open_new(part / LOG))
            log.writelines(line_of(entry) for entry in decoded(diagnosis))
            written = dict.fromkeys(names, 0)
            lines = [write_split(diagnosis, name, sides, drawn, log, written) for name in plan]
        if empty := [name for name in names if not written[name]]:
            raise ValueError(why_empty(diagnosis, empty[0]))
        # The settings follow the pairs that were written, so these are read again.
        settings = [*toml(diagnosis, names, ends), *plan_of(part, ends, written["train"])]
        write_atomically(part / SETTINGS, "\n".join(settings) + "\n")
    wrong = {f.kind: f for f in diagnosis.findings if f.level == "wrong" and f.kind in BY_HAND}
    if left := [kind for kind in wrong if kind != "no split" or not drawn]:
        lines.append(f"not mended, look at it first: {', '.join(left)}")
    lines.append(f"the copy is in {folder}, with {LOG}; its settings are in {SETTINGS}")
    runs = Path("runs") / folder.resolve().name
    train = shlex.join(["nmtlib", "train", str(folder / SETTINGS), "--out", str(runs)])
    if "validation" in names:
        return [*lines, f"train on it with: {train}"]
    tenth = max(1, min(500, written["train"] // 10))
    return [*lines, f"before it can train it needs validation pairs: repeat with --split {tenth}"]


def require_decided(diagnosis: Diagnosis, some: bool) -> None:
    """Raise ValueError where no pair would be left, or an encoding is undecided."""
    for finding in diagnosis.findings:
        if finding.kind == "encoding":
            raise ValueError(
                f"nothing was written: {finding.detail}; decide on an encoding, and repeat with "
                "--encoding NAME"
            )
    if not some:
        raise ValueError("no pair would be left of train; nothing was written")


def decoded(diagnosis: Diagnosis) -> Iterator[dict]:
    """An entry of the log for each file that was read in another encoding."""
    for finding in diagnosis.findings:
        if finding.kind == "decoded":
            yield {"split": finding.split, "action": "decoded", "file": finding.detail}


def line_of(entry: dict) -> str:
    """A line of the log."""
    return json.dumps(entry, ensure_ascii=False) + "\n"


def write_split(
    diagnosis: Diagnosis,
    name: str,
    files: Files,
    drawn: dict[int, str],
    log: TextIO,
    written: dict[str, int],
) -> str:
    """Write the pairs of a split, of train some into other splits; returns what was done.

    The pairs of each split are counted in `written`.
    """
    done = {"kept": 0, "changed": 0, "dropped": 0, "held out": 0}
    survey = diagnosis.surveys[name]
    for position, (entry, texts) in enumerate(repaired(diagnosis, survey)):
        where = drawn.get(position, name) if name == "train" else name
        done[entry.get("action", "kept")] += 1
        done["held out"] += where != name
        if "action" in entry:
            log.write(line_of(entry))
        if texts:
            written[where] += 1
            for file, text in zip(files[where], texts, strict=True):
                file.write(f"{text}\n")
    return summary(name, len(survey), done)


def why_empty(diagnosis: Diagnosis, name: str) -> str:
    """Why no pair of a split would be left, and what to do."""
    survey = diagnosis.surveys.get(name)
    count = len(survey) if survey else 0
    why = Counter(
        reason
        for entry, texts in (repaired(diagnosis, survey) if survey else ())
        if not texts
        for reason in entry["why"]
    )
    nothing = f"nothing was written: no pair would be left of {name}"
    leaks = why["leak"]
    if leaks:
        held = diagnosis.surveys.keys() - {"train"}
        several = f"{leaks:,} of {count:,}" if leaks < count else f"all {count:,}"
        where = " or ".join(sorted(held, reverse=True))
        return f"{nothing}: {several} are also in {where}; give another {where}"
    reasons_given = ", ".join(f"{reason} ({times:,})" for reason, times in why.most_common())
    return f"{nothing}: all {count:,} are dropped ({reasons_given}); give another {name}"


def repaired(diagnosis: Diagnosis, survey: Survey) -> Iterator[tuple[dict, tuple[str, str] | None]]:
    """Each row with its entry in the log (no action: unchanged) and its texts in the copy."""
    name = survey.split.name
    drop = diagnosis.dropped(name)
    whole = name in diagnosis.exchanged()
    for position, row in enumerate(survey.split.rows()):
        entry = {"split": name, "line": row.number, "before": [row.source, row.target]}
        if drop[position]:
            entry |= {"action": "dropped", "why": reasons(row, survey, position)}
            yield entry, None
            continue
        first, second = survey.menders
        texts = (first.mended(row.source), second.mended(row.target))
        turn = whole != (survey.numbers["turned"][position] == 1 and not whole)
        texts = texts[::-1] if turn else texts
        if texts != (row.source.strip(), row.target.strip()):
            why = sorted(first.defects(row.source) | second.defects(row.target))
            if turn:
                why.append("exchanged")
            entry |= {"action": "changed", "why": why or ["spaces"], "after": list(texts)}
        yield entry, (texts[0], texts[1])


def reasons(row: Row, survey: Survey, position: int) -> list[str]:
    """Why a row is dropped."""
    if row.problem or not survey.kept[position]:
        kinds = sorted(defects(row.source) | defects(row.target))
        if is_one_element(row.source) and is_one_element(row.target):
            kinds = ["tag line"]
        return [row.problem] if row.problem else kinds or ["empty"]
    if survey.numbers["turned"][position] == 2:
        return ["untranslated"]
    if survey.numbers["copy"][position]:
        return ["equal"]
    message = survey.numbers.get("message")
    return ["message"] if message is not None and message[position] else ["leak"]


def hold_out(diagnosis: Diagnosis, count: int) -> dict[int, str]:
    """Rows of train for validation and test: each from a source that train has once."""
    survey = diagnosis.surveys["train"]
    if len(diagnosis.surveys) > 1:
        raise ValueError("--split is for a single split, and this corpus has more: leave it out")
    free = np.flatnonzero(~diagnosis.dropped("train"))
    keys = survey.numbers["source_key"][free]
    _, first, times = np.unique(keys, return_index=True, return_counts=True)
    single = sorted(free[first[times == 1]].tolist())
    if len(single) < 4 * count:
        raise ValueError(
            f"--split {count} needs at least {4 * count:,} pairs with different sources, and there "
            f"are {len(single):,}; give a smaller number"
        )
    drawn = random.Random(SEED).sample(single, 2 * count)
    return {row: ("validation", "test")[i % 2] for i, row in enumerate(drawn)}


def summary(name: str, total: int, done: dict[str, int]) -> str:
    """What was done to a split, in a line."""
    left = total - done["dropped"]
    held = f", {done['held out']:,} of them held out" if done["held out"] else ""
    return f"{name}: {left:,} of {total:,} pairs kept{held}; {done['changed']:,} were changed"


def right_tag(tag: str) -> str:
    """A tag, or the language of a country that was taken for one."""
    return tag if is_tag(tag) else language_of_country(tag) or tag


def plan_of(folder: Path, ends: list[str], count: int) -> list[str]:
    """The settings that follow the training pairs of the copy, a line each with its reason."""
    from nmtcourse.recipes import own_text  # it imports torch, which a check never needs

    sides = [text_lines(folder / f"train.{end}") for end in ends]
    step = max(1, count // own_text.SAMPLE)
    sample = [Pair(*two) for two in islice(zip(*sides, strict=True), 0, None, step)]
    plan = own_text.plan_for(sample, count)
    return [
        "",
        f"# What follows was chosen for {count:,} pairs; change what you like.",
        *plan.toml(),
    ]


def toml(diagnosis: Diagnosis, names: list[str], ends: list[str]) -> list[str]:
    """The settings of the copy: its files and languages, in lines."""
    rows = ["[corpus]"]
    for side, tag in zip(SIDES, map(right_tag, diagnosis.tags), strict=True):
        rows.append(f"{side}_language = {json.dumps(tag or side, ensure_ascii=False)}")
    for name in names:
        files = ", ".join(json.dumps(f"{name}.{end}") for end in ends)
        rows.append(f"{name} = [{files}]" if name != "challenge" else f"# {name}: {files}")
    return rows
