"""Checks of BLEU: words are counted, and Chinese has no spaces between them."""

from __future__ import annotations

from collections.abc import Sequence

from nmtcheck.adapter import Adapter
from nmtcheck.registry import Finding, check

# Some n-grams of each size match, so no implementation needs its smoothing; all tokenizers agree
# on the words.
HYPOTHESES = [
    "the small dog runs over the green field",
    "a man reads the old book in the garden",
    "two children play with a red ball",
]
REFERENCES = [
    "the small dog runs across the green field",
    "a man reads an old book in the garden today",
    "two children play with the red ball",
]


def corpus_bleu(hypotheses: list[str], references: list[str]) -> float:
    """BLEU in [0, 1] of the words between spaces, one reference each, unsmoothed."""
    from sacrebleu import corpus_bleu as score  # imported when used: it takes a while

    options = {"smooth_method": "none", "tokenize": "none", "force": True}
    return score(hypotheses, [references], **options).score / 100


def judge(found: float, hypotheses: Sequence[str], references: Sequence[str]) -> str:
    """Compare a score of texts with BLEU over words, on either scale; a Finding says what it is."""
    right, said = corpus_bleu([*hypotheses], [*references]), f"BLEU is {found:.4g}"
    if min(abs(found - right), abs(found / 100 - right)) < 6e-4:
        return f"{said}; BLEU over words is {right:.4f}"
    raise Finding(f"{said}, expected {right:.4f} (or 100 times that)")


@check("metrics.bleu", "bleu")
def bleu(adapter: Adapter, seed: int) -> str:
    """BLEU of plain text counts words, as sacreBLEU does."""
    found = float(adapter.bleu(list(HYPOTHESES), list(REFERENCES), "en"))
    return judge(found, HYPOTHESES, REFERENCES)


@check("metrics.word_bleu", "word_bleu")
def word_bleu(adapter: Adapter, seed: int) -> str:
    """BLEU of tokenized text counts the tokens, as NLTK does with lists of them."""
    found = float(adapter.word_bleu(list(HYPOTHESES), list(REFERENCES)))
    return judge(found, HYPOTHESES, REFERENCES)


@check("metrics.bleu_chinese", "bleu")
def bleu_chinese(adapter: Adapter, seed: int) -> str:
    """Chinese is split into characters or words before BLEU counts them."""
    same = "他昨天在城里的图书馆看了一本很有意思的书"
    found = float(adapter.bleu([same[:-1] + "报"], [same], "zh"))
    perfect = float(adapter.bleu([same], [same], "zh"))
    if perfect <= 0:
        raise Finding(f"a translation equal to its reference has the BLEU {perfect:.3g}")
    wrong = f"one wrong character among {len(same)} brings BLEU from {perfect:.4g} to"
    if found < 0.3 * perfect:
        raise Finding(f"{wrong} {found:.2g}")
    return f"{wrong} {found:.4g}"


def number_words(count: int) -> list[str]:
    """So many words of letters: every tokenizer leaves them alone."""
    return ["".join(chr(97 + int(digit)) for digit in f"{number:03}") for number in range(count)]


def rehearse(adapter: Adapter, right: int, wrong: int) -> tuple[list[str], list[list[int]]]:
    """References of eight words, and ids that a model says: right, then with two words wrong."""
    words, references, said = number_words(40), [], []
    for number in range(right + wrong):
        row = [(7 * number + 3 * place * place) % 40 for place in range(8)]
        references.append(" ".join(words[i] for i in row))
        heard = row if number < right else [*row[:6], *(39 - i for i in row[6:])]
        said.append([adapter.first_word + i for i in heard])
    return references, said


def vocabulary(adapter: Adapter) -> list[str]:
    """A vocabulary in the order of its ids: the special tokens, and forty words."""
    names = {adapter.pad: "<PAD>", adapter.bos: "<BOS>", adapter.eos: "<EOS>"}
    free = [i for i in range(adapter.first_word) if i not in names]
    names |= {i: "<UNK>" for i in free[-1:]}
    specials = [names.get(number, f"<{number}>") for number in range(adapter.first_word)]
    return [*specials, *number_words(40)]


@check("metrics.whole_score", "score")
def whole_score(adapter: Adapter, seed: int) -> str:
    """The reported BLEU is that of the words of all sentences."""
    references, said = rehearse(adapter, 1, 39)
    tokens = vocabulary(adapter)
    texts = [" ".join(tokens[i] for i in ids) for ids in said]
    return judge(float(adapter.score(tokens, said, references)), texts, references)


@check("metrics.unknown_words", "score")
def unknown_words(adapter: Adapter, seed: int) -> str:
    """UNK in a translation does not match words of a reference."""
    tokens = vocabulary(adapter)
    if "<UNK>" not in tokens:
        raise NotImplementedError("no special id is left for UNK")
    references, said = rehearse(adapter, 20, 0)
    perfect = float(adapter.score(tokens, said, references))
    if perfect <= 0:
        raise NotImplementedError("right translations have a BLEU of 0: see the other checks")
    unknown = [ref.split() for ref in references]
    for row, (reference, ids) in enumerate(zip(unknown, said, strict=True)):
        reference[row % 8], ids[row % 8] = f"zebra{'z' * row}", tokens.index("<UNK>")
    found = float(adapter.score(tokens, said, [" ".join(words) for words in unknown]))
    lost = f"with UNK instead of one word in eight BLEU is {found:.4g}"
    if found > 0.98 * perfect:
        raise Finding(f"{lost}, as if every word were right ({perfect:.4g})")
    return f"{lost}; for the right words it is {perfect:.4g}"
