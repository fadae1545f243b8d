"""Corpora larger than memory, read through a memory map; `preparing` writes them.

A prepared folder holds

- `train/`: one folder a shard, as the `datasets` library saves it: the ids of source and target,
  with BOS and EOS, and their lengths;
- `source.json`, `target.json`, `settings.json`: both codecs, and the settings they were made with;
- `splits.json`: the pairs of the other splits, as text;
- `prepared.json`: languages, counts, and the SHA-256 of every file.  Until all is written it is
  `prepared.json.part`: such a folder is half written, and one whose files differ from the list is
  damaged.  Neither is used.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from nmtlib.data.batching import Example
from nmtlib.data.codec import Codec
from nmtlib.data.corpus import Corpus, Pair
from nmtlib.extras.optional import need
from nmtlib.run import MANIFEST, Run
from nmtlib.settings import Settings

if TYPE_CHECKING:
    from datasets import Dataset

TEXT = "splits.json"
PART = f"{MANIFEST}.part"  # there from the first moment to the last
ABOUT = ("name", "source_language", "target_language")  # what the manifest says of the corpus


class MappedExamples(Sequence[Example]):
    """Examples in Arrow files, each read when it is asked for; in memory are only their `lengths`.

    `lengths` is (N, 2), source and target.
    """

    def __init__(self, rows: Dataset, numbers: np.ndarray | None = None):
        """`numbers`: which rows, all of them if not given."""
        self.rows, self.numbers = rows, numbers
        self.sides = [rows.data.column(side) for side in Example._fields]
        columns = [rows.data.column(f"{side}_length") for side in Example._fields]
        lengths = np.column_stack([column.to_numpy() for column in columns])  # (N, 2)
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
        """The prepared corpus in a folder.

        Raises FileNotFoundError for one that was not prepared, ValueError for half of one or a
        damaged one, ModuleNotFoundError without the `datasets` library.
        """
        folder = Path(folder)
        datasets_library()  # missing, it must be missed before anything is written
        if not (folder / MANIFEST).is_file():
            refuse_half(folder)
            raise FileNotFoundError(
                f"{folder} is not a prepared corpus (it has no {MANIFEST}); make one with: nmtlib "
                f"data prepare PRESET --out {folder}"
            )
        try:
            notes = json.loads((folder / MANIFEST).read_text("utf-8"))
            files = notes["files"].items()
            wrong = [path for path, sha256 in files if digest(folder / path) != sha256]
            if not all(isinstance(notes[key], str) for key in ABOUT):
                raise ValueError(f"{', '.join(ABOUT)} must be strings")
        except (AttributeError, ValueError, KeyError, TypeError, FileNotFoundError) as error:
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
        """The text of all splits; of training only the pairs whose source another split has too."""
        text = json.loads((self.folder / TEXT).read_text("utf-8"))
        splits = {split: [Pair(*sides) for sides in pairs] for split, pairs in text.items()}
        return Corpus(*(self.notes[key] for key in ABOUT), **splits)

    def codecs(self) -> tuple[Codec, Codec]:
        """The codecs of source and target."""
        return Run(self.folder).codecs()

    def examples(self) -> MappedExamples:
        """The training pairs."""
        datasets = datasets_library()
        shards = sorted({Path(p).parent for p in self.notes["files"] if p.endswith(".arrow")})
        parts = [datasets.load_from_disk(self.folder / shard) for shard in shards]
        return MappedExamples(datasets.concatenate_datasets(parts))


def open_prepared(settings: Settings) -> Prepared:
    """The prepared corpus of the settings.

    Raises ValueError where they speak of another corpus or another [tokenizer].
    """
    prepared = Prepared.open(settings.corpus.prepared)
    for key in ABOUT:
        given, made = getattr(settings.corpus, key), prepared.notes[key]
        if given not in ("", made):
            raise ValueError(
                f"{prepared.folder} holds a corpus whose {key} is {made!r}, not {given!r}"
            )
    require_same_tokenizer(prepared.folder, settings)
    return prepared


def require_same_tokenizer(folder: Path, settings: Settings) -> None:
    """Raise ValueError where a folder was made with another [tokenizer] than is asked for.

    The `bpe_dropout` of a run changed none of its vocabularies.
    """
    made = replace(Run(folder).settings().tokenizer, bpe_dropout=0.0)
    if made != settings.tokenizer:
        raise ValueError(
            f"{folder} was made with another [tokenizer], {made}, than the settings ask for, "
            f"{settings.tokenizer}; they must be the same"
        )


def prepared_examples(
    settings: Settings, source: Codec, target: Codec, max_length: int
) -> tuple[Sequence[Example], int]:
    """The training pairs of a prepared corpus, and how many were left out as too long.

    Raises ValueError where its codecs are not those of the run.
    """
    prepared = open_prepared(settings)
    codecs = zip(("source", "target"), (source, target), prepared.codecs(), strict=True)
    for side, mine, theirs in codecs:
        if mine.to_json() != theirs.to_json():
            raise ValueError(
                f"{prepared.folder} has another {side} vocabulary than this run: its ids are other "
                f"words; name the folder that the run was started with"
            )
    examples = prepared.examples()
    kept = examples.up_to(max_length)
    return kept, len(examples) - len(kept)


def digest(path: Path) -> str:
    """The SHA-256 of a file, '' where there is none."""
    if not path.is_file():
        return ""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def refuse_half(folder: Path) -> None:
    """Raise ValueError for a folder whose preparation has begun and not ended."""
    if (folder / PART).exists():
        raise ValueError(
            f"{folder} is half written: preparing it was interrupted, or goes on, as {PART} shows; "
            f"if it was interrupted, delete it and prepare the corpus again"
        )


def datasets_library() -> ModuleType:
    """The `datasets` library, without progress bars and without its hub."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # all files are local
    datasets = need("datasets")
    datasets.disable_progress_bars()
    return datasets
