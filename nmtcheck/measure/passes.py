"""Record every row of logits that a search or an evaluation computes, however it is written.

A listener of the graph sees which ids the embeddings read and what the last projection makes of
them.  It also gives the model something to say: the logits are scaled, and a table is added to them
that depends on the position alone.  So a model with random weights makes translations of different
lengths that end, and needs no training.  The full pass that a search is compared with is changed in
the same way.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from nmtcheck.adapter import Adapter
from nmtcheck.measure.graph import DROPS, SOFTMAXES, SUMS, A, Listener, record_graph
from nmtcheck.measure.helpers import build, prepare, silence, still

PROJECTIONS = {A.mm, A.addmm, A.bmm, A.matmul, A.linear}
LONGEST = 100  # positions for which a table is made
NEVER = -30.0  # added to the logit of a token that is not to be chosen
REPAIRS = {
    "dropout": "Dropout is active.",
    "future": "The causal mask is missing.",
    "source": "The padding mask of the source is missing.",
}

Ids = tuple[int, ...]


@dataclass(frozen=True)
class Speech:
    """What is done to the logits (V,) of a model so that it says something.

    They are multiplied by `factor`, and the row of `table` (LONGEST, V) of their position is added.
    After EOS they say words, so that a search which goes on shows it.
    """

    factor: float
    table: Tensor
    eos: int

    def of(self, logits: Tensor, positions: Tensor, ended: Tensor) -> Tensor:
        """The logits (N, V) of these positions (N,), changed; `ended` (N,): EOS is before them."""
        rows = self.table[positions.clamp_max(LONGEST - 1)].to(logits)
        changed = logits * self.factor + rows
        changed[:, self.eos] += NEVER * ended.to(logits)
        return changed


@dataclass
class Pass:
    """One pass of the decoder."""

    source: Tensor  # (B, S), what the encoder has read
    read: Tensor  # (N, T), what the decoder reads now
    offset: int  # positions before it, whose keys are in a cache
    logits: Tensor  # (N, T, V) or, for the last position alone, (N, 1, V)
    dropped: bool  # whether dropout was active since the pass before
    encoded: int  # which pass of the encoder this was
    # With a cache: the prefixes (N, T) that the search keeps, and what each row of the cache has
    # read; None where they were not seen.
    kept: Tensor | None = None
    history: Tensor | None = None

    @property
    def length(self) -> int:
        """The length of the prefixes with this pass."""
        return self.offset + self.read.size(1)


@dataclass
class Recording:
    """All passes of the decoder while a function ran, and what it returned."""

    passes: list[Pass] = field(default_factory=list)
    unread: int = 0  # projections to the vocabulary whose rows belong to no ids
    returned: Any = None


class SearchListener(Listener):
    """Fills a `Recording`."""

    def __init__(
        self,
        model: nn.Module,
        adapter: Adapter,
        sources: Sequence[Sequence[int]],
        speech: Speech,
        repair: str = "",
    ):
        self.adapter, self.speech, self.repair = adapter, speech, repair
        self.sources = [list(words) for words in sources]
        self.width = speech.table.size(1)
        tables = [p for p in model.parameters() if p.dim() == 2 and self.width in p.shape]
        self.storages = {p.untyped_storage().data_ptr() for p in tables}
        self.recording = Recording()
        self.source: Tensor | None = None  # as they were read last
        self.read: Tensor | None = None
        self.time_first, self.offset, self.length = False, 0, 0
        self.dropped, self.encoded = False, 0
        self.tables = list[Tensor]()  # of ids that were joined since the last pass
        self.history, self.followed = torch.zeros(0, 0, dtype=torch.int64), False
        self.embeddings = dict[int, str]()  # storage -> side
        self.without_bias = False  # whether that of the last projection is still to come

    def before(self, kind: Any, args: Any) -> Any:
        """The arguments; the scores of an attention with a mask more, where that is the repair."""
        if self.repair in ("future", "source") and kind in SOFTMAXES:
            return (self.masked(args[0]), *args[1:])
        return args

    def after(self, kind: Any, args: Any, output: Any) -> Any:
        """The output; the logits of the model changed, so that it says something."""
        for x in args:  # a search may use a copy of the model
            if isinstance(x, nn.Parameter) and x.dim() == 2 and self.width in x.shape:
                self.storages.add(x.untyped_storage().data_ptr())
        if kind is A.embedding:
            self.looks_up(args[1], args[0])
        elif kind is A.index and len(args[1]) == 1 and args[0].dim() == 2:
            ids = args[1][0]
            if isinstance(ids, Tensor) and ids.dtype == torch.int64:
                self.looks_up(ids, args[0])
        elif kind is A.cat and output.dtype == torch.int64 and output.dim() == 2:
            self.tables.append(output.detach().clone())
        elif kind in DROPS and (kind is A.native_dropout or output.numel() > 1):
            self.dropped = True
        elif kind in PROJECTIONS and output.size(-1) == self.width and self.projects(args):
            self.without_bias = kind is not A.addmm
            return self.project(output)
        elif kind in SUMS and self.without_bias and output.shape[-1:] == (self.width,):
            biases = [x for x in args[:2] if isinstance(x, nn.Parameter) and x.dim() == 1]
            if biases:  # torch adds it later where its input is not contiguous
                return self.add_bias(output, biases[0].detach())
        return output

    def add_bias(self, output: Tensor, bias: Tensor) -> Tensor:
        """The logits of the last pass with a bias (V,), which is changed as they were."""
        self.without_bias = False
        self.recording.passes[-1].logits += self.speech.factor * bias
        return output + (self.speech.factor - 1) * bias

    def projects(self, args: Any) -> bool:
        """Whether one of the factors is a matrix of the model to its vocabulary."""
        tensors = [x for x in args if isinstance(x, Tensor)]
        return any(x.untyped_storage().data_ptr() in self.storages for x in tensors)

    def looks_up(self, ids: Tensor, embedding: Tensor) -> None:
        """Note ids that an embedding reads, as those of a source or of a prefix."""
        table = ids.detach()[None] if ids.dim() < 2 else ids.detach()
        if table.dim() > 2:
            return
        # A short source may occur in a prefix by chance: the embedding tells, if it is not shared.
        storage = embedding.untyped_storage().data_ptr()
        side = self.embeddings.get(storage, "")
        if not side and "source" in self.embeddings.values():
            side = "target"
        if side != "target" and (first := self.is_source(table)) is not None:
            self.embeddings.setdefault(storage, "source")
            self.time_first = first
            self.source = (table.t() if first else table).clone()
            self.encoded += 1
            self.read = None
            return
        if embedding.size(0) != self.width or self.source is None:
            return
        self.embeddings.setdefault(storage, "target")
        if ids.dim() == 1 and len(ids) in (len(self.source), *self.beams()):
            table = ids.detach()[:, None]  # the newest token of each row
        elif self.time_first:
            table = table.t()
        begins = bool((table[:, 0] == table[0, 0]).all()) and self.begins(int(table[0, 0]))
        newest = table.size(1) == 1 and self.length > 0 and not begins
        self.offset = self.length if newest else 0
        self.length = self.offset + table.size(1)
        self.read = table.clone()

    def beams(self) -> list[int]:
        """The number of rows of the last pass."""
        return [len(self.recording.passes[-1].read)] if self.recording.passes else []

    def begins(self, token: int) -> bool:
        """Whether a token is the first one of a translation."""
        return token in (self.adapter.bos, self.adapter.pad)

    def is_source(self, table: Tensor) -> bool | None:
        """Whether time comes first in a table of known sources; None where it holds something else.

        A reference may contain a short source by chance: the words of each row must be a source.
        """
        for time_first, rows in ((False, table.tolist()), (True, table.t().tolist())):
            words = [[i for i in row if i >= self.adapter.first_word] for row in rows]
            if all(row in self.sources for row in words):
                return time_first
        return None

    def project(self, output: Tensor) -> Tensor:
        """The logits of a pass, changed and recorded."""
        rows = output.numel() // self.width
        if self.read is None:
            self.recording.unread += 1
            return output
        count, steps = self.read.shape
        places = torch.arange(self.offset, self.length)
        self.follow_rows(self.read)
        ends = self.history == self.speech.eos  # (N, T)
        ends[:, 0] = False  # some begin with EOS
        over = ends.cumsum(1) > 0
        over = over[:, -steps:]
        if rows == count * steps:
            # (N, T, V), or (T, N, V) where time comes first; flat in front of a linear map.
            first = self.time_first and not (output.dim() == 3 and output.size(0) == count != steps)
            grid = places[:, None].expand(steps, count) if first else places.expand(count, steps)
            over = over.t() if first else over
            changed = self.speech.of(output.reshape(rows, -1), grid.reshape(-1), over.reshape(-1))
            table = changed.reshape(*grid.shape, -1)
            table = table.transpose(0, 1) if first else table
        elif rows == count:
            changed = self.speech.of(
                output.reshape(rows, -1), places[-1:].expand(rows), over[:, -1]
            )
            table = changed[:, None]
        elif steps > 1 and rows == int((self.read != self.adapter.pad).sum()):
            real = self.read != self.adapter.pad  # some project no padded position
            grid = places.expand(count, steps)
            changed = self.speech.of(output.reshape(rows, -1), grid[real], over[real])
            table = changed.new_zeros(count, steps, self.width)
            table[real] = changed
        else:
            self.recording.unread += 1
            return output
        if self.repair == "copies" and self.length == 1 and count > len(self.source):
            beams = count // len(self.source)
            changed = unequal_copies(changed, beams, self.adapter.first_word)
            table = changed[:, None]
        kept = Pass(
            self.source, self.read, self.offset, table.detach().clone(), self.dropped, self.encoded
        )
        if self.offset:
            kept.kept = self.find_prefixes()
        kept.history = self.history if self.followed else None
        self.recording.passes.append(kept)
        self.dropped = False
        self.tables.clear()
        return changed.reshape(output.shape)

    def follow_rows(self, read: Tensor) -> None:
        """Note what each row of a cache has read; a row that cannot be followed starts anew."""
        if not self.offset:
            self.history, self.followed = read, True
        elif len(self.history) in (1, len(read)):
            before = self.history.expand(len(read), -1)
            self.history = torch.cat([before, read], dim=1)
        else:
            self.history, self.followed = read, False

    def find_prefixes(self) -> Tensor | None:
        """The whole prefixes (N, T) of the rows that are read, if the search keeps such a table."""
        for table in reversed(self.tables):
            for rows in (table, table.t()):
                if rows.shape == (len(self.read), self.length):
                    if torch.equal(rows[:, -1:], self.read) and self.begins(int(rows[0, 0])):
                        return rows
        return None

    def masked(self, scores: Tensor) -> Tensor:
        """Scores of an attention with a mask more: of the future, or of the source's PAD."""
        queries, keys = scores.shape[-2:] if scores.dim() > 2 else (0, 0)
        if self.repair == "future":
            if self.read is not None and queries == keys == self.length > 1:
                ahead = torch.ones(queries, keys, dtype=torch.bool).triu(1)
                return scores.masked_fill(ahead, -1e9)
            return scores
        if self.source is None or keys != self.source.size(1):
            return scores
        hidden = self.source == self.adapter.pad  # (B, S)
        copies, rest = divmod(scores.size(0), len(hidden))
        if rest or not hidden.any():
            return scores
        # (B * H, T, S) has the heads of a sentence behind each other; (N, H, T, S) its beams.
        hidden = hidden.repeat_interleave(copies, 0)
        shape = (len(hidden), *[1] * (scores.dim() - 2), keys)
        return scores.masked_fill(hidden.reshape(shape), -1e9)


def unequal_copies(logits: Tensor, beams: int, first_word: int) -> Tensor:
    """The logits (N, V) of first rows, in which each copy says one word and the first row others.

    A search that starts with one row does not look at the copies.
    """
    table = logits.reshape(-1, beams, logits.size(-1)).clone()
    words = range(first_word, min(first_word + beams - 1, logits.size(-1)))
    table[:, 0, list(words)] = NEVER
    for beam, word in enumerate(words, start=1):
        table[:, beam] = NEVER
        table[:, beam, word] = 0.0
    return table.reshape(logits.shape)


@contextmanager
def record_passes(
    model: nn.Module,
    adapter: Adapter,
    sources: Sequence[Sequence[int]],
    speech: Speech,
    repair: str = "",
) -> Iterator[Recording]:
    """Record all passes while the block runs; `repair` is '' or a key of `REPAIRS`."""
    listener = SearchListener(model, adapter, sources, speech, repair)
    with ExitStack() as stack:
        if repair == "dropout":
            stack.enter_context(still())
            silence(model)
        stack.enter_context(record_graph(listener=listener, keep=False))
        yield listener.recording


@functools.lru_cache(maxsize=16)
def speech_for(adapter: Adapter, seed: int, endless: bool = False) -> Speech:
    """What makes a model with random weights translate: in words of its own, of several lengths.

    Its logits get the standard deviation 1 over prefixes, beside those of a table; EOS becomes more
    probable from position to position, or is never said.  Other special ids are never said.
    """
    model, source, target = prepare(adapter, seed)
    with torch.no_grad():
        table = adapter.logits(model, source, target).float().flatten(0, -2)
    factor = float((1 / (table - table.mean(0)).std().clamp_min(1e-6)).clamp_max(100))
    generator = torch.Generator().manual_seed(seed)
    width = table.size(-1)
    added = torch.randn(LONGEST, width, generator=generator) - factor * table.mean(0)
    steps = torch.arange(LONGEST)
    added[:, : adapter.first_word] = NEVER - factor * table.mean(0)[: adapter.first_word]
    if not endless:
        mean = factor * table.mean(0)[adapter.eos]
        # Possible from the third word on, so that some beams of a sentence end long before others.
        ending = 1 + (0.6 * (steps - 7)).clamp(0, 12)
        added[:, adapter.eos] = torch.where(steps < 2, torch.tensor(NEVER), ending) - mean
    return Speech(factor, added, adapter.eos)


def full_rows(
    adapter: Adapter, model: nn.Module, source: Tensor, prefixes: Sequence[Ids], speech: Speech
) -> Tensor:
    """The changed logits (N, V) after prefixes (N of one length) in one pass, as training has them.

    `source` is (1, S) or (N, S); the model is put to eval mode, and back.
    """
    training = model.training
    model.eval()
    target = torch.tensor(prefixes)
    with torch.no_grad(), still():
        table = adapter.logits(model, source.expand(len(target), -1), target)
    model.train(training)
    places = torch.full((len(target),), target.size(1) - 1)
    return speech.of(table[:, -1], places, (target[:, 1:] == adapter.eos).any(1))


@functools.lru_cache(maxsize=4)
def searched_model(adapter: Adapter, seed: int, dropout: float = 0.0) -> nn.Module:
    """The model with random weights whose search is recorded."""
    return build(adapter, seed, dropout=dropout)
