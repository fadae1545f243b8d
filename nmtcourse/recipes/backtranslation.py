"""Synthetic pairs from sentences that have no translation.  Sennrich et al. 2016.

A model that translates the other way makes the source of each; the target stays what people wrote.
Forwards, one that translates the same way makes the target: a small model then learns to say what
a better one says (Kim and Rush 2016).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from nmtcourse.recipes.sampling import sample
from nmtlib.data.batching import pad
from nmtlib.data.corpus import split_words
from nmtlib.data.tokenizers import SPACE_MARK
from nmtlib.errors import require
from nmtlib.files import open_to_continue, write_atomically
from nmtlib.inference.translator import Translator
from nmtlib.specials import EOS, SPECIALS

CHUNK = 2_000  # sentences between two saves
TEMPERATURES = 1e-3, 1e3  # beyond them scores leave the range of float32
SEEDS = 2**32


@dataclass(frozen=True)
class Search:
    """How the synthetic side is made: by beam search, 1 = greedy, or drawn at a temperature.

    Drawn translations vary more (Edunov et al. 2018), searched ones are better.  `tag` is a word
    that is put before each synthetic source, so that the model can tell it from a real one
    (Caswell et al. 2019).  `forward` makes targets instead of sources.
    """

    beam: int = 1
    temperature: float = 0.0  # 0: nothing is drawn
    seed: int = 1
    tag: str = ""
    forward: bool = False

    def __post_init__(self) -> None:
        low, high = TEMPERATURES
        sane = self.temperature == 0 or low <= self.temperature <= high
        expected = f"0, for nothing drawn, or a number from {low:g} to {high:g}"
        require(sane, "temperature", expected, self.temperature)
        if self.temperature and self.beam != 1:
            raise ValueError(
                f"what is drawn (temperature {self.temperature:g}) needs no beam of {self.beam}; "
                "leave one of them out"
            )
        require(1 <= self.beam <= 1000, "beam", "from 1 to 1000", self.beam)
        require(0 <= self.seed < SEEDS, "seed", "a whole number from 0 to 2^32 - 1", self.seed)
        if self.tag and (len(self.tag.split()) != 1 or self.tag != self.tag.strip()):
            raise ValueError(f"tag is one word, not {self.tag!r}")
        if self.tag in SPECIALS or SPACE_MARK in self.tag:
            raise ValueError(
                f"tag {self.tag!r} means something to the tokenizers; choose another, such as <bt>"
            )

    def translate(self, translator: Translator, sentences: Sequence[str], turn: int) -> list[str]:
        """The translations of one chunk; what is drawn depends on seed and `turn` alone."""
        if not self.temperature:
            return translator.translate(sentences, beam=self.beam)
        generator = torch.Generator(translator.device).manual_seed(self.seed * 1_000_003 + turn)
        drawing = {"temperature": self.temperature, "generator": generator}
        encoded = [translator.read(sentence) for sentence in sentences]
        translations = [""] * len(sentences)
        for rows in translator.batches(encoded, translator.settings.decoding.max_tokens):
            source = pad([[*encoded[i], EOS] for i in rows]).to(translator.device)  # (B, S)
            drawn = sample(translator.model, source, **drawing)
            for i, ids in zip(rows, drawn, strict=True):
                translations[i] = translator.target.decode(ids)
        return translations


def backtranslate(
    translator: Translator,
    sentences: Sequence[str],
    out: str | Path,
    search: Search = Search(),  # noqa: B008  (frozen)
    *,
    report: Callable[[str], None] = print,
) -> int:
    """Write `translation TAB sentence` for each sentence, and return how many lines there are.

    Forwards the translation comes second.  What is too long to read or becomes nothing has no line.
    After each chunk `OUT.json` says how far it is, so that the same call goes on where it was
    interrupted.  Raises FileExistsError for a file that another call has begun, ValueError for one
    that was shortened since, or for no sentences.
    """
    if not sentences:
        raise ValueError("there are no sentences to translate; expected one a line")
    out = Path(out)
    notes = out.with_name(f"{out.name}.json")
    identity = _identity(translator, sentences, search)
    done = _begin(out, notes, identity, len(sentences))
    with open_to_continue(out, done["bytes"]) as file:
        while done["sentences"] < len(sentences):
            first = done["sentences"]
            chunk = sentences[first : first + CHUNK]
            lines = _pairs(translator, chunk, search, turn=first)
            file.write("".join(lines).encode())
            file.flush()
            os.fsync(file.fileno())
            done = {
                "sentences": first + len(chunk),
                "lines": done["lines"] + len(lines),
                "bytes": file.tell(),
            }
            write_atomically(notes, json.dumps({**identity, "done": done}, indent=2) + "\n")
            report(f"{done['sentences']:,} of {len(sentences):,} sentences")
    return done["lines"]


def _identity(translator: Translator, sentences: Sequence[str], search: Search) -> dict[str, Any]:
    """All that the lines depend on."""
    weights = [t.cpu() for t in translator.model.state_dict().values()]
    return {
        "model": _digest(*(t.float().numpy() for t in weights)),
        "precision": "fp32" if weights[0].dtype == torch.float32 else "bf16",
        "sentences": _digest("\n".join(sentences).encode()),
        "search": asdict(search),
    }


def _begin(out: Path, notes: Path, identity: dict[str, Any], total: int) -> dict[str, int]:
    """How far an interrupted call came, or a new file."""
    done = {"sentences": 0, "lines": 0, "bytes": 0}
    if not out.exists() and not notes.exists():
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(notes, json.dumps({**identity, "done": done}, indent=2) + "\n")
        return done
    if not (out.is_file() and notes.is_file()):
        there, lacking = (out, notes) if out.exists() else (notes, out)
        raise FileExistsError(
            f"{there} is there already, without {lacking.name}; nothing is overwritten: choose "
            f"another --out"
        )
    try:
        saved = json.loads(notes.read_text("utf-8"))
        done = {key: saved["done"][key] for key in done}
        if any(type(number) is not int or number < 0 for number in done.values()):
            raise ValueError("numbers that cannot be")
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(
            f"{notes} is damaged; remove it and {out}, or choose another --out"
        ) from None
    if out.stat().st_size < done["bytes"]:
        raise ValueError(
            f"{out} has {out.stat().st_size:,} bytes, but {notes.name} tells of {done['bytes']:,}: "
            "something was cut off; put it back, or remove both and begin anew"
        )
    del saved["done"]
    if saved != identity:
        differing = [key for key in identity if saved.get(key) != identity[key]]
        raise FileExistsError(
            f"{out} was begun with another {' and '.join(differing)}; nothing is overwritten: "
            f"choose another --out"
        )
    _require_whole_lines(out, notes, done, total)
    return done


def _require_whole_lines(out: Path, notes: Path, done: dict[str, int], total: int) -> None:
    """Raise ValueError where the lines before the place to go on are not those that were noted."""
    with open(out, "rb") as file:
        written = file.read(done["bytes"])
    whole = written.count(b"\n") == done["lines"] and written[-1:] in (b"", b"\n")
    if not whole or not done["lines"] <= done["sentences"] <= total:
        raise ValueError(
            f"{notes} tells of {done['lines']:,} lines in {done['bytes']:,} bytes for "
            f"{done['sentences']:,} of {total:,} sentences, but {out} holds others; remove both, "
            "or choose another --out"
        )


def _pairs(
    translator: Translator, sentences: Sequence[str], search: Search, turn: int
) -> list[str]:
    """The lines of one chunk."""
    readable = [s for s in (" ".join(s.split()) for s in sentences) if _can_read(translator, s)]
    translations = search.translate(translator, readable, turn)
    tag = f"{search.tag} " if search.tag else ""
    rows = [(" ".join(text.split()), s) for text, s in zip(translations, readable, strict=True)]
    return [
        f"{tag}{s}\t{text}\n" if search.forward else f"{tag}{text}\t{s}\n"
        for text, s in rows
        if text and _are_words(text)
    ]


def _can_read(translator: Translator, sentence: str) -> bool:
    try:
        return _are_words(sentence) and bool(translator.read(sentence))
    except ValueError:
        return False


def _are_words(text: str) -> bool:
    """Whether a training could read a text: a model that repeats a piece can make endless words."""
    try:
        return bool(split_words(text))
    except ValueError:
        return False


def _digest(*parts: Any) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()
