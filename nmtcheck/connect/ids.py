"""Find the ids of PAD, BOS and EOS if an adapter does not give them."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from nmtcheck.adapter import FIND_OUT, Adapter
from nmtcheck.connect.calls import conventions, taken, unsure_masks
from nmtcheck.connect.standins import Vocabulary
from nmtcheck.measure.graph import record_graph
from nmtcheck.measure.helpers import TOLERANCE, build, distance, logits
from nmtcheck.measure.paths import find_lookups, rows_of

# PAD -> the BOS and EOS that usually go with it: here, in torchtext, in the Annotated Transformer,
# and in SentencePiece.
USUAL = {0: (1, 2), 1: (2, 3), 2: (0, 1), 3: (1, 2)}
TRIED = 4  # the ids from 0 on that are tried as PAD


class Ids(NamedTuple):
    """The special ids."""

    pad: int
    bos: int
    eos: int


def with_ids(adapter: Adapter, pad: int = 0) -> Ids:
    """The ids of the adapter, PAD as given where it says none, and the usual BOS and EOS."""
    pad = pad if adapter.pad == FIND_OUT else adapter.pad
    bos, eos = USUAL.get(pad, USUAL[0])
    if adapter.bos != FIND_OUT:
        bos = adapter.bos
    free = [i for i in (eos, 2, 3, 1, 0) if i not in (pad, bos)]
    return Ids(pad, bos, free[0] if adapter.eos == FIND_OUT else adapter.eos)


class Facts(NamedTuple):
    """What was found out about an implementation, and the lines that say so."""

    ids: Ids
    way: dict[str, Any]  # in which its model is called: options of `called`
    frame: dict[str, bool]  # whether its sources have BOS and EOS
    note: str
    unsure: tuple[str, ...] = ()  # see `Adapter.unsure`

    def of(self, adapter: Adapter) -> Adapter:
        """The adapter with these facts."""
        tried = tuple(name for name in self.way.get("names", ()) if "len" not in name.lower())
        known = {**self.ids._asdict(), **self.frame, "unsure": self.unsure, "tried": tried}
        return replace(taken(adapter, self.way, self.ids.pad), **known)


def find_facts(adapter: Adapter, seed: int = 0) -> Facts:
    """The facts that an adapter does not say."""
    way = conventions(adapter, seed)
    found, note = find_ids(taken(adapter, way, max(adapter.pad, 0)), seed)
    if adapter.assumed:
        note = f"{adapter.assumed}\n{note}"
    if way:
        shown = ", ".join(f"{name}={value!r}" for name, value in way.items())
        note += f"\nYour model is taken to be called with {shown} (if this is wrong, give logits="
        note += "nmtcheck.called(...) to an Adapter)"
    frame = encoded(replace(taken(adapter, way, found.pad), **found._asdict()), seed)
    if frame:
        shown = ", ".join(f"{name}={value}" for name, value in frame.items())
        note += f"\nYour sources are taken to be encoded with {shown}, as in your translation (if "
        note += "training does otherwise, say so in the Adapter)"
    unsure = unsure_masks(adapter, way, seed)
    if unsure:
        note += (
            f"\nYour model is called without {', '.join(unsure)}, whose default is None, because "
        )
        note += "no call shows what training gives: no finding about masks is proved (say it with "
        note += "given=(...) in an Adapter)"
    return Facts(found, way, frame, note.strip(), unsure)


def encoded(adapter: Adapter, seed: int) -> dict[str, bool]:
    """Whether a translation reads BOS before and EOS after a source, where nothing else tells."""
    if adapter.translate is None or adapter.source_eos is not None:
        return {}
    words = Vocabulary(100, pad=adapter.pad, bos=adapter.bos, eos=adapter.eos)
    ids, found = [adapter.first_word + n for n in (3, 0, 4, 1)], dict[str, bool]()
    with contextlib.suppress(Exception), torch.no_grad(), record_graph() as graph:
        model = build(adapter, seed)
        with contextlib.suppress(Exception):  # it may fail later, when it has read the source
            adapter.translate(model, words.lookup_tokens(ids), 3)
        rows = [row for table in find_lookups(graph) for row in rows_of(table)]
        rows = [row for row in rows if [i for i in row if i in ids] == ids]
        before, after = (rows[0][: rows[0].index(ids[0])], rows[0][rows[0].index(ids[-1]) + 1 :])
        if len(before) < 2 and set(after) <= {adapter.eos, adapter.pad}:
            if before == [adapter.bos] and not adapter.source_bos:
                found["source_bos"] = True
            if after[:1] != [adapter.eos]:
                found["source_eos"] = False
    return found


def find_ids(adapter: Adapter, seed: int = 0) -> tuple[Ids, str]:
    """The ids of an adapter, and a line about how those that it does not say were found out.

    PAD is what, set behind a source, changes no logit; or else what the embeddings name as
    `padding_idx`; or else 0.
    """
    if FIND_OUT not in (adapter.pad, adapter.bos, adapter.eos):
        return with_ids(adapter), ""
    if adapter.make_model is None or adapter.pad != FIND_OUT:
        return with_ids(adapter), ""
    hidden, named = hidden_ids(adapter, seed), padding_ids(adapter, seed)
    if len(hidden) == 1:
        found, how = with_ids(adapter, hidden[0]), "seems to be {}: the model ignores it"
    elif len(named) == 1:
        found, how = with_ids(adapter, named[0]), "seems to be {}, as the embeddings say"
    else:
        found, how = with_ids(adapter), "is assumed to be {}, because no id is ignored"
    usual = f"Your PAD {how.format(found.pad)}; BOS {found.bos} and EOS {found.eos} are assumed"
    return found, f"{usual} (if this is wrong, give pad, bos and eos)"


def hidden_ids(adapter: Adapter, seed: int) -> list[int]:
    """The ids that, set behind a source, change no logit; none where the source does not count."""
    model, first = build(adapter, seed), adapter.first_word
    source, target = torch.tensor([[first, first + 2, first + 1]]), torch.tensor([[first] * 2])
    plain, moved = logits(adapter, model, source, target), dict[int, bool]()
    for tried in sorted({*range(TRIED), *padding_ids(adapter, seed)}):
        with contextlib.suppress(Exception):
            longer = logits(adapter, model, F.pad(source, (0, 2), value=tried), target)
            moved[tried] = distance(longer, plain) > TOLERANCE
    return [tried for tried, counts in moved.items() if not counts] if any(moved.values()) else []


def padding_ids(adapter: Adapter, seed: int) -> list[int]:
    """The ids that the embeddings of a model call padding."""
    tables = (m for m in build(adapter, seed).modules() if isinstance(m, nn.Embedding))
    return sorted({m.padding_idx for m in tables if m.padding_idx is not None})
