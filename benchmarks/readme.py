"""Draw the curves in figures/, and write the measured numbers into README.md and docs.

    python benchmarks/readme.py            # rewrite them all (make readme)
    python benchmarks/readme.py --check    # exit status 1 if a page is not up to date

Each block goes between the marks `<!-- NAME:begin -->` and `<!-- NAME:end -->` of its page, and
comes from the files in benchmarks/results, so no number is typed by hand.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import re
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from string import Formatter
from typing import Any

from nmtcourse import main as cli
from nmtcourse.curves import draw_curves
from nmtcourse.homework.catalogue import assignments
from nmtcourse.projects.capstone import CHALLENGES
from nmtcourse.teaching import neighbours
from nmtlib.presets import load_settings, presets
from nmtlib.training.history import read_history

ROOT = Path(__file__).parents[1]
FIGURES, RESULTS = ROOT / "figures", ROOT / "benchmarks" / "results"
SHIPPED = ROOT / "nmtcourse" / "teaching" / "recorded" / "benchmarks"  # those of notebook 12
RECORDS = ROOT / "nmtlib" / "presets" / "records.json"
FAULTS = ROOT / "benchmarks" / "programs" / "FAULTS.toml"
ENGLISH = tomllib.loads((ROOT / "benchmarks" / "readme.toml").read_text("utf-8"))
CHINESE = tomllib.loads((ROOT / "docs" / "zh" / "readme.toml").read_text("utf-8"))
RUNS = ENGLISH["runs"]  # the row's name -> the preset, whose results are PRESET-SPLIT-beamN.json
DIGITS = {"bleu": 2, "bleu_nltk": 4, "bleu_moses": 2}


def read(name: str) -> dict[str, Any]:
    """One file of results, from benchmarks/results or from those that ship with notebook 12."""
    path = RESULTS / name
    return json.loads((path if path.is_file() else SHIPPED / name).read_text("utf-8"))


def table(header: str, rows: list[list[Any]]) -> str:
    """A Markdown table: the header's cells separated by |, numbers right-aligned."""
    cells = [cell.strip() for cell in header.split("|")]
    right = [bool(rows) and str(rows[0][column])[:1].isdigit() for column in range(len(cells))]
    lines = [cells, ["---:" if side else "---" for side in right], *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def on_machine(result: dict[str, Any]) -> str:
    """The processor and the threads of a measurement."""
    machine = result.get("machine", {})
    threads = machine.get("threads", 1)
    return f"one machine ({machine.get('processor')}, {threads} thread{'s' if threads > 1 else ''})"


# README


def opening(folder: str, words: Mapping[str, Any]) -> str:
    """What this is, for whom, and how many hours it takes."""
    minutes = [stated_minutes(path, words["notebooks"]["minutes"]) for path in numbered(folder)]
    graded = [task for each in assignments().values() for task in each.tasks.values()]
    return words["opening"].format(
        notebooks=len(minutes),
        reading=round(sum(minutes) / 60),
        homework=round(sum(task.minutes for task in graded) / 60),
    )


def proof(words: Mapping[str, Any]) -> str:
    """The commands that prove an installation, and what they took where they were recorded.

    Raises ValueError where the record of `make train` is not as that command prints it.
    """
    output = (RESULTS / "make-train.txt").read_text("utf-8")
    seconds = re.findall(r"(\d+) s$|beam \d+, ([\d.]+) s ", output, re.MULTILINE)
    epochs = [int(epoch) for epoch, _ in seconds if epoch]
    scoring = [float(score) for _, score in seconds if score]
    bleu = re.findall(r"BLEU ([\d.]+) \(", output)
    computing = re.search(r"in (\w+), (\d+) threads", output)
    if len(bleu) != 2 or not epochs or computing is None:
        raise ValueError("make-train.txt is not the output of `make train`; record it again")
    record = RESULTS / "make-test.json"  # not there: nobody has recorded it
    if record.is_file():
        tests = words["proof"]["tests"].format(**json.loads(record.read_text("utf-8")))
    else:
        tests = words["proof"]["unmeasured"]
    about = words["proof"]["about"].format(
        minutes=round((epochs[-1] + sum(scoring)) / 60),
        cores=computing[2],
        precision=computing[1],
        test=bleu[0],
        challenge=bleu[1],
        tests=tests,
    )
    # The commands are a block without comments: on a phone these would be cut off.
    return f"```bash\n{words['proof']['commands']}```\n\n{about}"


# The records of a headline: each value is a number that a reader may want to know, and the template
# has to show all of them, the bad half too.


def record_of_homework() -> dict[str, Any]:
    """How the graders judged answers whose authors had not seen them, in the newest round."""
    rounds = read("homework-rounds.json")["rounds"]
    newest = max((name for name in rounds if name.isdigit()), key=int)
    record = dict(rounds[newest]["summary"])
    if record["unstated"] == 0:  # no answer left open what it was
        del record["unstated"], record["unstated_accepted"]
    record["accepted"] = record["right"] - record.pop("right_refused")
    record["caught"] = record["wrong"] - record.pop("wrong_accepted")
    return record


def caught_by_checks(mutation: dict[str, Any]) -> int:
    """How many of the planted bugs a check catches, and not only a unit test of nmtlib."""
    count = 0
    for bug in mutation["bugs"]:
        named = {name for name in bug.get("caught_by", ()) if "::" not in name}
        count += bool(named - set(bug.get("missed_by", ())))
    return count


def record_of_checks() -> dict[str, Any]:
    """Planted bugs that the checks find, and what they did to programs of other authors."""
    bugs, strangers = read("mutation.json"), read("strangers-round6.json")["summary"]
    return {
        **strangers,
        "planted_caught": caught_by_checks(bugs),
        "planted": bugs["planted"],
    }


def record_of_speed() -> dict[str, Any]:
    """Translations and speed next to other programs in float32, and training next to torch."""
    training, decoding = read("train.json"), read("decode.json")
    beam, sentences = decoding["beam 5"], decoding["sentences"]
    record = {"sentences": sentences, "machine": training["machine"]["processor"]}
    same = []
    for short, program in (("hf", "transformers float32"), ("ct2", "CTranslate2 float32")):
        same.append(round(beam[program]["same_as_nmtlib"] * sentences))
        record[f"speed_{short}"] = beam[program]["nmtlib_speed_over_this"]
    record["same"] = min(same)  # in so many sentences at least each program agrees with ours
    for kind in ("float32", "bfloat16"):
        record[f"training_{kind}"] = training["ratios"][f"nn.Transformer {kind}"]
    return record


RECORDS_OF_HEADLINES = {
    "homework": record_of_homework,
    "checks": record_of_checks,
    "speed": record_of_speed,
}


def headlines(words: Mapping[str, Any]) -> str:
    """The main result of three other pages, a line each, in one language."""
    lines = [
        whole_record(words["headlines"][name], record(), words["phrases"])
        for name, record in RECORDS_OF_HEADLINES.items()
    ]
    return "\n".join(f"- {line}" for line in lines)


def whole_record(
    template: str, record: Mapping[str, Any], phrases: Mapping[str, Mapping[str, str]]
) -> str:
    """A headline that shows every number of its record, as a person would say it.

    A number in `phrases` has words of its own where it is 0 ("none"), where it is as large as the
    number `of` which it is a part ("all"), and otherwise ("some").

    Raises ValueError for a template that leaves some out: a record is shown whole or not at all.
    """
    shown = {
        re.split(r"[.\[]", field)[0] for _, field, _, _ in Formatter().parse(template) if field
    }
    shown |= {phrases[name]["of"] for name in shown & phrases.keys()}
    if hidden := sorted(record.keys() - shown):
        raise ValueError(
            f"a headline leaves out {', '.join(hidden)} of its record; show them all: {template}"
        )
    values = dict(record)
    for name in record.keys() & phrases.keys():
        phrase = phrases[name]
        kind = "some"
        if record[name] == 0:
            kind = "none"
        elif record[name] == record[phrase["of"]]:
            kind = "all"
        values[name] = phrase[kind].format(**record)
    return template.format(**values)


def notebooks(folder: str, words: Mapping[str, Any]) -> str:
    """What each notebook teaches, how long it takes to read and to run, and about which modules."""
    seconds = json.loads((ROOT / "tools" / "timings.json").read_text("utf-8"))
    rows, up = [], "../" * (folder.count("/") + 1)
    for path in numbered(folder):
        opening = opening_of(path)
        number, (reading, running) = path.stem[:2], words["units"]
        rows.append(
            [
                f"[{re.search(r'# (.+)', opening)[1]}]({up}{folder}/{path.name})",
                words["learned"][number],
                f"{stated_minutes(path, words['minutes'])}&nbsp;{reading}",
                f"{seconds[path.stem]}&nbsp;{running}",
                ENGLISH["modules"][number],
            ]
        )
    return table(words["columns"], rows)


def numbered(folder: str) -> list[Path]:
    """The notebooks of the course in a folder, in order."""
    return sorted((ROOT / folder).glob("[0-9][0-9]_*.ipynb"))


def opening_of(path: Path) -> str:
    """The text of a notebook's first cell."""
    return "".join(json.loads(path.read_text("utf-8"))["cells"][0]["source"])


def stated_minutes(path: Path, pattern: str) -> int:
    """The minutes of reading that a notebook's opening states."""
    return int(re.search(pattern, opening_of(path))[1])


def tree(words: Mapping[str, str]) -> str:
    """The folders and what they hold, and each file of the core."""
    rows = []
    for room, about in words.items():
        core = room.partition("/")[0] == "nmtlib"
        indent, name = ("  " * room.count("/"), Path(room).name) if core else ("", room)
        rows.append(f"{f'{indent}{name}/':<22}{about}")
        paths = [p for p in sorted((ROOT / room).glob("*.py")) if core and p.name[0] != "_"]
        rows += [f"{f'{indent}  {path.name}':<22}{first_sentence(path)}" for path in paths]
    return "```text\n" + "\n".join(rows) + "\n```"


def first_sentence(path: Path) -> str:
    """The first sentence of a module's docstring, on one line, without its full stop."""
    text = " ".join((ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").split())
    return re.split(r"\.\s", text + " ")[0].strip().rstrip(".")


def printed(name: str) -> str:
    """What a command printed."""
    return "```text\n" + (RESULTS / name).read_text("utf-8").strip() + "\n```"


# Scores


def evaluations() -> list[tuple[str, dict[str, Any]]]:
    """Every evaluation of each trained preset, with the name of its row."""
    return [
        (name, read(path.name))
        for name, preset in RUNS.items()
        for split in ("test", "challenge")
        for path in sorted(RESULTS.glob(f"{preset}-{split}-beam*.json"), reverse=True)
    ]


def best_searches() -> list[tuple[str, dict[str, Any]]]:
    """The evaluation of each trained preset by the search that scores best on its test split."""
    best: dict[str, dict[str, Any]] = {}
    for name, result in evaluations():
        if result["split"] == "test" and result["beam"] > 1:
            best[name] = max(best.get(name, result), result, key=lambda one: one["scores"]["bleu"])
    return list(best.items())


def size_and_training(result: dict[str, Any]) -> list[str]:
    """Parameters, epochs and minutes, as cells of a table."""
    training = result["training"]
    return [
        f"{result['parameters'] / 1e6:.1f} M",
        f"{training['epochs']} epochs, {training['minutes']:.0f} min",
    ]


def records() -> str:
    """What `nmtlib summary` prints of each preset, as JSON: the best search on its test split."""
    best = {
        (preset := RUNS[name]): {
            "parameters": size_and_training(result)[0],
            "minutes": f"{result['training']['minutes']:.0f}",
            "score": f"sacreBLEU {result['scores']['bleu']:.1f} ({changes(result, preset)})",
        }
        for name, result in best_searches()
    }
    for result in seeds_of_presets():
        runs = result["runs"]
        if result["preset"] not in best and "parameters" in runs[0] and not other_corpus(result):
            minutes = median(run["training"]["minutes"] for run in runs)  # one may have waited
            best[result["preset"]] = {
                "parameters": f"{runs[0]['parameters'] / 1e6:.1f} M",
                "minutes": f"{minutes:.0f}",
                "score": f"sacreBLEU {result['bleu']['mean']:.1f} ({len(runs)} seeds)",
            }
    return json.dumps(best, indent=2) + "\n"


def changes(result: dict[str, Any], preset: str) -> str:
    """What a run changed in a preset, or in the one that its command names, as for --set."""
    command = result["training"]["command"]
    named = re.search(r"(?:train|--preset) (\S+)", command)
    base = load_settings(preset if preset in presets() else named[1])
    sets = [change.strip("'") for change in re.findall(r"--set ('[^']*'|\S+)", command)]
    sets = [change for change in sets if base.with_assignments([change]) != base]
    return "with " + ", ".join(sets) if sets else "as it is"


def all_results() -> str:
    """One row for each evaluation of each preset, and how to read them."""
    rows, signatures, moses, notes = [], set(), [], ENGLISH["results"]
    for name, result in evaluations():
        scores, clean = result["scores"], result.get("scores_without_leaked")
        signatures.add(f"`{scores['signature']}`")
        bleu, nltk = f"{scores['bleu']:.2f}", f"{scores['bleu_nltk']:.4f}"
        if clean:
            bleu, nltk = f"{bleu} ({clean['bleu']:.2f})", f"{nltk} ({clean['bleu_nltk']:.4f})"
        search = "greedy"
        if result["beam"] > 1:
            search = f"beam {result['beam']}, length penalty {result['length_penalty']:g}"
            if result.get("bleu_moses"):
                moses.append(notes["moses"].format(name=name, **result))
        pairs = f"{scores['sentences']:,} {result['split']} pairs"
        speed = f"{scores['sentences'] / result['seconds']:.0f}"
        rows.append([name, *size_and_training(result), pairs, search, bleu, nltk, speed])
    listed = [*notes["notes"], *moses, f"Signatures: {', '.join(sorted(signatures))}."]
    return table(notes["columns"], rows) + "\n\n" + "\n".join(f"- {note}" for note in listed)


def several_seeds() -> str:
    """Each preset that was trained with several seeds, alone, as an ensemble, and with kNN."""
    other = read("other-way.json")
    corpus, ensemble, rows = f"`{other['corpus']}`", other["ensemble"], []
    for result in seeds_of_presets():
        name, together = f"`{result['preset']}`{other_corpus(result)}", result.get("ensemble")
        rows += scored(name, f"mean of {len(result['runs'])}", result)
        rows += scored(name, f"ensemble of {together['models']}", together) if together else []
    for stage, scores in other["stages"].items():
        rows += scored(f"{corpus}, {stage}", f"mean of {ensemble['models']}", scores)
    rows += scored(f"{corpus}, {stage}", f"ensemble of {ensemble['models']}", ensemble)
    for result in json.loads(neighbours.RECORDED.read_text("utf-8"))["models"]:
        scores = result["plain"] | {"looked_up": result}
        rows += scored(f"`{result['model']}`, shipped", "one", scores)
    return table(ENGLISH["columns"]["seeds"], rows)


def seeds_of_presets() -> list[dict[str, Any]]:
    """The results of several seeds of a preset; one alone has no deviation."""
    measured = [read(path.name) for path in sorted(RESULTS.glob("seeds-*.json"))]
    return [result for result in measured if len(result["runs"]) > 1]


def scored(name: str, models: str, result: dict[str, Any]) -> list[list[str]]:
    """One row of scores, and one more if the same models were also scored with kNN."""
    rows = [[name, models, "–", *score_cells(result)]]
    if with_knn := result.get("looked_up"):
        weight = with_knn.get("neighbour_weight", with_knn.get("weight"))
        search = f"{with_knn['neighbours']}, {weight:g}"
        rows.append([name, models, search, *score_cells(with_knn.get("looked_up", with_knn))])
    return rows


def score_cells(result: dict[str, Any]) -> list[str]:
    """Each score as a number, or as mean and standard deviation, or "–" if not measured."""
    cells = []
    for key, digits in DIGITS.items():
        score = result.get(key)
        if isinstance(score, dict):
            cells.append(f"{score['mean']:.{digits}f} ± {score['deviation']:.{digits}f}")
        else:
            cells.append("–" if score is None else f"{score:.{digits}f}")
    return cells


def other_corpus(result: dict[str, Any]) -> str:
    """The corpus of a result, if it is not that of its preset."""
    corpus, usual = result["settings"]["corpus"]["name"], load_settings(result["preset"])
    return "" if corpus == usual.corpus.name else f" on {corpus}"


# Checks and reliability


def mutation() -> str:
    """How many planted bugs the checks find, and how often they fail a healthy model."""
    healthy = read("false-alarms.json")["implementations"]
    rows = [
        [name, str(one["passed"]), str(one["undecided"]), str(len(one["alarms"]))]
        for name, one in healthy.items()
    ]
    bugs = read("mutation.json")
    by_checks = caught_by_checks(bugs)
    return ENGLISH["texts"]["mutation"].format(
        **bugs,
        by_checks=by_checks,
        by_tests=bugs["caught"] - by_checks,
        seeds=min(one["seeds"] for one in healthy.values()),
        slowest=max(one["seconds_a_run"] for one in healthy.values()),
        table=table("healthy model | passed | undecided | false alarms", rows),
    )


def programs() -> str:
    """Faults in search and evaluation that the checks find in whole programs, before and after."""
    result = read("programs.json")
    halves = tomllib.loads(FAULTS.read_text("utf-8"))["programs"]
    rows = list[list[str]]()
    for label, words in (("before", "before"), ("after", "now")):
        right = result["judged"][label]
        for half, name in ((1, "developed with"), (2, "set aside")):
            mine = {program for program, about in halves.items() if about["half"] == half}
            faults = [r for r in result[label] if "fault" in r and r["program"] in mine]
            cells = [f"{words}, {name}"]
            for part in ("search", "evaluation"):
                planted = [r for r in faults if r["part"] == part]
                found = [r["name"] for r in planted if r["new"]]
                causes = [n for n in found if n in right]
                cells += [f"{len(found)} of {len(planted)}", f"{len(causes)} of {len(found)}"]
            by_name = {r["name"]: r for r in result[label]}
            for kind in ("healthy", "alone"):
                mended = [by_name[f"{program}-{kind}"] for program in sorted(mine)]
                alarms = sum(bool(r["failed"]) for r in mended)
                if kind == "healthy":
                    cells.append(f"{alarms} of {len(mended)}")
                else:
                    works = sum(r["passed"] > 3 for r in mended)
                    cells += [f"{works} of {len(mended)}", f"{alarms} of {works}"]
            rows.append(cells)
    columns = "three programs | search faults found | their causes right | evaluation faults found"
    columns += " | their causes right | alarms on healthy | class alone works | its alarms"
    return table(columns, rows)


# Speed


def speed() -> str:
    """Training speed and memory against torch's Transformer and Marian."""
    result = read("train.json")
    speeds, memory = result["target_tokens_per_second"], result["peak_memory_mib"]
    ours = speeds["nmtlib bfloat16"]
    rows = [
        [name.replace(" ", ", "), f"{speed:,.0f}", f"{ours / speed:.2f}×", memory[name]]
        for name, speed in speeds.items()
    ]
    facts = result | {"on": on_machine(result), "table": table(ENGLISH["columns"]["speed"], rows)}
    return ENGLISH["texts"]["speed"].format(**facts)


def decode() -> str:
    """Decoding speed next to Hugging Face's generate and CTranslate2, with the same weights."""
    result, rows = read("decode.json"), []
    for name, beam in result["beam 5"].items():
        greedy = result["beam 1"].get(name)
        row = [re.sub(" (float32|bfloat16|int8)", r", \1", name)]
        for one in (greedy, beam):
            row += [
                f"{one['sentences_per_second']:.0f}" if one else "",
                f"{one['nmtlib_speed_over_this']:.2f}×" if one else "",
            ]
        rows.append([*row, f"{beam['same_as_nmtlib']:.1%}", f"{beam['bleu']:.2f}"])
    facts = result | {"on": on_machine(result), "table": table(ENGLISH["columns"]["decode"], rows)}
    return ENGLISH["texts"]["decode"].format(**facts)


def block(name: str, language: Mapping[str, Any] = ENGLISH) -> str:
    """A text of a language's readme.toml filled with the numbers of one result, and its table.

    A cell is a format of a row's values; it is empty if the row lacks one.
    """
    words = language["blocks"][name]
    result = read(words["result"])
    rows = result.get(words.get("rows"), [])
    rows = rows if isinstance(rows, list) else [row | {"name": n} for n, row in rows.items()]
    if "translated" in words:  # what a measurement wrote in English, in the page's language
        column, texts = words["translated"]["column"], words["translated"]["texts"]
        rows = [row | {column: texts[row[column]]} for row in rows]
    if rows:
        cells = [[cell(form, row) for form in words["columns"].values()] for row in rows]
        result["table"] = table(" | ".join(words["columns"]), cells)
    return words["text"].format(**result | {"on": on_machine(result)})


def cell(form: str, row: Mapping[str, Any]) -> str:
    """A row's values in a format, or "" if one is missing."""
    try:
        return form.format(**row)
    except KeyError:
        return ""


def newcomer(name: str) -> str:
    """Some of the lines that a newcomer sees, as a block; "…" is where lines are left out."""
    words = ENGLISH["newcomer"][name]
    (journey,) = (j for j in read("own-journeys.json")["journeys"] if j["name"] == "page")
    lines = journey["own_toml"]
    if "command" in words:
        lines = journey["commands"][words["command"]]["lines"]
    shown, last = [], -1
    for number, line in enumerate(lines):
        belongs = shown and last == number - 1 and line.startswith(" " * 5)  # to the line above
        if not belongs and not re.search(words["lines"], line):
            continue
        if shown and any(text.strip() for text in lines[last + 1 : number]):
            shown.append("…")
        shown.append(line.rstrip())
        last = number
    return "\n".join([f"```{words['kind']}", *shown, "```"])


# Homework


def syllabus() -> str:
    """Two ways through the course, in twelve weeks and in six: homework and its minutes."""
    rows = []
    for week, assignment in enumerate(assignments().values(), start=1):
        minutes = sum(task.minutes for task in assignment.tasks.values())
        (path,) = (ROOT / "notebooks").glob(f"{assignment.number}_*.ipynb")
        name = f"[{assignment.number} {assignment.title}](../notebooks/{path.name})"
        rows.append([week, (week + 1) // 2, name, minutes])
    rows[-1][2] += "; capstone and personal patient"
    header = "week of twelve | week of six | notebook and homework | minutes of homework"
    return table(header, rows)


def tasks() -> str:
    """Every task with its level, minutes and points."""
    rows = [
        [task.id, task.title, task.level, task.minutes, f"{task.points:g}"]
        for assignment in assignments().values()
        for task in assignment.tasks.values()
    ]
    return table("task | title | level | minutes | points", rows)


def marks() -> str:
    """The BLEU that each number of points of the capstone needs."""
    points = sorted({each for one in CHALLENGES.values() for each in one.marks.values()})
    rows = []
    for name, challenge in CHALLENGES.items():
        bleu = {worth: f"{mark:g}" for mark, worth in challenge.marks.items()}
        rows.append([name, f"{challenge.minutes:g}", *(bleu.get(each, "–") for each in points)])
    header = " | ".join(f"BLEU for {each:g} points" for each in points)
    return table(f"corpus | minutes of training | {header}", rows)


NEWCOMER = {name: lambda name=name: newcomer(name) for name in ENGLISH["newcomer"]}
PAGES = {  # the blocks of each page, and what makes them
    "README.md": {
        "opening": lambda: opening("notebooks", ENGLISH),
        "proof": lambda: proof(ENGLISH),
        "headlines": lambda: headlines(ENGLISH),
    },
    "README.zh.md": {
        "opening": lambda: opening("notebooks/zh", CHINESE),
        "proof": lambda: proof(CHINESE),
        "headlines": lambda: headlines(CHINESE),
    },
    "docs/course.md": {
        "notebooks": lambda: notebooks("notebooks", ENGLISH["notebooks"]),
        "graded": lambda: printed("homework-check-en.txt"),
    },
    "docs/zh/course.md": {
        "notebooks": lambda: notebooks("notebooks/zh", CHINESE["notebooks"]),
        "graded": lambda: printed("homework-check-zh.txt"),
    },
    "docs/core.md": {"tree": lambda: tree(ENGLISH["rooms"])},
    "docs/results.md": {"all-results": all_results, "seeds": several_seeds},
    "docs/commands.md": {"make-train": lambda: printed("make-train.txt")},
    "docs/own_text.md": {
        "doctor": lambda: block("doctor"),
        "own-sizes": lambda: block("own-sizes"),
        "own-by-hand": lambda: block("own-by-hand"),
        "own-journeys": lambda: block("own-journeys"),
        "doctor-alarms": lambda: block("doctor-alarms"),
        **NEWCOMER,
    },
    "docs/zh/own_text.md": {
        "doctor": lambda: block("doctor", CHINESE),
        "own-sizes": lambda: block("own-sizes", CHINESE),
        "own-by-hand": lambda: block("own-by-hand", CHINESE),
        "own-journeys": lambda: block("own-journeys", CHINESE),
        "doctor-alarms": lambda: block("doctor-alarms", CHINESE),
        **NEWCOMER,
    },
    "docs/explorer.md": {
        "confidence": lambda: block("confidence"),
        "pages": lambda: block("explorer"),
    },
    "docs/speed.md": {"speed": speed, "decode": decode, "gpu": lambda: block("gpu")},
    "docs/checks.md": {
        "check": lambda: printed("check-student-model.txt"),
        "mutation": mutation,
        "programs": programs,
    },
    "docs/instructors.md": {"syllabus": syllabus, "tasks": tasks, "marks": marks},
    "docs/reliability.md": {"kills": lambda: block("kills")},
}


def fill(page: str, text: str) -> str:
    """The text of a page with every block made anew.

    Raises ValueError if the page has no marks for a block.
    """
    for name, make in PAGES[page].items():
        pattern = re.compile(rf"(<!-- {name}:begin -->\n).*?(<!-- {name}:end -->)", re.DOTALL)
        if not pattern.search(text):
            raise ValueError(f"{page} has no <!-- {name}:begin --> … <!-- {name}:end -->")
        content = make()
        text = pattern.sub(lambda match, content=content: f"{match[1]}{content}\n{match[2]}", text)
    return text


def command_output(*arguments: str) -> str:
    """What a command prints."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        cli.main(list(arguments))
    return output.getvalue()


def grade_the_student(language: str) -> str:
    """What `nmtlib homework check` prints for a common mistake in task 04.2."""
    with tempfile.TemporaryDirectory() as folder:
        command_output("homework", "start", "04", "--out", folder, "--lang", language)
        (page,) = Path(folder).rglob("*.ipynb")
        book = json.loads(page.read_text("utf-8"))
        (cell,) = (cell for cell in book["cells"] if cell["id"] == "answer-04-2")
        cell["source"] = ENGLISH["unscaled"]  # an answer with a common mistake
        page.write_text(json.dumps(book), "utf-8")
        output = command_output("homework", "check", str(page))
    return next(each for each in output.split("\n\n") if each.startswith("04.2")) + "\n"


def check_the_student() -> None:
    """Store what `nmtlib check` prints for the student's model, if more than the time is new."""
    path = RESULTS / "check-student-model.txt"
    output = command_output("check", f"{ROOT / 'tests' / 'checks' / 'student_model.py'}:make")
    output = output.replace(f"{ROOT.resolve()}/", "")  # no path of this machine
    old, new = (re.sub(r" in [\d.]+ s\b", "", t) for t in (path.read_text("utf-8"), output))
    if new != old:
        path.write_text(output, "utf-8")


def draw() -> None:
    """The curves of the committed runs."""
    for preset in ("multi30k-de-en", "cmn-en-zh"):
        history = read_history(RESULTS / f"{preset}-history.csv")
        draw_curves(FIGURES / f"{preset}-curves.png", history, title=preset)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="only report whether the pages are up to date"
    )
    check = parser.parse_args().check
    if not check:
        check_the_student()
        for language in ("en", "zh"):
            output = grade_the_student(language)
            (RESULTS / f"homework-check-{language}.txt").write_text(output, "utf-8")
    texts = {ROOT / page: (ROOT / page).read_text("utf-8") for page in PAGES}
    pages = {ROOT / page: fill(page, texts[ROOT / page]) for page in PAGES}
    pages[RECORDS], texts[RECORDS] = records(), RECORDS.read_text("utf-8")
    stale = [str(page.relative_to(ROOT)) for page in pages if pages[page] != texts[page]]
    if check and stale:
        print(f"not up to date: {', '.join(stale)}; run: make readme", file=sys.stderr)
        return 1
    if not check:
        for page, text in pages.items():
            page.write_text(text, "utf-8")
        draw()
    return 0


if __name__ == "__main__":
    sys.exit(main())
