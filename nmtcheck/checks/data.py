"""Checks of the data: shifted targets, pairs, padding, vocabularies."""

from __future__ import annotations

from torch import Tensor

from nmtcheck.adapter import Adapter, IdBatch, IdPair
from nmtcheck.measure.helpers import pairs, tensor
from nmtcheck.registry import Finding, check


def three_tensors(found: object, what: str) -> IdBatch:
    """The batch, where it is three tables of as many rows."""
    if not isinstance(found, tuple | list) or len(found) != 3:
        raise Finding(f"{what} is not a triple of tensors: source, decoder input, labels")
    source = tensor(found[0], f"the source of {what}", ("B", "S"))
    target = tensor(found[1], f"the decoder input of {what}", (len(source), "T"))
    return source, target, tensor(found[2], f"the table of labels of {what}", tuple(target.shape))


def words(adapter: Adapter, row: Tensor) -> list[int]:
    """The word ids of a padded row."""
    return [i for i in row.tolist() if i not in (adapter.pad, adapter.bos, adapter.eos)]


@check("data.shift", "make_batch")
def shift(adapter: Adapter, seed: int) -> str:
    """The decoder reads BOS and the words, and learns the words and EOS: shifted once."""
    examples = pairs(adapter, seed, [(5, 4), (3, 6), (2, 1)])
    _, target, labels = three_tensors(adapter.make_batch(examples), "the batch")
    for row, (_, said) in enumerate(examples):
        reads = [i for i in target[row].tolist() if i != adapter.pad]
        learns = [i for i in labels[row].tolist() if i != adapter.pad]
        if learns != [*said, adapter.eos]:
            same = "The labels are the decoder's own input, not shifted." if learns == reads else ""
            expected = f"expected {[*said, adapter.eos]}"
            raise Finding(f"for the words {said} the labels are {learns}, {expected}", same)
        # A decoder may read EOS where its label is PAD: nothing is learned there.
        # The start symbol may be another one than BOS, and even PAD; no word can be one.
        first = int(target[row, 0])
        wanted = [first if first < adapter.first_word else adapter.bos, *said]
        reads = [*wanted[:1], *reads] if first == adapter.pad else reads
        if reads not in (wanted, [*wanted, adapter.eos]):
            raise Finding(f"for the words {said} the decoder reads {reads}, expected {wanted}")
    return f"reads id {first} first, learns EOS last, in {len(examples)} rows"


@check("data.pairs", "make_batches")
def stay_paired(adapter: Adapter, seed: int) -> str:
    """Every source stays with its target, and every pair appears once in an epoch."""
    given, found = various(adapter, seed), []
    for made in adapter.make_batches(given, 40):
        source, _, labels = three_tensors(made, "a batch")
        rows = zip(source, labels, strict=True)
        found += [(words(adapter, s), words(adapter, t)) for s, t in rows]
    if wrong := [pair for pair in found if pair not in given]:
        sources, targets = zip(*given, strict=True)
        mixed = wrong[0][0] in sources and wrong[0][1] in targets
        message = f"{len(wrong)} of {len(found)} pairs do not exist in the data, such as {wrong[0]}"
        cause = "The source of one pair is combined with the target of another." if mixed else ""
        raise Finding(message, cause)
    if len(found) != len(given) or any(pair not in found for pair in given):
        raise Finding(f"{len(given)} pairs were given, {len(found)} appear in the batches")
    return f"{len(given)} pairs, each once and together"


def various(adapter: Adapter, seed: int) -> list[IdPair]:
    """Pairs of many lengths, in no order."""
    sources, targets = (9, 2, 3, 8, 1, 4, 2, 7, 1, 3, 5, 6), (8, 2, 4, 9, 1, 3, 1, 7, 2, 3, 6, 5)
    return pairs(adapter, seed, list(zip(sources, targets, strict=True)), vocab=1000)


@check("data.padding", "make_batches")
def padding(adapter: Adapter, seed: int) -> str:
    """A batch is padded to its own longest sentence."""
    made = adapter.make_batches(various(adapter, seed), 40)
    batches = [three_tensors(batch, "a batch") for batch in made]
    padded = total = 0
    for batch in batches:
        for table, side in zip(batch, ("source", "decoder input", "labels"), strict=True):
            empty = int((table == adapter.pad).all(dim=0).sum())
            # A decoder that reads EOS too has one more place than labels to learn.
            if empty > (1 if side == "labels" else 0):
                columns = f"{empty} columns that contain only PAD"
                raise Finding(f"a {side} of width {table.size(1)} has {columns}")
            padded, total = padded + int((table == adapter.pad).sum()), total + table.numel()
    share = f"{padded / total:.0%} is PAD"
    return f"{len(batches)} batches, each as wide as its longest sentence; {share}"


@check("data.vocabulary", "vocabulary")
def vocabulary(adapter: Adapter, seed: int) -> str:
    """Words and subwords are learned from the training sentences alone."""
    train = ["the dog and the cat eat in the garden"] * 20
    others = ["buzzy buzzy jukebox"] * 20, ["quizzy quizzy pyx"] * 20
    tokens = {*adapter.vocabulary(train, *others)}
    # What a tokenizer has from the beginning, such as an alphabet of all bytes, it has always.
    added = sorted(tokens - {*adapter.vocabulary(train, train, train)})
    if added:
        shown = ", ".join(map(repr, added[:4]))
        count = f"{len(added)} tokens come from validation or test sentences"
        raise Finding(f"{count}, such as {shown}")
    if not {"dog", "cat"} <= {token.strip("▁Ġ").removesuffix("</w>") for token in tokens}:
        raise Finding("words of the training sentences have no id of their own")
    return f"{len(tokens)} tokens, the same whatever validation and test sentences are"


@check("data.marks", "encode_text")
def marks(adapter: Adapter, seed: int) -> str:
    """Subword marks are part of a token and are looked up with it."""
    names = {3: "<UNK>", adapter.pad: "<PAD>", adapter.bos: "<BOS>", adapter.eos: "<EOS>"}
    specials = [names.get(number, f"<{number}>") for number in range(adapter.first_word)]
    tokens = [*specials, "na@@", "ils", "a", "na", "dog"]
    found = adapter.encode_text(tokens, "a na@@ ils dog")
    found = [i for i in found if i not in (adapter.bos, adapter.eos)]
    expected, stripped = (
        [tokens.index(token) for token in ("a", piece, "ils", "dog")] for piece in ("na@@", "na")
    )
    if found != expected:
        cause = "The mark is stripped: 'na@@' became the word 'na'." if found == stripped else ""
        raise Finding(f"'a na@@ ils dog' has the ids {found}, expected {expected}", cause)
    if len(adapter.encode_text(tokens, "a unheardof dog")) == len(
        adapter.encode_text(tokens, "a dog")
    ):
        cause = "Unknown words are dropped; they must become UNK."
        raise Finding("a sentence with an unknown word has as many ids as without it", cause)
    return "'na@@' and 'na' are two tokens with two ids, and an unknown word has one"


@check("data.long_sentences", "make_batch")
def long_sentences(adapter: Adapter, seed: int) -> str:
    """The source and labels of a long pair end like those of a short one."""
    short, said = pairs(adapter, seed, [(3, 3)])[0], []
    for length in (40, 150, 700):
        pair = pairs(adapter, seed, [(length, length)])[0]
        try:
            made = adapter.make_batch([short, pair])
        except Exception as error:  # a pair that is too long may be refused
            said.append(f"{length} words are refused ({type(error).__name__})")
            break
        source, _, labels = three_tensors(made, "the batch")
        if len(source) < 2:
            said.append(f"a pair of {length} words is left out")
            break
        for table, side in ((source, "source"), (labels, "table of labels")):
            few, many = ([i for i in row.tolist() if i != adapter.pad] for row in table)
            if few[-1] < adapter.first_word and many[-1] != few[-1]:
                end = f"ends in the word {many[-1]}, that of a pair of 3 words in id {few[-1]}"
                raise Finding(f"the {side} of {length} words has {len(many)} ids and {end}")
        said.append(f"{length} words have {len(many)} labels")
    return "; ".join(said)
