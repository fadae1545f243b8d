"""Tables of word vectors, for notebook 02: cosines, nearest neighbours, and a map."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from nmtlib.inference.translator import Translator
from nmtlib.specials import SPECIALS


def directions(translator: Translator, side: str) -> tuple[list[str], Tensor]:
    """The words of one side ("source" or "target"), and their vectors at norm 1, (V, D)."""
    first = len(SPECIALS)
    table = translator.model.get_submodule(f"{side}_embedding").weight.detach().float()
    return getattr(translator, side).vocab.tokens[first:], F.normalize(table[first:], dim=-1)


def cosines(translator: Translator, side: str, words: Sequence[str]) -> Tensor:
    """The cosine of each word with each, (N, N)."""
    tokens, vectors = directions(translator, side)
    some = vectors[[tokens.index(word) for word in words]]  # (N, D)
    return some @ some.T


def neighbours(
    translator: Translator, side: str, word: str, count: int = 3
) -> list[tuple[str, float]]:
    """The words whose vectors have the largest cosines with that of a word, and these cosines."""
    tokens, vectors = directions(translator, side)
    nearest = (vectors @ vectors[tokens.index(word)]).topk(count + 1)
    pairs = zip(nearest.indices.tolist(), nearest.values.tolist(), strict=True)
    return [(tokens[i], cosine) for i, cosine in pairs][1:]  # the first is the word itself


def map_of(translator: Translator, side: str, words: Sequence[str]) -> tuple[Tensor, float]:
    """The first two principal components of some words, (N, 2), and their share of the variance.

    The signs are such that the first word stands at the upper right.
    """
    tokens, vectors = directions(translator, side)
    some = vectors[[tokens.index(word) for word in words]]  # (N, D)
    centred = some - some.mean(dim=0)
    _, singular, right = torch.linalg.svd(centred, full_matrices=False)
    points = centred @ right[:2].T  # (N, 2)
    explained = singular[:2].square().sum() / singular.square().sum()
    return points * points[0].sign(), explained.item()
