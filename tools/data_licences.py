"""Which shipped files contain sentences of a corpus, and under which terms: DATA-LICENCES.md.

    NMTLIB_DATA=... python tools/data_licences.py          # scan, and write the page
    NMTLIB_DATA=... python tools/data_licences.py --check  # exit status 1 if the page is not true

All files of the repository are searched for sentences of the corpora, at least five words (or eight
Chinese characters) long, whatever their case, spaces, punctuation and escapes are. What was found
is kept in data_licences.json, each sentence as a number, so that a test can search all files for
them where the corpora are not there.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import html
import json
import os
import re
import subprocess
import sys
import unicodedata
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "DATA-LICENCES.md"
RECORD = Path(__file__).with_suffix(".json")
WORDS, CHARACTERS = 5, 8  # of the shortest sentence that counts
LATIN = re.compile(r"[^\W_\u3400-\u9fff]+")
CHINESE = re.compile(r"[\u3400-\u9fff]+")
OWN = {"DATA-LICENCES.md", "tools/data_licences.json"}
MADE_HERE = ("nmtlib/data/bundled/",)  # by the toy grammar, which says some common sentences too
PACKAGES = ("nmtlib/", "nmtcheck/", "nmtcourse/", "notebooks/")  # what a wheel contains


@dataclass(frozen=True)
class Terms:
    """A corpus, its SPDX identifier, and what its terms are."""

    corpus: str
    spdx: str
    text: str


CORPORA = (
    Terms(
        "Multi30k",
        "LicenseRef-Multi30k",
        "for research and education, not commercial; cite Elliott et al. 2016 "
        "(https://github.com/multi30k/dataset, task 1 and 2; the images are Flickr's)",
    ),
    Terms(
        "cmn-eng-simple",
        "CC-BY-2.0",
        "sentences of Tatoeba (https://tatoeba.org), CC BY 2.0 FR, in the selection of "
        "https://github.com/XiZhong17203/Translation-Transformer",
    ),
    Terms(
        "IWSLT",
        "LicenseRef-TED",
        "TED talks, CC BY-NC-ND 3.0 (https://www.ted.com), in the selection of IWSLT 2014",
    ),
)
MODELS = {"multi30k": "Multi30k", "cmn": "cmn-eng-simple", "iwslt": "IWSLT"}


@dataclass
class ScanResult:
    """What a scan has found: how many sentences of a corpus a file has, and their numbers."""

    files: dict[str, dict[str, int]] = field(default_factory=dict)
    sentences: dict[str, list[str]] = field(default_factory=dict)  # of a corpus

    def data(self) -> dict[str, Any]:
        """What was found, as JSON."""
        return {"files": self.files, "sentences": self.sentences}


def units(text: str) -> Iterator[list[str]]:
    """The words of a text, and the characters of its Chinese, each as one row."""
    plain = unicodedata.normalize("NFC", text).replace("@@ ", "").casefold()
    plain = re.sub(r"(?<=[a-z])n['’]t\b", " n't", plain)  # tokenised: do n't
    yield LATIN.findall(plain)
    yield [c for run in CHINESE.findall(plain) for c in run]


def shortest(row: list[str]) -> int:
    """How many units of a row a sentence has at least: words, or characters."""
    return CHARACTERS if row and CHINESE.match(row[0]) else WORDS


def number(row: Iterable[str]) -> str:
    """The number of a sentence."""
    return hashlib.sha256(" ".join(row).encode()).hexdigest()[:16]


def start(row: Iterable[str]) -> int:
    """A number of the beginning of a sentence that is fast to compute."""
    return zlib.crc32(" ".join(row).encode())


class Index:
    """The sentences of corpora by how they begin."""

    def __init__(self) -> None:
        # by the number of the beginning: corpus, length, number
        self.sentences: dict[int, set[tuple[str, int, str]]] = defaultdict(set)

    def add(self, corpus: str, text: str) -> None:
        """Add a sentence, in each of its languages."""
        for row in units(text):
            if len(row) >= shortest(row):
                beginning = start(row[: shortest(row)])
                self.sentences[beginning].add((corpus, len(row), number(row)))

    def search(self, text: str) -> dict[str, set[str]]:
        """The numbers of the sentences in a text, by corpus: the first of `CORPORA` that has it."""
        digests: dict[str, set[str]] = defaultdict(set)  # by corpus
        for row in units(text):
            least = shortest(row)
            for place in range(len(row) - least + 1):
                # A quick number of a few words first, the slow one of the whole if that is known.
                beginning = start(row[place : place + least])
                for corpus, length, digest in self.sentences.get(beginning, ()):
                    if number(row[place : place + length]) == digest:
                        digests[corpus].add(digest)
        counted = set[str]()
        for terms in CORPORA:
            digests[terms.corpus] -= counted
            counted |= digests[terms.corpus]
        return {corpus: numbers for corpus, numbers in digests.items() if numbers}


def shipped() -> list[str]:
    """The files of the repository, without those that this script writes."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    names = listed.stdout.decode().split("\0")
    left_out = {*OWN, *(name for name in names if name.startswith(MADE_HERE))}
    return sorted(
        name for name in names if name and name not in left_out and (ROOT / name).is_file()
    )


def read(path: Path) -> str:
    """The text of a file, unpacked and without escapes; '' for one that is no text."""
    raw = path.read_bytes()
    if path.suffix == ".gz":
        raw = gzip.decompress(raw)
    if b"\0" in raw[:2000]:
        return ""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return ""
    text = re.sub(r"[A-Za-z0-9+/=]{200,}", " ", text)  # pictures
    text = re.sub(r"\\u([0-9a-fA-F]{4})", lambda escape: chr(int(escape[1], 16)), text)
    text = re.sub(r"<[^<>]{0,300}>", " ", html.unescape(re.sub(r"\\[ntr\"]", " ", text)))
    return text.encode("utf-8", "replace").decode()


def corpora(data: Path) -> Index:
    """The sentences of all corpora in a folder of data."""
    index = Index()
    for path in sorted((data / "multi30k").glob("*.gz")):
        for line in gzip.open(path, "rt", encoding="utf-8"):
            index.add("Multi30k", line)
    for path in sorted((data / "cmn-eng-simple").glob("*.txt")):
        for line in path.read_text("utf-8").splitlines():
            for side in line.split("\t"):
                index.add("cmn-eng-simple", side)
    for path in sorted((data / "iwslt" / "de-en").glob("*.xml")):
        for line in re.findall(r"<seg[^>]*>(.*?)</seg>", path.read_text("utf-8")):
            index.add("IWSLT", html.unescape(line))
    return index


def recorded() -> Index:
    """The sentences that are shipped, by the record of the last scan."""
    index = Index()
    record = json.loads(RECORD.read_text("utf-8"))
    for corpus, rows in record["sentences"].items():
        for row in rows:
            begins, length, digest = row.split()
            index.sentences[int(begins)].add((corpus, int(length), digest))
    return index


def scan(index: Index) -> ScanResult:
    """What all files of the repository contain of the sentences of an index."""
    lines = {}  # of the record, by the number of a sentence
    for beginning, rows in index.sentences.items():
        for _, length, digest in rows:
            lines[digest] = f"{beginning} {length} {digest}"
    result = ScanResult()
    numbers = defaultdict[str, set[str]](set)
    for name in shipped():
        by_corpus = index.search(read(ROOT / name))
        if by_corpus:
            counts = {corpus: len(by_corpus[corpus]) for corpus in sorted(by_corpus)}
            result.files[name] = counts
        for corpus, digests in by_corpus.items():
            numbers[corpus] |= digests
    for corpus in sorted(numbers):
        result.sentences[corpus] = sorted(lines[digest] for digest in numbers[corpus])
    return result


def models() -> Iterator[tuple[str, Terms]]:
    """The trained models that are shipped, and the corpus that each was trained on."""
    by_corpus = {terms.corpus: terms for terms in CORPORA}
    for path in sorted(ROOT.glob("nmtlib/trained/*/settings.json")):
        for begin, corpus in MODELS.items():
            if path.parent.name.startswith(begin):
                yield str(path.parent.relative_to(ROOT)), by_corpus[corpus]


def page(files: dict[str, dict[str, int]]) -> str:
    """The page that says which terms hold for which file."""
    by_corpus = {terms.corpus: terms for terms in CORPORA}
    corpora_in_files = {corpus for counts in files.values() for corpus in counts}
    used = [terms for terms in CORPORA if terms.corpus in corpora_in_files]
    used += [terms for _, terms in models() if terms not in used]
    lines = [
        "# Licences of the data",
        "",
        "The code, the texts and the toy corpora are under the [MIT licence](LICENSE), the font "
        "under the [Open Font License](nmtcourse/teaching/fonts/OFL.txt). Some files contain "
        "sentences of published corpora, which keep their own terms:",
        "",
        "| corpus | SPDX | terms |",
        "|---|---|---|",
        *(f"| {terms.corpus} | {terms.spdx} | {terms.text} |" for terms in used),
        "",
        "`tools/data_licences.py` has made this page: it searches every file of the repository for "
        f"sentences of at least {WORDS} words or {CHARACTERS} Chinese characters. A sentence may "
        "also be there because somebody else wrote the same one; the toy corpora, which a grammar "
        "makes, are left out for that reason. One of several corpora is counted for the first.",
        "",
        "## Models",
        "",
        "Trained on a corpus; `confidence.json` lists its words.",
        "",
        "| folder | corpus | terms |",
        "|---|---|---|",
        *(f"| {folder} | {terms.corpus} | {terms.spdx} |" for folder, terms in models()),
        "",
        "## Sentences",
        "",
        "| file | in the wheel | corpus | sentences | terms |",
        "|---|---|---|---:|---|",
    ]
    for name, counts in files.items():
        wheel = "yes" if name.startswith(PACKAGES) else "no"
        for corpus, count in counts.items():
            spdx = by_corpus[corpus].spdx
            lines.append(f"| {name} | {wheel} | {corpus} | {count} | {spdx} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Scan; write the page or compare it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if it is not true")
    options = parser.parse_args()
    data = os.environ.get("NMTLIB_DATA", "")
    if not data or not (Path(data) / "multi30k").is_dir():
        print("set NMTLIB_DATA to a folder that has multi30k and cmn-eng-simple", file=sys.stderr)
        return 2
    result = scan(corpora(Path(data)))
    record = json.dumps(result.data(), indent=1, ensure_ascii=False) + "\n"
    text = page(result.files)
    if options.check:
        if record == RECORD.read_text("utf-8") and text == PAGE.read_text("utf-8"):
            print("true")
            return 0
        print("not true any more: run this script without --check")
        return 1
    RECORD.write_text(record, "utf-8")
    PAGE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
