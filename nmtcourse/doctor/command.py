"""The command `nmtlib data check`."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace, _SubParsersAction
from pathlib import Path
from typing import TYPE_CHECKING

from nmtcourse.outputs import NEW_FOLDER, PICTURE
from nmtlib.cli import add_command
from nmtlib.files import names_a_file

if TYPE_CHECKING:
    from nmtcourse.doctor.diagnosis import Diagnosis


def add_data(commands: _SubParsersAction) -> None:
    """Add the command `data`: what the core does with it, and `data check`."""
    about = "list or fetch corpora, or look for what is wrong with one"
    data = add_command(commands, "data", run_data, about)
    data.add_argument("action", choices=["list", "fetch", "check"])
    named = "a corpus; to check also own.toml, or a file of pairs, or two text files"
    data.add_argument("name", nargs="?", help=named)
    add_check_options(data)
    doctor = add_command(commands, "doctor", run_data, "the same as data check")
    doctor.set_defaults(action="check")
    doctor.add_argument("name", nargs="?", help=named)
    add_check_options(doctor)


def add_check_options(parser: ArgumentParser) -> None:
    """Add what `data check` takes besides the name of the corpus."""
    option = parser.add_argument
    option("more", nargs="?", metavar="FILE", help="the target of a source file, to check both")
    new = "check: write a cleaned copy, with a log, into this new folder"
    option("--fix", type=NEW_FOLDER, metavar="DIR", help=new)
    drawn = "with --fix: hold out N pairs each for validation and test"
    option("--split", type=int, metavar="N", default=0, help=drawn)
    drawing = "check: draw lengths and order (.png, .svg)"
    option("--plot", type=PICTURE, metavar="FILE", help=drawing)
    decided = "check: read lines that are not UTF-8 in this encoding"
    option("--encoding", default="", metavar="NAME", help=decided)
    pair = "check: the columns of one file that are source and target, by name or number"
    option("--columns", nargs=2, default=(), metavar=("A", "B"), help=pair)
    both = "check: the languages of two files, such as de en"
    option("--languages", nargs=2, default=("", ""), metavar="TAG", help=both)


def run_data(options: Namespace) -> int | None:
    """Check a corpus, or whatever the core does with `data`."""
    if options.action == "check":
        return check(options)
    from nmtcourse import listing

    values = {"FILE": options.more, "--fix": options.fix, "--plot": options.plot}
    values["--columns"] = options.columns
    if unused := [name for name, value in values.items() if value]:
        raise ValueError(f"data {options.action} takes no {unused[0]}; it belongs to data check")
    listing.data(options)
    return None


def check(options: Namespace) -> int:
    """Print what is wrong with a corpus, and clean or draw it; 1 where training would be wrong."""
    from nmtcourse.doctor import fixing, picture, report

    _refuse(options)
    diagnosis = diagnosis_of(options)
    if diagnosis is None:
        return 1
    print("\n".join(report.lines(diagnosis)), flush=True)
    if options.plot:
        picture.draw(diagnosis, options.plot)
        print(f"the picture is in {options.plot}")
    if options.fix:
        print("\n".join(["", *fixing.write_cleaned(diagnosis, options.fix, options.split)]))
    return 0 if diagnosis.ok else 1


def _refuse(options: Namespace) -> None:
    from nmtcourse import corpora

    if not options.name:
        raise ValueError(
            "data check needs own.toml, a file of pairs, two text files, or the name of a corpus: "
            f"{', '.join(corpora.names())}"
        )
    if options.split and not options.fix:
        raise ValueError("--split says how many pairs --fix holds out; give --fix DIR too")
    if options.columns and (options.more or not names_a_file(options.name)):
        raise ValueError("--columns names two columns of one file; give that file alone")
    if options.plot and options.plot.suffix.lower() not in (".png", ".svg"):
        raise ValueError(f"--plot {options.plot}: give a name that ends in .png or .svg")
    if options.split < 0:
        raise ValueError(f"--split must be 1 or more, not {options.split}")
    if options.encoding:
        try:
            "".encode(options.encoding)
        except LookupError:
            raise ValueError(
                f"--encoding {options.encoding!r} is unknown; it is a name such as cp1252, "
                "gb18030, utf-16"
            ) from None


def diagnosis_of(options: Namespace) -> Diagnosis | None:
    """The diagnosis of what is named; None for a corpus by name that is not there."""
    from nmtcourse import corpora
    from nmtcourse.doctor import diagnosis, known, opening
    from nmtlib.presets import load_settings

    name, path = options.name, Path(options.name)
    if name.endswith(".toml"):
        corpus = load_settings(name).corpus
        if not corpus.name:
            return diagnosis.of_settings(name, corpus, options.encoding)
        name = corpus.name
    elif options.more or os.path.exists(name) or path.suffix:
        files = [name, *([options.more] if options.more else [])]
        tags = tuple(options.languages)
        tags = tags if all(tags) else guessed_tags(files)
        if not all(tags) and len(files) == 1 and path.is_file():
            tags = opening.languages_in(name, options.columns)
        how = tags, options.encoding, options.columns
        splits = [opening.of_files(name, files, *how) for name in opening.splits_in(files)]
        return diagnosis.diagnose(" ".join(files), splits, tags)
    ok, lines = known.check(name)
    print("\n".join([*lines, ""]), flush=True)
    if not ok:
        return None
    if not corpora.find(name).pairs:  # sentences without translations, which were counted
        return diagnosis.diagnose(name, [], ("", ""))
    return diagnosis.of_corpus(corpora.load_corpus(name))


def guessed_tags(files: list[str]) -> tuple[str, str]:
    """The languages in the endings of two files (train.de, train.en) or one (x.de-en.tsv)."""
    from nmtcourse.formats.languages import is_tag, language_of_country

    def is_meant(tag: str) -> bool:
        return is_tag(tag) or bool(language_of_country(tag))

    names = [Path(file).name.lower().removesuffix(".gz").removesuffix(".txt") for file in files]
    ends = [name.rpartition(".")[2] for name in names]
    if len(files) == 2 and all(map(is_meant, ends)) and ends[0] != ends[1]:
        return ends[0], ends[1]
    parts = names[0].replace("_", ".").replace("-", ".").split(".")
    tags = [part for part in parts if is_tag(part) and len(part) == 2]
    return (tags[-2], tags[-1]) if len(files) == 1 and len(tags) > 1 else ("", "")
