"""Write into docs/reliability.md which bad inputs the tests try, and the answer to each.

    python benchmarks/reliability.py      # make reliability; a minute or two

The cases are those of tests/reliability, played as the tests play them.  Where one goes wrong
nothing is written, and the exit status is 1.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reliability.md"
CATEGORIES = {
    "settings after --set": "each setting with values of the wrong type and out of range",
    "settings in a file": "your own preset that is not TOML, or has impossible values",
    "text corpora": "your own training files: encodings, columns, lines, archives",
    "damaged runs": "each file of a run folder, damaged in each way, for each command reading it",
    "run folders": "folders that are not a run, or lack a part of one",
    "search": "beams, penalties and splits that do not exist",
    "export": "wrong formats and folders",
    "training": "impossible presets, folders and time limits",
    "usage": "invalid command lines",
    "nmtlib check": "code that fails, ends the program, never returns, or is not code",
    "standard input": "input piped into `nmtlib translate`",
    "sentences given": "sentences given to it as an argument",
    "environment": "variables left over from another program, caches that are not a folder",
    "caches of corpora": "downloaded files that differ from the published ones",
    "archives": "the one archive without a published checksum, damaged in each way",
    "folders in use": "two runs in one folder",
    "processes": "Ctrl-C, SIGTERM, closed pipes, other encodings, full disks, too little memory",
}
HEADING = "## The cases\n"
SECTION = """
| what is wrong | cases |
|---|---:|
{rows}
| **together** | **{count:,}** |

Each is a test in [tests/reliability](../tests/reliability). `run` is a finished run, `half` one
that was killed after its first epoch.

"""


def main() -> int:
    """Play all cases and write the page."""
    cases, folder, found = load(), Path(tempfile.mkdtemp()).resolve(), []
    from workplace import Workplace

    workplace, failed = Workplace(folder), 0
    for case in cases:
        outcome, wrong = workplace.play(case)
        failed += bool(wrong)
        if wrong:
            print(f"{case.name!a}: {wrong[0][-300:]}", file=sys.stderr)
        found.append((case, plain(answer(case, outcome), folder)))
    if failed:
        print(f"{failed} of {len(cases)} cases go wrong", file=sys.stderr)
        return 1
    prose = PAGE.read_text("utf-8").partition(HEADING)[0]
    PAGE.write_text(prose + HEADING + section(found), "utf-8")
    return 0


def load() -> list:
    """The cases of the tests, whose modules can be imported from now on."""
    sys.path.insert(0, str(ROOT / "tests" / "reliability"))
    from cases import CASES

    return CASES


def section(found: list[tuple[Any, str]]) -> str:
    """The end of the page: how many cases of each category, and what each answered, folded."""
    counts = Counter(case.category for case, _ in found)
    rows = "\n".join(f"| {name}: {what} | {counts[name]:,} |" for name, what in CATEGORIES.items())
    parts = [SECTION.format(rows=rows, count=len(found))]
    for name in CATEGORIES:
        items = [line(case, said) for case, said in found if case.category == name]
        head = f"<details><summary>{name}: {len(items):,}</summary>"
        parts.append("\n".join([head, "", *items, "", "</details>\n"]))
    return "\n".join(parts)


def answer(case: Any, outcome: Any) -> str:
    """The line that the user reads."""
    if outcome.status == 0 and not outcome.err:
        return "works"
    lines = (outcome.out if case.printed else outcome.err).splitlines() or ["no word"]
    told = [line for line in lines if line.startswith(("wrong", "missing", "FAILED", "error"))]
    said = (told or lines)[0]
    if lines[0].startswith("usage: "):
        said = lines[-1]
    return f"works, and says {said}" if outcome.status == 0 else said


def plain(text: str, folder: Path) -> str:
    """A line without what differs from machine to machine, and not too long."""
    text = text.replace(f"{folder}/", "").replace(str(folder), ".")
    for path, name in ((ROOT, "nmtlib's folder"), (Path(sys.prefix), "python")):
        text = text.replace(str(path), name)
    text = re.sub(r"\.[0-9a-f]{8}\.part", ".PART", " ".join(text.split()))
    text = re.sub(r"\b(process|pid) \d+", r"\1 N", text)
    return text if len(text) <= 300 else f"{text[:220]} … {text[-70:]}"


def line(case: Any, said: str) -> str:
    """An item of the list: what is given, to which command, and the answer."""
    command = " ".join(["nmtlib", *case.arguments])
    command = command if len(command) <= 110 else f"{command[:80]} … {command[-20:]}"
    given = re.sub(r"([\\`*_\[\]|<>$])", r"\\\1", visible(case.given))
    return f"- {given}: {code(command)} → {code(said)}"


def visible(text: str) -> str:
    """The text with escapes for characters that cannot be shown."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def code(text: str) -> str:
    """A span of code in Markdown."""
    return f"`{visible(text).replace('`', chr(39))}`"


if __name__ == "__main__":
    raise SystemExit(main())
