"""False alarms of `nmtlib data check`: sound corpora, in every order in which people keep them.

Each corpus at hand is looked at as it is, sorted in four ways, reversed, thinned out and cut.  An
alarm is a finding that calls it wrong, or that doubts the order of its lines.  Nothing is wrong
with any of them (110 lines of one are left out, which are shifted in the published file), so every
alarm is false.  Writes benchmarks/results/doctor-alarms.json; exit
status 1 where there is an alarm.

    python benchmarks/doctor_alarms.py                  # all that NMTLIB_DATA has
    python benchmarks/doctor_alarms.py toy-de-en        # some of them
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from shared import write_result

from nmtcourse.corpora import load_corpus
from nmtcourse.doctor.diagnosis import Diagnosis, diagnose
from nmtcourse.doctor.opening import of_pairs
from nmtcourse.provenance import describe_machine
from nmtlib.data.corpora import cache_folder
from nmtlib.data.corpus import Pair, read_pairs

RESULT = Path(__file__).parent / "results" / "doctor-alarms.json"
SEED = 1
# Lines (from 1) that are one line late in the published file: read by a person, and not sound.
SHIFTED = {"IWSLT16.TEDX.dev2012": (range(190, 220), range(905, 985))}
SEGMENT = re.compile(r"<seg[^>]*>(.*?)</seg>")
Order = Callable[[Sequence[Pair]], list[Pair]]


def by(key: Callable[[Pair], Any]) -> Order:
    """The order that sorts pairs by a key."""
    return lambda pairs: sorted(pairs, key=key)


def thinned(pairs: Sequence[Pair]) -> list[Pair]:
    """A third of the pairs in their order."""
    numbers = sorted(random.Random(SEED).sample(range(len(pairs)), len(pairs) // 3))
    return [pairs[number] for number in numbers]


ORDERS: dict[str, Order] = {
    "as it is": list,
    "by source length": by(lambda pair: len(pair.source)),
    "by target length": by(lambda pair: len(pair.target)),
    "by both lengths": by(lambda pair: (len(pair.source) + len(pair.target), pair.source)),
    "by source alphabet": by(lambda pair: pair.source),
    "by target alphabet": by(lambda pair: pair.target),
    "reversed": lambda pairs: list(pairs[::-1]),
    "longest first": lambda pairs: sorted(pairs, key=lambda pair: -len(pair.source)),
    "a third of it": thinned,
    "a third, by length": lambda pairs: sorted(thinned(pairs), key=lambda pair: len(pair.source)),
    "its first half": lambda pairs: list(pairs[: len(pairs) // 2]),
    "half sorted": lambda pairs: [
        *sorted(pairs[: len(pairs) // 2], key=lambda pair: len(pair.source)),
        *pairs[len(pairs) // 2 :],
    ],
}


def corpora() -> Iterator[tuple[str, tuple[str, str], list[Pair]]]:
    """The name, languages and training pairs of each corpus at hand."""
    for name in ("toy-de-en", "toy-en-zh", "multi30k-de-en", "cmn-en-zh"):
        if name.startswith("toy") or os.environ.get("NMTLIB_DATA"):
            corpus = load_corpus(name)
            yield name, (corpus.source_language, corpus.target_language), list(corpus.train)
    captions = cache_folder() / "multi30k" / "captions"
    for number in range(1, 6):
        files = [captions / f"train.{number}.{side}.gz" for side in ("de", "en")]
        if all(file.is_file() for file in files):
            yield f"captions {number}", ("de", "en"), read_pairs(files)
    talks = cache_folder() / "iwslt" / "de-en"
    for source in sorted(talks.glob("*.de-en.de.xml")):
        target = source.with_name(source.name.replace(".de.xml", ".en.xml"))
        if target.is_file():
            sides = [SEGMENT.findall(path.read_text("utf-8")) for path in (source, target)]
            name = source.name.removesuffix(".de-en.de.xml")
            pairs = [
                Pair(a.strip(), b.strip())
                for number, (a, b) in enumerate(zip(*sides, strict=True), start=1)
                if not any(number in lines for lines in SHIFTED.get(name, ()))
            ]
            yield name, ("de", "en"), pairs


def alarms_of(diagnosis: Diagnosis) -> list[str]:
    """What a diagnosis calls wrong, and what it says against the order of the lines."""
    return [
        f"{finding.split}: {finding.level}: {finding.what}"
        for finding in diagnosis.findings
        if finding.level == "wrong" or finding.kind in ("shifted", "unrelated")
    ]


def look_at(pairs: Sequence[Pair], order: Order, tags: tuple[str, str]) -> list[str]:
    """The alarms about pairs in an order, alone and with a tenth of them held out."""
    ordered = order(pairs)
    alone = diagnose("own", [of_pairs("train", ordered)], tags)
    held = len(ordered) // 10
    splits = {"validation": ordered[:held], "test": ordered[-held:], "train": ordered[held:-held]}
    names = ("train", "validation", "test")
    apart = diagnose("own", [of_pairs(name, splits[name]) for name in names], tags)
    # Many sources of a caption or a toy sentence recur, so a plain cut leaks: that is no order.
    parted = [alarm for alarm in alarms_of(apart) if "also in train" not in alarm]
    return [*alarms_of(alone), *(f"cut: {alarm}" for alarm in parted)]


def keep(row: dict[str, Any]) -> None:
    """Put the row of a corpus among the others of the record, in the order of `corpora`."""
    found = json.loads(RESULT.read_text("utf-8"))["rows"] if RESULT.is_file() else []
    rows = {old["corpus"]: old for old in found} | {row["corpus"]: row}
    order = [name for name, _, _ in corpora()]
    ordered = [rows[name] for name in order if name in rows]
    command = "python benchmarks/doctor_alarms.py"
    result = {"command": command, "rows": ordered, "machine": describe_machine()}
    write_result(RESULT, result)


def main() -> int:
    """Look at every corpus in every order, and write each row when it is done."""
    chosen, total = sys.argv[1:], 0
    for name, tags, pairs in corpora():
        if chosen and name not in chosen:
            continue
        began, alarms = time.process_time(), {}
        for order in ORDERS:
            alarms[order] = look_at(pairs, ORDERS[order], tags)
            for alarm in alarms[order]:
                print(f"{name}, {order}: {alarm}", flush=True)
        count = sum(map(len, alarms.values()))
        seconds = round(time.process_time() - began)
        print(f"{name}: {count} alarms in {len(ORDERS)} orders, {seconds} s", flush=True)
        total += count
        row = {"corpus": name, "pairs": len(pairs), "alarms": count, "orders": len(ORDERS)}
        keep(row | {"by_order": {order: len(a) for order, a in alarms.items()}})
    return int(total > 0)


if __name__ == "__main__":
    sys.exit(main())
