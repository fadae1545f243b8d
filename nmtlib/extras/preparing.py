"""Encode a corpus once, into a folder that `prepared` reads through a memory map."""

from __future__ import annotations

import json
import math
import os
import shutil
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nmtlib.data.batching import Example
from nmtlib.data.codec import Codec, build_codecs
from nmtlib.data.corpus import SPLITS, Corpus, Pair
from nmtlib.earlier_runs import require_languages
from nmtlib.examples import encode_pairs, load_corpus
from nmtlib.extras.prepared import (
    PART,
    TEXT,
    datasets_library,
    digest,
    refuse_half,
    require_same_tokenizer,
)
from nmtlib.keys import assignment
from nmtlib.presets import load_settings
from nmtlib.run import MANIFEST, Run
from nmtlib.settings import Settings

if TYPE_CHECKING:
    import pyarrow

BLOCK = 1_000  # pairs that are encoded at a time
SHARD = 100  # blocks in a shard
SAMPLE = 1_000_000  # pairs that vocabularies are learnt from


def command_prepare(options: Namespace) -> int:
    """`nmtlib data prepare`."""
    if not options.name or not options.out:
        raise ValueError("data prepare needs a preset or a .toml file, and --out FOLDER")
    if options.codecs and options.sample is not None:
        raise ValueError(
            "--sample is for vocabularies that are learnt, and --codecs takes those of a run; give "
            "one of the two"
        )
    settings = load_settings(options.name).with_assignments(options.assignments)
    limit = {} if options.sample is None else {"sample": options.sample}
    report = partial(print, flush=True)
    prepare_corpus(settings, options.out, codecs=options.codecs, report=report, **limit)
    print(
        f"the prepared corpus lies in {options.out}; train from it with: "
        f"--set {assignment('corpus.prepared', str(options.out))}"
    )
    return 0


def prepare_corpus(
    settings: Settings,
    folder: str | Path,
    *,
    sample: int = SAMPLE,
    codecs: str | Path | None = None,
    report: Callable[[str], None] = print,
) -> None:
    """Encode the corpus of the settings into a new folder, for `[corpus] prepared` to name.

    The vocabularies are learnt from at most `sample` training pairs, or taken from `codecs`, a run
    or a prepared folder.  Raises ValueError where the settings do not allow it, and as `prepare`.
    """
    check_free(Path(folder))
    require_preparable(settings)
    corpus = load_corpus(settings.corpus, streaming=True)
    if codecs:
        source, target = codecs_of(Run(codecs), settings)
    else:
        source, target = learn_codecs(corpus, sample, **settings.tokenizer.codec_options())
    report(f"vocabularies {len(source.vocab):,} and {len(target.vocab):,}")
    prepare(folder, corpus, (source, target), settings, report=report)


def require_preparable(settings: Settings) -> None:
    """Raise ValueError where no training could read the corpus of the settings once prepared."""
    if settings.corpus.prepared:
        raise ValueError(f"this corpus is prepared already, in {settings.corpus.prepared}")
    if settings.corpus.synthetic:
        raise ValueError(
            "corpus.synthetic: each epoch takes other synthetic pairs, and a prepared corpus is "
            "the same in all; leave them out, or write them into the training files"
        )
    if settings.corpus.both_directions:
        raise ValueError(
            "corpus.both_directions: a training reads a prepared corpus in one direction; set it "
            "to false, or write the pairs into the training files the other way round, too"
        )
    if settings.tokenizer.bpe_dropout:
        raise ValueError(
            "tokenizer.bpe_dropout cuts sentences anew each epoch, and a prepared corpus is cut "
            "for good; set it to 0"
        )


def codecs_of(run: Run, settings: Settings) -> tuple[Codec, Codec]:
    """The codecs of a run, or a prepared folder, of the same tokenizer and languages.

    Raises ValueError where they are others: most words would be unknown.
    """
    require_same_tokenizer(run.folder, settings)
    either_way = settings.tokenizer.joint or run.settings().corpus.both_directions
    require_languages("--codecs", run, settings, either_way=either_way)
    return run.codecs()


def learn_codecs(corpus: Corpus, sample: int = SAMPLE, **tokenizer: Any) -> tuple[Codec, Codec]:
    """`build_codecs` from `sample` training pairs at most; only these are in memory."""
    if sample < 1:
        raise ValueError(f"the sample holds at least one pair, not {sample}")
    count = sum(1 for _ in corpus.train)
    pairs = list(islice(corpus.train, 0, None, math.ceil(count / sample)))
    return build_codecs(replace(corpus, train=pairs), **tokenizer)


def prepare(
    folder: str | Path,
    corpus: Corpus,
    codecs: tuple[Codec, Codec],
    settings: Settings,
    *,
    report: Callable[[str], None] = print,
) -> None:
    """Encode a corpus, whose `train` may be `TextPairs`, into a new folder.

    What fails leaves nothing behind; what is killed leaves a folder that is refused.  Raises as
    `check_free` does, and ModuleNotFoundError without the `datasets` library.
    """
    folder = Path(folder)
    datasets_library()  # missing, it must be missed before anything is written
    check_free(folder)  # once more, as the import took seconds
    folder.mkdir(parents=True, exist_ok=True)
    (folder / PART).touch(exist_ok=False)  # of two that start at once, one fails here
    try:
        run = Run(folder)
        for file, codec in zip(map(run.codec_file, ("source", "target")), codecs, strict=True):
            file.write_text(codec.to_json(), "utf-8")
        run.settings_file.write_text(settings.to_json(), "utf-8")
        counts = _write_training(folder / "train", corpus, codecs, report)
        texts = {split: getattr(corpus, split) for split in SPLITS[1:]}
        texts["train"] = corpus.leaks().values()
        texts = {split: [(p.source, p.target) for p in pairs] for split, pairs in texts.items()}
        (folder / TEXT).write_text(json.dumps(texts, ensure_ascii=False), "utf-8")
        (folder / PART).write_text(json.dumps(_notes(folder, corpus, counts), indent=2), "utf-8")
        os.replace(folder / PART, folder / MANIFEST)
    except BaseException:
        _remove(folder)
        raise


def _remove(folder: Path) -> None:
    """Remove what a folder holds, and the folder, unless it is a link or the working folder."""
    with suppress(OSError):  # the error that is told is the one before
        for path in folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()
        folder.rmdir()


def _notes(folder: Path, corpus: Corpus, counts: dict[str, int]) -> dict[str, Any]:
    """What the manifest says: the corpus, how large it is, and how its files can be verified."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != PART]
    return {
        "name": corpus.name,
        "source_language": corpus.source_language,
        "target_language": corpus.target_language,
        **counts,
        "files": {path.relative_to(folder).as_posix(): digest(path) for path in files},
    }


def check_free(folder: Path) -> None:
    """Raise FileExistsError for a folder that is not empty, ValueError for a half written one."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        refuse_half(folder)
        raise FileExistsError(
            f"{folder} is there already and not empty; nothing is overwritten: choose another"
        )


def _write_training(
    folder: Path,
    corpus: Corpus,
    codecs: tuple[Codec, Codec],
    report: Callable[[str], None],
) -> dict[str, int]:
    """Write the shards; returns the numbers of pairs and tokens."""
    import pyarrow
    from datasets import Dataset

    counts = dict.fromkeys(("pairs", "source_tokens", "target_tokens"), 0)

    blocks = (_encode(pairs, codecs) for pairs in _chunks(corpus.train, BLOCK))
    for number, shard in enumerate(_chunks(blocks, SHARD)):
        table = pyarrow.Table.from_batches(shard)
        Dataset(table).save_to_disk(folder / f"{number:05d}")
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
    sides = zip(*encode_pairs(pairs, source, target)[0], strict=True)
    columns = {}
    for side, rows in zip(Example._fields, sides, strict=True):
        columns[side] = pyarrow.array(rows, ids)
        columns[f"{side}_length"] = pyarrow.array(map(len, rows), pyarrow.int32())
    return pyarrow.RecordBatch.from_pydict(columns)


def _chunks(items: Iterable, size: int) -> Iterator[list]:
    items = iter(items)
    while chunk := list(islice(items, size)):
        yield chunk
