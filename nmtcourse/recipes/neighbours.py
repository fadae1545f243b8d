"""A model that looks its next word up: k-nearest-neighbour translation.  Khandelwal et al. 2021.

Every target position of the training pairs becomes an entry: its key is the vector that the model
has there just before the output layer, its value the token that comes next.  In a translation the
entries nearest to the present vector vote, and their vote is mixed with what the model says.
Nothing is trained.  (The paper's keys are what enters the last feed-forward layer.)
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmtcourse.corpora import load_corpus
from nmtcourse.recipes.ensemble import Ensemble
from nmtlib.data.batching import Example, collate, token_batches
from nmtlib.data.codec import encode_pairs
from nmtlib.errors import require
from nmtlib.inference.translator import Translator
from nmtlib.model.layers import DecoderState
from nmtlib.model.transformer import Transformer
from nmtlib.specials import PAD

WEIGHT = 0.3  # of the vote, beside 0.7 of the model
TEMPERATURE = 0.1  # in variances of the keys
BLOCK = 64  # entries of which a search first takes the nearest
MOST_DISTANCES = 2**26  # at once in memory, in 256 MiB


class Datastore(NamedTuple):
    """For each of E target positions a key, the token that comes next, and where both are from."""

    keys: Tensor  # (E, D)
    values: Tensor  # (E,)
    origins: Tensor  # (E, 2): number of the example, number of the label in it

    @classmethod
    @torch.no_grad()
    def build(cls, model: Transformer, examples: Sequence[Example]) -> Datastore:
        """One entry for each label of the examples; the model is in evaluation mode.

        Raises ValueError for no examples, or a model in training mode.
        """
        require(len(examples) > 0, "examples", "1 or more", 0)
        require(not model.training, "model", "in evaluation mode, without dropout", "in training")
        body, device = without_output(model), next(model.parameters()).device
        keys, values, origins = [], [], []
        for numbers in token_batches(examples, max_tokens=4096):
            batch = collate([examples[number] for number in numbers]).to(device)
            rows, places = (batch.labels != PAD).nonzero(as_tuple=True)  # of n labels
            keys.append(body(batch.source, batch.decoder_input)[rows, places].float())  # (n, D)
            values.append(batch.labels[rows, places])
            origins.append(torch.stack([torch.tensor(numbers, device=device)[rows], places], dim=1))
        return cls(torch.cat(keys), torch.cat(values), torch.cat(origins))


class NeighbourModel(nn.Module):
    """A Transformer whose nearest entries vote, with all that a search or an evaluation asks of it.

    p(token) = (1 - weight) p_model(token) + weight p_vote(token)  (eq. 3).  The shares of the
    nearest entries are a softmax over -distance² / T, and the vote for a token is the sum of the
    shares of those whose value it is (eq. 2).  T is `temperature` times the variance of the keys,
    summed over dimensions: the same value then suits models of any size.  Where a Transformer gives
    logits, this gives log-probabilities.  For translation only: it knows no gradients.
    """

    keys: Tensor
    values: Tensor
    squares: Tensor

    def __init__(
        self,
        model: Transformer,
        store: Datastore,
        *,
        neighbours: int = 4,
        weight: float = WEIGHT,
        temperature: float = TEMPERATURE,
    ):
        """Raises ValueError for more neighbours than entries, a weight not in [0, 1), a temperature
        that is not greater than 0, or keys that are all the same.
        """
        super().__init__()
        _require_sense(neighbours, weight, most=len(store.keys))
        require(temperature > 0, "temperature", "greater than 0", temperature)
        self.neighbours, self.weight = neighbours, weight
        self.variance = float(store.keys.var(dim=0, correction=0).sum())
        require(self.variance > 0, "keys", "different from each other", "all the same")
        self.temperature = temperature * self.variance
        self.config, self.table = model.config, model.parameter_table()
        self.body, self.output = without_output(model), model.output
        # The last block is filled up with entries that are infinitely far away.
        missing = -len(store.keys) % BLOCK
        self.register_buffer("keys", F.pad(store.keys, (0, 0, 0, missing)))  # (E, D)
        self.register_buffer("values", F.pad(store.values, (0, missing)))  # (E,)
        squares = F.pad(store.keys.square().sum(dim=1), (0, missing), value=math.inf)
        self.register_buffer("squares", squares)  # (E,)
        self.train(model.training)

    @property
    def decoder(self) -> nn.ModuleList:
        """The layers that keep a cache."""
        return self.body.decoder

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Source ids (B, S), target ids (B, T) -> log-probabilities (B, T, V)."""
        hidden = self.body(source, target)  # (B, T, D)
        return self._log_probs(hidden.flatten(0, 1)).unflatten(0, target.shape)

    def start(self, source: Tensor) -> DecoderState:
        """Begin with source (B, S), one hypothesis per sentence."""
        return self.body.start(source)

    def step(self, tokens: Tensor, state: DecoderState) -> Tensor:
        """The newest token (N,) of each hypothesis -> log-probabilities (N, V); moves `state`."""
        return self._log_probs(self.body.step(tokens, state))

    def parameter_table(self) -> dict[str, int]:
        """The number of trained values in each part; what is looked up was not trained."""
        return self.table

    def nearest(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Squared distances of the nearest entries to hidden (N, D), and their places: (N, k)."""
        # All distances but for |hidden|², which is the same for all entries.
        squared = torch.addmm(self.squares, hidden, self.keys.T, alpha=-2)  # (N, E)
        # The k nearest stand in the k blocks with the least minima, and these are sooner found.
        blocks = squared.unflatten(1, (-1, BLOCK))  # (N, E / BLOCK, BLOCK)
        count = min(self.neighbours, blocks.size(1))
        chosen = blocks.amin(dim=2).topk(count, dim=1, largest=False).indices  # (N, c)
        few = blocks.gather(1, chosen[..., None].expand(-1, -1, BLOCK)).flatten(1)  # (N, c * BLOCK)
        order = few.topk(self.neighbours, dim=1, largest=False).indices  # (N, k)
        places = chosen.gather(1, order // BLOCK) * BLOCK + order % BLOCK  # (N, k)
        # A difference of large sums is inexact, so the few that were chosen are measured again.
        return (hidden[:, None] - self.keys[places]).square().sum(dim=2), places

    def _log_probs(self, hidden: Tensor) -> Tensor:
        """Vectors (N, D) -> log-probabilities (N, V), some rows at a time."""
        rows = max(MOST_DISTANCES // len(self.keys), 1)
        return torch.cat([self._mixed(some) for some in hidden.split(rows)])

    def _mixed(self, hidden: Tensor) -> Tensor:
        """Vectors (N, D) -> log-probabilities (N, V).  Khandelwal et al. 2021, eq. 2 and 3."""
        logp = self.output(hidden).float().log_softmax(dim=-1)  # (N, V)
        squared, places = self.nearest(hidden.to(self.keys.dtype))  # (N, k)
        shares = (-squared.float() / self.temperature).softmax(dim=1)  # (N, k)
        vote = torch.zeros_like(logp).scatter_add_(1, self.values[places], shares)  # (N, V)
        return torch.logaddexp(logp + math.log1p(-self.weight), (self.weight * vote).log())


def _require_sense(neighbours: int, weight: float, most: float = math.inf) -> None:
    expected = "1 or more" if most == math.inf else f"from 1 to the number of entries, {most}"
    require(1 <= neighbours <= most, "neighbours", expected, neighbours)
    require(0 <= weight < 1, "neighbour_weight", "in [0, 1)", weight)


def without_output(model: Transformer) -> Transformer:
    """A copy that gives the vectors (…, D) before the output layer; it shares the tensors."""
    shared: dict[int, Any] = {id(t): t for t in [*model.parameters(), *model.buffers()]}
    body = copy.deepcopy(model, shared)
    body.output = nn.Identity()
    return body


def with_neighbours(
    translator: Translator, neighbours: int | None, weight: float | None = None
) -> Translator:
    """The same translator, which looks each next word up among its training pairs.

    `neighbours` None leaves it as it is.  Each model of an ensemble looks up entries of its own.
    Synthetic pairs are not among them.  Raises ValueError for a weight without neighbours,
    and FileNotFoundError where the corpus is not at hand.
    """
    if neighbours is None:
        require(weight is None, "neighbour_weight", "given only with neighbours", weight)
        return translator
    weight = WEIGHT if weight is None else weight
    _require_sense(neighbours, weight)  # before the corpus is read
    settings = translator.settings.corpus
    pairs = load_corpus(settings).train
    longest = translator.model.config.max_length
    examples, _ = encode_pairs(pairs, translator.source, translator.target, longest)
    looked_up = {"neighbours": neighbours, "weight": weight}
    model: Any = translator.model
    alone = [*model.models] if isinstance(model, Ensemble) else [model]
    models = [NeighbourModel(one, Datastore.build(one, examples), **looked_up) for one in alone]
    return Translator(
        models[0] if len(models) == 1 else Ensemble(models),
        translator.source,
        translator.target,
        translator.settings,
        translator.notes | {"neighbours": neighbours, "neighbour_weight": weight},
    )
