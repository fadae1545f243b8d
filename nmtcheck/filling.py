"""Fill the arguments of a model's class by their names."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from nmtcheck.adapter import Sizes

# What the arguments of a Transformer are called; compared in lower case and without underscores.
SIZES = {
    "source_vocab_size": "sourcevocabsize sourcevocab srcvocabsize srcvocab nsrcvocab inputdim "
    "encvocabsize srcvocablen vocabsize ntokens ntoken",
    "target_vocab_size": "targetvocabsize targetvocab tgtvocabsize trgvocabsize tgtvocab trgvocab "
    "ntrgvocab ntgtvocab outputdim decvocabsize tgtvocablen vocabsize ntokens ntoken",
    "d_model": "dmodel embsize embedsize embeddim hiddim hiddensize modeldim dim dembed dwordvec "
    "numhiddens nembd emsize",
    "n_heads": "nheads heads h nhead numheads numattentionheads",
    "n_layers": "n nlayers layers numlayers nlayer numencoderlayers numdecoderlayers numblks",
    "d_ff": "dff pfdim ffdim dimfeedforward ffnhidden dinner ffnnumhiddens ffnhiddim ffnhiddensize "
    "hiddenff",
    "dropout": "dropout dropprob dropoutp pdrop drop dropoutrate",
    "max_length": "maxlength maxlen maxseqlen maxseqlength seqlen srcseqlen tgtseqlen trgseqlen "
    "nposition maxpositionembeddings blocksize",
}
IDS = {
    "pad": "pad padid padidx padtoken padtokenid srcpad srcpadidx trgpad trgpadidx tgtpad "
    "tgtpadidx",
    "bos": "bos bosid bosidx sos sosidx trgsosidx tgtsosidx bostokenid",
    "eos": "eos eosid eosidx trgeosidx tgteosidx eostokenid",
}
CALLED = {name: field for field, names in (SIZES | IDS).items() for name in names.split()}


def fillable(factory: Callable[..., Any]) -> dict[str, str]:
    """The arguments of a factory whose meaning is known: argument -> size or id."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except ValueError:  # a callable without a signature, from C
        return {}
    kinds = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = {p.name: p.name.lower().replace("_", "") for p in parameters if p.kind in kinds}
    meant = {name: CALLED[plain] for name, plain in names.items() if plain in CALLED}
    heads = {name: "d_head" for name, plain in names.items() if plain in ("dk", "dv", "headdim")}
    return meant | heads | {name: "device" for name in names if name == "device"}


def filled(factory: Callable[..., Any], ids: dict[str, int]) -> Callable[[Sizes], Any]:
    """A factory of sizes that fills the arguments of the given one."""
    meant = fillable(factory)

    def make(sizes: Sizes) -> Any:
        values = {**vars(sizes), **ids, "d_head": sizes.d_model // sizes.n_heads}
        values["device"] = torch.device("cpu")
        return factory(**{name: values[field] for name, field in meant.items()})

    return make


def follows_sizes(factory: Callable[..., Any]) -> bool:
    """Whether a filled factory makes models of the vocabulary and with the dropout asked for."""
    return {"target_vocab_size", "dropout"} <= set(fillable(factory).values())
