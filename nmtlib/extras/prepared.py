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

import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
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
        counts = _write_training(datasets, folder / "train", corpus, codecs, report)
        texts = {split: getattr(corpus, split) for split in SPLITS[1:]}
        texts["train"] = corpus.leaks().values()
        texts = {split: [(p.source, p.target) for p in pairs] for split, pairs in texts.items()}
        (folder / TEXT).write_text(json.dumps(texts, ensure_ascii=False), "utf-8")
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
) -> dict[str, int]:
    """Write the shards; returns the numbers of pairs and tokens."""
    import pyarrow

    counts = dict.fromkeys(("pairs", "source_tokens", "target_tokens"), 0)

    blocks = (_encode(pairs, codecs) for pairs in _chunks(corpus.train, BLOCK))
    for number, shard in enumerate(_chunks(blocks, SHARD)):
        table = pyarrow.Table.from_batches(shard)
        datasets.Dataset(table).save_to_disk(folder / f"{number:05d}")
        counts["pairs"] += len(table)
        for side in Example._fields:
            counts[f"{side}_tokens"] += int(table[f"{side}_length"].to_numpy().sum(dtype=np.int64))
        report(f"{counts['pairs']:,} pairs encoded")
    return counts


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
            f"{folder} is half written: preparing it was interrupted, or goes on, as {PART} shows; "
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
