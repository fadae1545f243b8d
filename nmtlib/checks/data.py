"""Checks of the data: shifted targets, pairs, padding, vocabularies."""

from __future__ import annotations

from torch import Tensor

from nmtlib.checks.adapter import Adapter, IdBatch, IdPair
from nmtlib.checks.helpers import pairs
from nmtlib.checks.registry import Finding, check

NOTEBOOK = "01_text_to_tensors"
CHINESE = "14_english_chinese"


def three_tensors(found, what: str) -> IdBatch:
    """The batch, where it is three tables of as many rows."""
    if (
        not isinstance(found, tuple | list)
        or len(found) != 3
        or not all(isinstance(t, Tensor) for t in found)
    ):
        raise Finding(f"{what} is no triple of tensors: source, decoder input, labels")
    source, target, labels = found
    if not (
        source.dim() == target.dim() == labels.dim() == 2
        and len(source) == len(target) == len(labels)
    ):
        raise Finding(
            f"{what} has the shapes {', '.join(str(tuple(t.shape)) for t in found)}; expected (B, S), (B, T) "
            f"and (B, T)"
        )
    if target.shape != labels.shape:
        raise Finding(
            f"decoder input {tuple(target.shape)} and labels {tuple(labels.shape)} have different shapes"
        )
    return source, target, labels


def words(adapter: Adapter, row: Tensor) -> list[int]:
    """The word ids of a padded row."""
    return [i for i in row.tolist() if i not in (adapter.pad, adapter.bos, adapter.eos)]


@check(
    "data.shift",
    cause="The target is not shifted (the model copies its input), or shifted in two places.",
    notebook="09_training",
    needs=("make_batch",),
)
def shift(adapter: Adapter, seed: int) -> str:
    """The decoder reads BOS and the words, and learns the words and EOS: shifted once."""
    examples = pairs(adapter, seed, [(5, 4), (3, 6), (2, 1)])
    _, target, labels = three_tensors(adapter.make_batch(examples), "the batch")
    for row, (_, said) in enumerate(examples):
        reads, learns = (
            [i for i in table[row].tolist() if i != adapter.pad] for table in (target, labels)
        )
        if learns != [*said, adapter.eos]:
            cause = (
                "The labels are the decoder's own input, not shifted." if learns == reads else ""
            )
            raise Finding(
                f"for the words {said} the labels are {learns}, expected {[*said, adapter.eos]}",
                cause,
            )
        # A decoder may go on to read EOS where its label is PAD: nothing is learned there.
        if reads[: len(said) + 1] != [adapter.bos, *said] or reads[len(said) + 1 :] not in (
            [],
            [adapter.eos],
        ):
            raise Finding(
                f"for the words {said} the decoder reads {reads}, expected {[adapter.bos, *said]}"
            )
    return f"reads BOS first, learns EOS last, in {len(examples)} rows"


@check(
    "data.pairs",
    cause="Sources and targets are sorted apart, or an index is off by one; pairs are dropped with "
    "the last batch.",
    notebook=NOTEBOOK,
    needs=("make_batches",),
)
def stay_paired(adapter: Adapter, seed: int) -> str:
    """Every source stays with its target, and every pair comes once in an epoch."""
    given = various(adapter, seed)
    found = []
    for made in adapter.make_batches(given, 40):
        source, _, labels = three_tensors(made, "a batch")
        found += [
            (words(adapter, s), words(adapter, t)) for s, t in zip(source, labels, strict=True)
        ]
    wrong = [pair for pair in found if pair not in given]
    if wrong:
        mixed = any(wrong[0][0] == source for source, _ in given) and any(
            wrong[0][1] == target for _, target in given
        )
        raise Finding(
            f"{len(wrong)} of {len(found)} pairs were not given, such as {wrong[0]}",
            "The source of one pair stands with the target of another." if mixed else "",
        )
    if len(found) != len(given) or any(pair not in found for pair in given):
        raise Finding(f"{len(given)} pairs were given, {len(found)} come in the batches")
    return f"{len(given)} pairs, each once and together"


def various(adapter: Adapter, seed: int) -> list[IdPair]:
    """Pairs of many lengths, in no order."""
    lengths = [
        (9, 8),
        (2, 2),
        (3, 4),
        (8, 9),
        (1, 1),
        (4, 3),
        (2, 1),
        (7, 7),
        (1, 2),
        (3, 3),
        (5, 6),
        (6, 5),
    ]
    return pairs(adapter, seed, lengths, vocab=1000)


@check(
    "data.padding",
    cause="Everything is padded to the longest sentence of the corpus: memory and time go into "
    "PAD.",
    notebook=NOTEBOOK,
    needs=("make_batches",),
)
def padding(adapter: Adapter, seed: int) -> str:
    """A batch is padded to its own longest sentence."""
    batches = [
        three_tensors(b, "a batch") for b in adapter.make_batches(various(adapter, seed), 40)
    ]
    padded = total = 0
    for made in batches:
        for table, side in zip(made, ("source", "decoder input", "labels"), strict=True):
            empty = int((table == adapter.pad).all(dim=0).sum())
            # A decoder that reads EOS too has one more place than labels to learn.
            if empty > (1 if side == "labels" else 0):
                raise Finding(
                    f"a {side} of width {table.size(1)} has {empty} columns that hold nothing but PAD"
                )
            padded, total = padded + int((table == adapter.pad).sum()), total + table.numel()
    return (
        f"{len(batches)} batches, each as wide as its longest sentence; {padded / total:.0%} is PAD"
    )


@check(
    "data.vocabulary",
    cause="Validation or test sentences are counted too: a leak, and words that are never trained.",
    notebook=NOTEBOOK,
    needs=("vocabulary",),
)
def vocabulary(adapter: Adapter, seed: int) -> str:
    """The vocabulary is made from the training sentences alone."""
    train, validation, test = ["dog cat", "dog bird"] * 5, ["dog horse"] * 9, ["cat zebra"] * 9
    known = {
        token.lstrip("▁").removesuffix("</w>")
        for token in adapter.vocabulary(train, validation, test)
    }
    leaked = [
        f"{word} ({split})"
        for word, split in (("horse", "validation"), ("zebra", "test"))
        if word in known
    ]
    if leaked:
        raise Finding(
            f"words that the training sentences do not hold have an id: {', '.join(leaked)}"
        )
    if not {"dog", "cat"} <= known:
        raise Finding("words of the training sentences have no id of their own")
    return "words of validation and test sentences have no id"


@check(
    "data.marks",
    cause="'@@' is stripped before the look-up: most pieces become <UNK>, or the wrong word.",
    notebook=CHINESE,
    needs=("encode_text",),
)
def marks(adapter: Adapter, seed: int) -> str:
    """Subword marks are part of a token and are looked up with it."""
    specials = [f"<{number}>" for number in range(adapter.first_word)]
    for number, name in ((adapter.pad, "<PAD>"), (adapter.bos, "<BOS>"), (adapter.eos, "<EOS>")):
        if number < len(specials):
            specials[number] = name
    specials = [
        name if name.isupper() else "<UNK>" if number == 3 else name
        for number, name in enumerate(specials)
    ]
    tokens = [*specials, "na@@", "ils", "a", "na", "dog"]
    found = list(adapter.encode_text(tokens, "a na@@ ils dog"))
    found = [i for i in found if i not in (adapter.bos, adapter.eos)]
    expected = [tokens.index(token) for token in ("a", "na@@", "ils", "dog")]
    if found != expected:
        stripped = found == [tokens.index(token) for token in ("a", "na", "ils", "dog")]
        raise Finding(
            f"'a na@@ ils dog' has the ids {found}, expected {expected}",
            "The mark is stripped: 'na@@' became the word 'na'." if stripped else "",
        )
    return "'na@@' and 'na' are two tokens with two ids"
