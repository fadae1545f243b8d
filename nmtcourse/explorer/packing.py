"""A run as the data of an explorer page: weights as text, tokenizers, examples with gold links."""

from __future__ import annotations

import base64
import json
import random
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from nmtcourse import confidence
from nmtcourse.toy import RENDERERS, TOY_CORPORA, load_toy
from nmtcourse.toy.sampler import Sampler
from nmtlib.data.codec import Codec
from nmtlib.data.corpus import Pair
from nmtlib.data.tokenizers import BPETokenizer, SpacyTokenizer, WhitespaceTokenizer
from nmtlib.inference.translator import Translator
from nmtlib.model.choices import require_expressible
from nmtlib.model.transformer import Transformer
from nmtlib.run import Run
from nmtlib.specials import SPECIALS

WEB = Path(__file__).with_name("web")
EXAMPLES = 200  # sentences of a bundled corpus that ride along
CANDIDATES = 260  # of which some are translated wrongly or doubtfully
# The page's groups of words, as keys of the grammar: articles, people and things, verbs,
# adjectives, place and time; all others come last.
GROUPS = (
    r"(determiner|place\.the)$",
    r"(subject|object|recipient|companion|speaker|standard)$",
    r"\b(verb|aspect|copula)\b",
    r"adjective$",
    r"\b(place|time)",
)
# For each shipped model the sentence that each switch changes most, and such as beam search wins or
# loses against greedy search: see breaks.mjs.
BREAKS: dict[str, dict[str, str]] = json.loads(WEB.with_name("breaks.json").read_text("utf-8"))
HARMLESS = str.maketrans("<&", ",.")  # digits of base85 that mean something in HTML, and free ones


def pack(run: Run, name: str) -> dict[str, Any]:
    """All that the page needs to know of a run, in values that JSON holds.

    Raises ValueError for a model or tokenizer that a browser cannot imitate, or weights beyond
    float16, and as `Translator.load` does.
    """
    translator = Translator.load(run.folder, device="cpu")
    require_expressible(translator.model.config, "explorer")
    decoding = translator.settings.decoding
    pairs = examples(translator, run)
    return {
        "name": name,
        "languages": list(translator.settings.corpus.languages),
        "config": asdict(translator.model.config),
        "decoding": {"beam": decoding.beam, "lengthPenalty": decoding.length_penalty},
        "smoothing": translator.settings.training.label_smoothing,
        "toy": toy_corpus(translator) != "",
        "lexicon": lexicon(translator),
        "source": pack_codec(translator.source, [pair.source for pair in pairs]),
        "target": pack_codec(translator.target, [pair.target for pair in pairs]),
        "examples": [[pair.source, pair.target, pharaoh(pair)] for pair in pairs],
        "breaks": BREAKS.get(name, {}),
        "learns": learning(name) != "",
        "confidence": confidence.to_dict(run.folder),
        "credit": samples(run)[1],
        "links": [],
        "weights": pack_weights(translator.model),
    }


def learning(name: str) -> str:
    """The small training that the page of a shipped model plays, as JSON; "" for another run."""
    file = WEB.with_name(f"learning-{name[-5:]}.json")  # of the two languages
    if name not in BREAKS or not file.is_file():
        return ""
    return file.read_text("utf-8").strip()


def pack_weights(model: Transformer, bits: int = 10) -> dict[str, Any]:
    """The parameters in half precision: all high bytes, then all low bytes, each compressed.

    The high bytes, sign and exponent, are far from random; alone they compress best, and fewer
    `bits` of the fraction more so.  Raises ValueError for a weight that float16 cannot hold.
    """
    tensors = {name: tensor.detach() for name, tensor in model.named_parameters()}  # tied once
    exact = torch.cat([tensor.flatten() for tensor in tensors.values()])
    half = rounded(exact, bits)
    if not half.isfinite().all():
        raise ValueError(
            f"weights up to {exact.abs().max():g}, but a page holds float16, up to 65504; "
            f"train with a lower learning rate"
        )
    planes = half.view(torch.uint8).numpy().reshape(-1, 2)  # the low byte first, as on any machine
    return {
        "tensors": [[name, list(tensor.shape)] for name, tensor in tensors.items()],
        "rounded": not bool((half == exact).all()),
        "high": as_text(planes[:, 1].tobytes()),
        "low": as_text(planes[:, 0].tobytes()),
    }


def rounded(exact: torch.Tensor, bits: int) -> torch.Tensor:
    """Numbers in half precision, with so many bits of its fraction."""
    unit = 1 << (10 - bits)  # of the last place; a carry goes on into the exponent
    return ((exact.half().view(torch.int16) + unit // 2) & -unit).view(torch.half)


def as_text(data: bytes) -> dict[str, Any]:
    """Bytes as gzip, in digits that HTML and JSON leave alone; five stand for four bytes."""
    coder = zlib.compressobj(9, wbits=31, strategy=zlib.Z_FILTERED)  # weights hardly repeat
    small = coder.compress(data) + coder.flush()
    text = base64.b85encode(small, pad=True).decode("ascii")
    return {"bytes": len(small), "text": text.translate(HARMLESS)}


def pack_codec(codec: Codec, sentences: Sequence[str]) -> dict[str, Any]:
    """Tokenizer and vocabulary; of spaCy, which is no part of a browser, only `sentences` as cut.

    Raises ValueError for a BPE that nmtlib did not train.
    """
    tokenizer = codec.tokenizer
    options = tokenizer.to_dict()
    if isinstance(tokenizer, BPETokenizer):
        options = pack_bpe(tokenizer)
    if isinstance(tokenizer, SpacyTokenizer):
        options["sentences"] = {text: tokenizer.encode(text) for text in sentences}
    return {"tokenizer": options, "tokens": codec.vocab.tokens}


def pack_bpe(tokenizer: BPETokenizer) -> dict[str, Any]:
    """The merges, in order; the rest is what `BPETokenizer.train` always makes."""
    merges = [" ".join(pair) for pair in tokenizer.merges()]
    return {"kind": "bpe", "lowercase": tokenizer.lowercase, "merges": merges}


def toy_corpus(translator: Translator) -> str:
    """The bundled corpus that a model was trained on, in either direction; "" for another one."""
    name = translator.settings.corpus.name
    if name in TOY_CORPORA:
        return name
    reversed_names = {f"toy-{b}-{a}": toy for toy, (a, b) in TOY_CORPORA.items()}
    return reversed_names.get(name, "")


def lexicon(translator: Translator) -> str:
    """For each word of a toy language the group in which the page offers it, a digit; else "".

    The grammar says of which part of a meaning a word speaks: most often, in some of its sentences.
    """
    source = translator.source
    if not (toy_corpus(translator) and isinstance(source.tokenizer, WhitespaceTokenizer)):
        return ""
    render = RENDERERS[translator.settings.corpus.languages[0]]
    sampler = Sampler(random.Random(0))
    groups: dict[str, Counter[int]] = defaultdict(Counter)
    for _ in range(4_000):
        for word, keys in render(sampler.sentence()):
            groups[word].update(map(group_of, keys))
    words = source.vocab.tokens[len(SPECIALS) :]
    most = {word: max(counts, key=counts.__getitem__) for word, counts in groups.items() if counts}
    return "".join(str(most.get(word, len(GROUPS))) for word in words)


def group_of(key: str) -> int:
    """The first of `GROUPS` that a key of the grammar belongs to; the last is for all others."""
    return next((n for n, group in enumerate(GROUPS) if re.search(group, key)), len(GROUPS))


def examples(translator: Translator, run: Run) -> list[Pair]:
    """Sentences to choose from: of a bundled corpus test pairs, with gold links; else samples.

    None that the model translates wrongly or doubtfully, unless it translates all so.
    """
    toy = toy_corpus(translator)
    if toy:
        pairs = random.Random(0).sample(load_toy(toy, train=0, challenge=0).test, CANDIDATES)
        if translator.settings.corpus.name != toy:  # the other direction
            pairs = [pair.reversed() for pair in pairs]
    else:
        pairs = samples(run)[0]
    rule = confidence.load(run.folder)
    if rule is None or not pairs:
        return pairs[:EXAMPLES]
    judged = confidence.judge(translator, pairs)
    good = []
    for judgement in judged:
        # Only a toy sentence has one right translation.
        is_right = not toy or judgement.translation == judgement.pair.target
        if is_right and not rule.doubts(judgement.perplexity):
            good.append(judgement.pair)
    return (good or pairs)[:EXAMPLES]


def samples(run: Run) -> tuple[list[Pair], str]:
    """The validation sentences that a finished training leaves beside its weights.

    And where they are from: the lines of the file that begin with "# ".
    """
    text = ""
    if run.samples_file.is_file():
        text = run.samples_file.read_text("utf-8")
    blocks = re.findall(r"^source {5}(.*)\nmodel {6}(.*)\nreference {2}(.*)$", text, re.MULTILINE)
    pairs = []
    for source, translation, reference in blocks:
        if reference == "(the same)":
            reference = translation
        pairs.append(Pair(source, reference))
    return pairs, " ".join(re.findall(r"^# (.*)$", text, re.MULTILINE))


def pharaoh(pair: Pair) -> str:
    """Links as "0-0 1-2": source position, target position, both from 0."""
    return " ".join(f"{source}-{target}" for source, target in pair.alignment)
