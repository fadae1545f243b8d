"""No verdict hangs on the clock: a file that reads it is listed here with the reason."""

import io
import re
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CLOCK = re.compile(
    r"\btime\.(time|monotonic|perf_counter)\b|\bITIMER_REAL\b|\bst_mtime|\btimeout=|\btimedelta\("
    r"|\bstartup_timeout\b|\bperformance\.now\b|\bDate\.now\b"
)
SHOWN = "the seconds are shown, and nothing is decided by them"
ENDS = "ends what has made no progress for minutes"
WAITS = "waits for another writer of a file, then refuses, and nothing is lost"
MAY = {
    "nmtlib/inference/evaluate.py": SHOWN,
    "nmtlib/training/history.py": SHOWN,
    "nmtlib/training/trainer.py": "--minutes: the reader asks for a limit by the clock",
    "nmtlib/training/hardware.py": ENDS + ": a process of a training that does not answer",
    "nmtlib/data/corpora.py": ENDS + ": a download",
    "nmtlib/run.py": "asks for a lock without waiting, and knows a folder again by its time",
    "nmtcheck/report/runner.py": SHOWN,
    "nmtcheck/report/apart.py": ENDS + "; computing is limited by processor time",
    "nmtcourse/explorer/web/facts.js": SHOWN,
    "nmtcourse/explorer/web/search.js": SHOWN,
    "nmtcourse/homework/capstone.py": WAITS,
    "nmtcourse/homework/progress.py": WAITS,
    "nmtcourse/homework/marking.py": SHOWN,
    "nmtcourse/homework/submissions.py": "when a file was handed in; which notebooks are done",
    "nmtcourse/teaching/hardware_lab.py": "a timing is what the notebook teaches",
    "tools/execute.py": ENDS + ": a cell of a notebook",
    "tools/pages.py": ENDS + ": Chromium",
}


def code_of(path: Path) -> str:
    """The text of a file without its comments and strings, where it is Python."""
    text = path.read_text("utf-8")
    if path.suffix != ".py":
        return text
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return " ".join(t.string for t in tokens if t.type not in (tokenize.COMMENT, tokenize.STRING))


def test_only_these_files_read_the_clock():
    rooms = ("nmtlib", "nmtcheck", "nmtcourse", "tools")
    paths = [p for room in rooms for end in ("py", "js") for p in (ROOT / room).rglob(f"*.{end}")]
    reading = {
        path.relative_to(ROOT).as_posix()
        for path in paths
        if CLOCK.search(re.sub(r" ?([.=(]) ?", r"\1", code_of(path)))
    }
    assert sorted(reading - MAY.keys()) == [], "limit processor time, or say why the clock may stay"
