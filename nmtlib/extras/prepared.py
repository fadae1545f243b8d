"""Corpora larger than memory: encoded once into a folder, then read through a memory map while a
model trains.

A prepared folder holds

- `train/`: one folder a shard, as the `datasets` library saves it: the ids of source and target,
  with BOS and EOS, and their lengths;
- `source.json`, `target.json`, `settings.json`: both codecs and the settings that they were made
  with;
- `splits.json`: the pairs of the other splits, as text;
- `prepared.json`: languages, counts, and the size of every file.  Until all is written it is
  `prepared.json.part`: such a folder is half written, and one whose files differ from the list is
  damaged.  Neither is used.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import os
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from nmtlib.data.batching import Example, make_example
from nmtlib.data.codec import Codec, build_codecs
from nmtlib.data.corpus import SPLITS, Corpus, Pair

if TYPE_CHECKING:
    import pyarrow
    from datasets import Dataset

MANIFEST, TEXT, SETTINGS, CODECS = (
    "prepared.json",
    "splits.json",
    "settings.json",
    ("source.json", "target.json"),
)
PART = f"{MANIFEST}.part"  # there from the first moment to the last
BLOCK = 1_000  # pairs that are encoded at a time
SHARD = 100  # blocks in a shard
SAMPLE = 1_000_000  # pairs that vocabularies are learnt from


class TextPairs:
    """The pairs of [one TSV file] or [source file, target file], read anew, line by line, whenever
    they are iterated.

    They are the pairs of `from_tsv` and `from_files`, and iterating raises what these raise, at the
    first bad line.
    """

    def __init__(self, files: Sequence[str | Path]):
        self.files = [Path(file) for file in files]
        self.where = " | ".join(map(str, files))

    def __iter__(self) -> Iterator[Pair]:
        number = 0
        for number, (source, target) in enumerate(self._rows(), start=1):
            if not source or not target:
                raise ValueError(
                    f"{self.where}, line {number}: an empty side; remove it (from both files) first"
                )
            yield Pair(source, target)
        if not number:
            raise ValueError(f"{self.where}: no sentences; expected at least one line")

    def _rows(self) -> Iterator[tuple[str, str]]:
        if len(self.files) == 1:
            for number, line in enumerate(_lines(self.files[0]), start=1):
                columns = line.split("\t")
                if len(columns) != 2:
                    raise ValueError(
                        f"{self.where}, line {number}: expected source TAB target, found {len(columns)} column(s)"
                    )
                yield columns[0].strip(), columns[1].strip()
            return
        for number, (left, right) in enumerate(zip_longest(*map(_lines, self.files)), start=1):
            if left is None or right is None:
                raise ValueError(
                    f"{self.files[left is not None]} ends before line {number}, but the other file does "
                    f"not: line i of one must translate line i of the other"
                )
            yield left.strip(), right.strip()


def _lines(path: Path) -> Iterator[str]:
    """The lines of `corpus.read_lines`, one at a time."""
    if not path.is_file():
        raise FileNotFoundError(f"no such text file: {path}")
    with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
        try:
            for number, raw in enumerate(file, start=1):  # of bytes, so that only \n ends a line
                raw = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
                yield raw.removesuffix(b"\n").decode("utf-8").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path}, line {number}: not valid UTF-8 ({error.reason}); convert it first, for example "
                f"with iconv -t UTF-8"
            ) from None
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ValueError(
                f"{path}: not a complete gzip file ({error}); fetch it again"
            ) from None


def learn_codecs(corpus: Corpus, sample: int = SAMPLE, **tokenizer: Any) -> tuple[Codec, Codec]:
    """`build_codecs` from at most `sample` training pairs, at even distances; only these are in
    memory.
    """
    if sample < 1:
        raise ValueError(f"the sample holds at least one pair, not {sample}")
    count = sum(1 for _ in corpus.train)
    pairs = list(islice(corpus.train, 0, None, math.ceil(count / sample)))
    return build_codecs(replace(corpus, train=pairs), **tokenizer)


def prepare(
    folder: str | Path,
    corpus: Corpus,
    codecs: tuple[Codec, Codec],
    settings: str,
    *,
    report: Callable[[str], None] = print,
) -> None:
    """Encode a corpus, whose `train` may be `TextPairs`, into a new folder; `settings` is JSON to
    lie beside it.

    What fails leaves nothing behind; what is killed leaves a folder that is refused.  Raises as
    `check_free` does, and ModuleNotFoundError without the `datasets` library.
    """
    folder = Path(folder)
    check_free(folder)
    datasets = _datasets()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        (folder / PART).touch()
        for name, codec in zip(CODECS, codecs, strict=True):
            (folder / name).write_text(codec.to_json(), "utf-8")
        (folder / SETTINGS).write_text(settings, "utf-8")
        counts, leaks = _write_training(datasets, folder / "train", corpus, codecs, report)
        text = {
            split: [(p.source, p.target) for p in getattr(corpus, split)] for split in SPLITS[1:]
        }
        (folder / TEXT).write_text(
            json.dumps({"train": leaks, **text}, ensure_ascii=False), "utf-8"
        )
        files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != PART]
        notes = {
            "name": corpus.name,
            "source_language": corpus.source_language,
            "target_language": corpus.target_language,
            **counts,
            "sha256": _digests(folder),
            "files": {path.relative_to(folder).as_posix(): path.stat().st_size for path in files},
        }
        (folder / PART).write_text(json.dumps(notes, indent=2), "utf-8")
        os.replace(folder / PART, folder / MANIFEST)
    except BaseException:
        shutil.rmtree(folder)
        raise


def check_free(folder: Path) -> None:
    """Raises FileExistsError for a folder that is not empty, ValueError where it is a half written
    one.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        _refuse_half(folder)
        raise FileExistsError(
            f"{folder} is there already and not empty; nothing is overwritten: choose another"
        )


def _write_training(
    datasets: ModuleType,
    folder: Path,
    corpus: Corpus,
    codecs: tuple[Codec, Codec],
    report: Callable[[str], None],
) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Write the shards; returns the counts, and one training pair for each source that another
    split has, too.
    """
    import pyarrow

    others = {pair.source for split in SPLITS[1:] for pair in getattr(corpus, split)}
    leaks: dict[str, str] = {}
    counts = dict.fromkeys(("pairs", "source_tokens", "target_tokens"), 0)

    def blocks() -> Iterator[pyarrow.RecordBatch]:
        for pairs in _chunks(corpus.train, BLOCK):
            leaks.update((p.source, p.target) for p in pairs if p.source in others)
            yield _encode(pairs, codecs)

    for number, shard in enumerate(_chunks(blocks(), SHARD)):
        table = pyarrow.Table.from_batches(shard)
        datasets.Dataset(table).save_to_disk(folder / f"{number:05d}")
        counts["pairs"] += len(table)
        for side in Example._fields:
            counts[f"{side}_tokens"] += int(table[f"{side}_length"].to_numpy().sum(dtype=np.int64))
        report(f"{counts['pairs']:,} pairs encoded")
    return counts, list(leaks.items())


def _encode(pairs: Sequence[Pair], codecs: tuple[Codec, Codec]) -> pyarrow.RecordBatch:
    """Some pairs as Arrow columns; an id takes two bytes where the vocabularies allow it."""
    import pyarrow

    source, target = codecs
    small = max(len(codec.vocab) for codec in codecs) <= 2**16
    ids = pyarrow.list_(pyarrow.uint16() if small else pyarrow.int32())
    sides = zip(
        *(make_example(source.encode(p.source), target.encode(p.target)) for p in pairs),
        strict=True,
    )
    columns = {}
    for side, rows in zip(Example._fields, sides, strict=True):
        columns[side] = pyarrow.array(rows, ids)
        columns[f"{side}_length"] = pyarrow.array(map(len, rows), pyarrow.int32())
    return pyarrow.RecordBatch.from_pydict(columns)


def _chunks(items: Iterable, size: int) -> Iterator[list]:
    items = iter(items)
    while chunk := list(islice(items, size)):
        yield chunk


class MappedExamples(Sequence[Example]):
    """Examples in Arrow files: in memory are only their `lengths`, (N, 2); a row is read when it is
    asked for.
    """

    def __init__(self, rows: Dataset, numbers: np.ndarray | None = None):
        """`numbers`: which rows, all of them if not given."""
        self.rows, self.numbers = rows, numbers
        self.sides = [rows.data.column(side) for side in Example._fields]
        lengths = np.column_stack(
            [rows.data.column(f"{side}_length").to_numpy() for side in Example._fields]
        )
        self.lengths = lengths if numbers is None else lengths[numbers]

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, number: int) -> Example:
        row = int(number if self.numbers is None else self.numbers[number])
        return Example(*(side[row].as_py() for side in self.sides))

    def up_to(self, max_length: int) -> MappedExamples:
        """Those of which encoder and decoder read at most `max_length` tokens."""
        kept = np.flatnonzero((self.lengths <= (max_length, max_length + 1)).all(axis=1))
        return MappedExamples(self.rows, kept if self.numbers is None else self.numbers[kept])


@dataclass(frozen=True)
class Prepared:
    """A prepared folder; `notes` is what `prepared.json` says."""

    folder: Path
    notes: dict[str, Any]

    @classmethod
    def open(cls, folder: str | Path) -> Prepared:
        """Raises FileNotFoundError for a folder that was not prepared, ValueError for half of one
        or a damaged one, ModuleNotFoundError without the `datasets` library.
        """
        folder = Path(folder)
        _datasets()  # missing, it must be missed before anything is written
        if not (folder / MANIFEST).is_file():
            _refuse_half(folder)
            raise FileNotFoundError(
                f"{folder} is not a prepared corpus (it has no {MANIFEST}); make one with: nmtlib "
                f"data prepare PRESET --out {folder}"
            )
        try:
            notes = json.loads((folder / MANIFEST).read_text("utf-8"))
            sizes = {
                path: (folder / path).stat().st_size
                for path in notes["files"]
                if (folder / path).is_file()
            }
            wrong = [path for path, size in notes["files"].items() if sizes.get(path) != size]
            wrong += [
                name for name, digest in _digests(folder).items() if notes["sha256"][name] != digest
            ]
        except (ValueError, KeyError, TypeError, FileNotFoundError) as error:
            raise ValueError(
                f"{folder} is damaged ({error!r}); delete it and prepare the corpus again"
            ) from None
        if wrong:
            raise ValueError(
                f"{folder} is damaged: {len(wrong)} file(s) are not as they were written, such as "
                f"{wrong[0]}; copy it anew, or delete it and prepare the corpus again"
            )
        return cls(folder, notes)

    def corpus(self) -> Corpus:
        """The text of all splits but training, of which only pairs are left whose source another
        split has, too.
        """
        text = json.loads((self.folder / TEXT).read_text("utf-8"))
        splits = {split: [Pair(*sides) for sides in pairs] for split, pairs in text.items()}
        return Corpus(
            self.notes["name"],
            self.notes["source_language"],
            self.notes["target_language"],
            **splits,
        )

    def codecs(self) -> tuple[Codec, Codec]:
        """The codecs of source and target."""
        source, target = (Codec.load(self.folder / name) for name in CODECS)
        return source, target

    def examples(self) -> MappedExamples:
        """The training pairs."""
        datasets = _datasets()
        shards = sorted(
            Path(path).parent for path in self.notes["files"] if path.endswith(".arrow")
        )
        return MappedExamples(
            datasets.concatenate_datasets(
                [datasets.load_from_disk(self.folder / shard) for shard in shards]
            )
        )


def _refuse_half(folder: Path) -> None:
    if (folder / PART).exists():
        raise ValueError(
            f"{folder} is half written: preparing it was interrupted or goes on ({PART} lies in it); "
            f"if it was interrupted, delete it and prepare the corpus again"
        )


def _digests(folder: Path) -> dict[str, str]:
    """SHA-256 of the codecs: another vocabulary of the same size would turn every sentence into
    nonsense.
    """
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in CODECS}


def _datasets() -> ModuleType:
    """The `datasets` library, without progress bars and without its hub."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # all files are local
    try:
        import datasets
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "prepared corpora need the package datasets: pip install datasets"
        ) from None
    datasets.disable_progress_bars()
    return datasets
