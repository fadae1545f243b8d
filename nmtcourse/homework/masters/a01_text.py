"""Homework 01: a vocabulary, byte-pair encoding, batches within a token budget."""

from collections import Counter

import torch

from nmtcourse.homework.compare import holds, refuses, short
from nmtcourse.homework.inputs import Draw
from nmtcourse.homework.signatures import Made, OneOf, Whole
from nmtcourse.homework.task import Assignment

homework = Assignment(
    "01",
    "text",
    "From text to tensors",
    opening="""
    You write a vocabulary that encodes and decodes, learn the merges of byte-pair encoding, and
    group sentences into batches with little padding.
    """,
    imports="from collections import Counter\n\nimport torch",
)


def some_sentences(draw: Draw) -> list[list[str]]:
    """Sentences, some of them empty, with rare, frequent and equally frequent words."""
    words = draw.shuffled("a b aa ab Haus haus Zoo zoo . - 1999 x1 ß é <b> </b> 你好 你".split())
    words = [*words[: draw.size(1, 18)], *(f"w{n}" for n in range(draw.sizes(1)[0] // 9 * 9))]
    said = draw.shuffled([w for w in words for _ in range(draw.random.choice((1, 1, 2, 3, 3, 12)))])
    cuts = sorted(draw.random.choices(range(len(said) + 1), k=draw.size(0, 4)))
    return [said[a:b] for a, b in zip([0, *cuts], [*cuts, len(said)], strict=True)]


def some_counts(draw: Draw) -> dict[str, int]:
    """Words and how often they occur: few letters, repeated ones, and hardly any words."""
    letters = draw.one_of(["ab", "a", "abc", "lowerst", "aAbB.1é<你"])
    words: dict[str, int] = {}
    for _ in range(draw.sizes(1, 0, 6, 60)[0]):
        word = "".join(draw.random.choices(letters, k=draw.random.randint(1, 8)))
        words[word] = draw.random.choice((1, 1, 2, 3, 30, 1000))
    return words


def words_of(sentences: list[list[str]]) -> list[str]:
    """All words of some sentences, and one that is in none."""
    return [*sorted({word for sentence in sentences for word in sentence}), "never-seen", ""]


def some_ids(draw: Draw, known: dict) -> list[int]:
    """Some of the ids that a vocabulary of these sentences has."""
    counts = Counter(word for sentence in known["sentences"] for word in sentence)
    kept = sum(n >= known["min_count"] for n in counts.values())
    return draw.random.choices(range(4 + kept), k=draw.size(0, 9))


@homework.task(
    "easy",
    "A vocabulary",
    """
    Write a vocabulary of words, built from tokenised training sentences (lists of words). Ids 0 to
    3 are `<PAD>`, `<BOS>`, `<EOS>` and `<UNK>`; the words follow, most frequent first, and words of
    equal frequency in the order of Python's `sorted`. Words that occur fewer than `min_count` times
    get no id. `encode(words)` returns a list of ids, with UNK for words that have none.
    `decode(ids)` returns the words: it drops PAD, BOS and EOS and shows UNK as `<UNK>`.
    """,
    hints=(
        "Build the list of tokens first; the dictionary from word to id follows from it.",
        "Sort by two keys: minus the count, then the word.",
    ),
    read="notebook 01, section 3",
    mistakes=r"""
    The special tokens do not have the ids 0 to 3.
        [*SPECIALS, *kept] => [*kept, *SPECIALS]
    The rarest words come first.
        (-counts[w], w) => (counts[w], w)
    Words of equal frequency are not in alphabetical order.
        (-counts[w], w) => (-counts[w], [-ord(c) for c in w])
    A word that occurs exactly `min_count` times is dropped.
        >= min_count => > min_count
    `min_count` is ignored: rare words are kept.
        if n >= min_count => if n
    Counts are numbers of sentences, not of occurrences.
        counts.update(sentence) => counts.update(set(sentence))
    An unknown word raises an error instead of becoming UNK.
        self.ids.get(word, 3) => self.ids[word]
    An unknown word becomes PAD.
        self.ids.get(word, 3) => self.ids.get(word, 0)
    PAD, BOS and EOS are decoded as words.
        if i not in (0, 1, 2) => if True
    `decode` drops UNK: the reader cannot see that a word is missing.
        if i not in (0, 1, 2) => if i > 3
    """,
    signature={
        "sentences": Made(some_sentences),
        "others": Made(some_sentences),
        "min_count": Whole(1, 4),
        "words": Made(lambda draw, known: draw.shuffled(words_of(known["sentences"])), needs=True),
        "ids": Made(some_ids, needs=True),
    },
)
class Vocabulary:
    """Words and their ids; 0 to 3 are <PAD>, <BOS>, <EOS>, <UNK>."""

    def __init__(self, sentences: list[list[str]], min_count: int = 1):
        ### BEGIN SOLUTION
        SPECIALS = ["<PAD>", "<BOS>", "<EOS>", "<UNK>"]
        counts: Counter = Counter()
        for sentence in sentences:
            counts.update(sentence)
        kept = sorted(
            (w for w, n in counts.items() if n >= min_count), key=lambda w: (-counts[w], w)
        )
        self.tokens = [*SPECIALS, *kept]
        self.ids = {token: i for i, token in enumerate(self.tokens)}
        ### END SOLUTION

    def encode(self, words: list[str]) -> list[int]:
        """Words -> ids."""
        ### BEGIN SOLUTION
        return [self.ids.get(word, 3) for word in words]
        ### END SOLUTION

    def decode(self, ids: list[int]) -> list[str]:
        """Ids -> words, without PAD, BOS and EOS."""
        ### BEGIN SOLUTION
        return [self.tokens[i] for i in ids if i not in (0, 1, 2)]
        ### END SOLUTION


@homework.check(
    Vocabulary, "Encode a sentence whose word counts you know, and print the ids.", worth=2
)
def numbers_words_by_frequency(answer, sentences, others):
    """Words get the ids from 4 on, by frequency, then alphabetically, in each vocabulary anew."""
    vocabulary, words = answer(sentences), words_of(sentences)
    answer(others).encode(words)
    for _ in range(2):
        yield f"{sentences} encoded as {words}", vocabulary.encode([*words])


@homework.check(Vocabulary, "Which words does `min_count` keep, and which id do the others get?")
def leaves_rare_words_out(answer, sentences, min_count):
    """Words below `min_count` and unseen words become UNK; the others keep their order."""
    words, found = words_of(sentences), answer(sentences, min_count)
    yield f"{words} of {sentences} with min_count = {min_count}", found.encode([*words, *words[:1]])


homework.promise(
    Vocabulary,
    "Decoding returns the words without PAD, BOS and EOS, and shows UNK as <UNK>.",
    "What should the reader see of PAD, BOS, EOS and UNK?",
)


@homework.task(
    "medium",
    "Byte-pair encoding",
    """
    `words` maps each word to its number of occurrences. Every word starts as a sequence of
    characters. Each step finds the most frequent pair of adjacent symbols in all words and merges
    every occurrence into one symbol, from left to right within a word. Overlapping pairs count:
    `aaa` has (a, a) twice. Of pairs with equal counts, the first in the order of Python tuples is
    merged. Return the first `merges` pairs, as tuples, in the order of merging, or fewer if no pair
    is left. There is no end-of-word symbol. (Sennrich et al. 2016, section 3.2.)
    """,
    hints=(
        "Do three merges for {'aab': 2, 'ab': 3} with pen and paper first.",
        "Keep each word as a list of symbols, and count all pairs again in each step.",
    ),
    read="notebook 01, section 4",
    mistakes=r"""
    Word counts are ignored: each word counts once.
        pairs[pair] += count => pairs[pair] += 1
    A pair counts once for each word, not once for each occurrence in it.
        in zip(pieces, pieces[1:], strict=False): => in set(zip(pieces, pieces[1:], strict=False)):
    The rarest pair is merged.
        (-pairs[p], p) => (pairs[p], p)
    Of pairs with equal counts, the last one is merged.
        min(pairs, key=lambda p: (-pairs[p], p)) => max(pairs, key=lambda p: (pairs[p], p))
    Only the first occurrence of a pair in each word is merged.
        == best: => == best and ''.join(best) not in merged:
    Merges overlap: in aaa the pair aa is merged twice.
        .append(best[0] + best[1])\n                    i += 1 => .append(best[0] + best[1])
    The merge is not applied to the words: the same pair is found again.
        split[word] = merged => pass
    The merged symbols are returned, not the pairs.
        found.append(best) => found.append(best[0] + best[1])
    An error is raised when no pair is left.
        if not pairs: => if False:
    """,
    signature={"words": Made(some_counts), "merges": OneOf(1, 2, 3, 5, 8, 40, 0)},
)
def learn_merges(words: dict[str, int], merges: int) -> list[tuple[str, str]]:
    """The first pairs that byte-pair encoding merges, in order."""
    ### BEGIN SOLUTION
    split, found = {word: list(word) for word in words}, []
    for _ in range(merges):
        pairs: Counter = Counter()
        for word, count in words.items():
            pieces = split[word]
            for pair in zip(pieces, pieces[1:], strict=False):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda p: (-pairs[p], p))
        found.append(best)
        for word, pieces in split.items():
            merged, i = [], 0
            while i < len(pieces):
                if tuple(pieces[i : i + 2]) == best:
                    merged.append(best[0] + best[1])
                    i += 1
                else:
                    merged.append(pieces[i])
                i += 1
            split[word] = merged
    return found
    ### END SOLUTION


homework.promise(
    learn_merges,
    "The merges are right, one by one, repeated characters and equal counts included.",
    "Count the pairs of your first step by hand.",
)


@homework.task(
    "hard",
    "Batches within a token budget",
    """
    `lengths` holds the number of tokens of each sentence, of which there is at least one. Return
    batches, as lists of sentence indices, such that

    - every sentence is in exactly one batch;
    - the padded size of a batch (number of sentences times the longest length) is at most `budget`;
    - on a corpus of a thousand sentences, less than 10 % of all positions are padding, and there
      are fewer batches than 1.5 times the number of tokens / `budget`;
    - the same `seed` gives the same batches, and a different seed a different order;
    - neither the batches nor sentences of equal length keep the order of the corpus, and the
      batches are not sorted by length.

    The order within a batch is free. A sentence longer than the budget raises a `ValueError` that
    names its index. Draw from a generator of your own: Python's, NumPy's and torch's global
    generators stay untouched.
    """,
    seeded=True,
    hints=(
        "Sort by length, split into batches, shuffle the batches. What is still missing?",
        "Shuffle before you sort: a stable sort keeps the random order of equal lengths.",
    ),
    read="notebook 01, section 7",
    mistakes=r"""
    Sentences of different lengths share a batch: most positions are padding.
        order.sort(key=lambda i: lengths[i]) => pass
    The budget counts only real tokens, but padding takes memory as well.
        (len(batch) + 1) * lengths[i] > => sum(lengths[j] for j in batch) + lengths[i] >
    Each batch is closed one sentence too late.
        (len(batch) + 1) * lengths[i] => len(batch) * lengths[i]
    The last batch is lost.
        batches.append(batch)\n    order_of => order_of
    The sentence that no longer fitted is lost.
        batch = [i] => batch = []
    The batches are not shuffled: they run from short to long.
        return [batches[k] for k in order_of] => return batches
    Sentences of equal length always share a batch: only the batches are shuffled.
        = torch.randperm(len(lengths), generator=generator).tolist() => = list(range(len(lengths)))
    The seed is ignored: each call returns different batches.
        torch.Generator().manual_seed(seed) => torch.Generator(); generator.seed()
    All seeds give the same order.
        manual_seed(seed) => manual_seed(0)
    A sentence longer than the budget is accepted.
        if lengths[i] > budget: => if False:
    """,
)
def plan(lengths: list[int], budget: int, seed: int) -> list[list[int]]:
    """Batches of sentence indices within a budget of padded positions, in seeded order."""
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(lengths), generator=generator).tolist()
    order.sort(key=lambda i: lengths[i])
    batches, batch = [], []
    for i in order:
        if lengths[i] > budget:
            raise ValueError(f"sentence {i} has {lengths[i]} tokens, more than {budget}")
        if batch and (len(batch) + 1) * lengths[i] > budget:
            batches.append(batch)
            batch = [i]
        else:
            batch.append(i)
    batches.append(batch)
    order_of = torch.randperm(len(batches), generator=generator).tolist()
    return [batches[k] for k in order_of]
    ### END SOLUTION


def a_corpus(draw: Draw) -> list[int]:
    """A thousand lengths: many short sentences, a few long ones."""
    return [3 + int(8 * abs(draw.random.gauss(0, 1)) ** 1.3) for _ in range(1000)]


def planned(answer, lengths: list[int], budget: int, seed: int) -> list[list[int]]:
    """The batches of an answer, without empty ones."""
    return [[int(i) for i in batch] for batch in answer(lengths, budget, seed) if len(batch)]


@homework.check(plan, "Follow the sentences at the boundary between two batches.")
def holds_every_sentence_once(answer, draw: Draw):
    """Every sentence is in exactly one batch, even if it is alone or uses the whole budget."""
    size = draw.sizes(1, 1, 12)[0]
    lengths = [draw.random.choice((1, 3, 5, 9, 40)) for _ in range(size)]
    batches = planned(answer, lengths, max(lengths) + draw.one_of([0, 1, 60]), draw.size(0))
    flat = sorted(i for batch in batches for i in batch)
    holds(flat == [*range(size)], f"the sentences {short(flat)} in batches", f"0 to {size - 1}")


@homework.check(plan, "What is the size of a batch, padding included?", worth=2, draws=12)
def keeps_the_budget(answer, draw: Draw):
    """No batch exceeds the budget of padded positions."""
    lengths = [draw.random.choice((1, 3, 5, 9, 40)) for _ in range(draw.sizes(1, 1, 30)[0])]
    budget = max(lengths) + draw.one_of([0, 1, 5, 60])
    for batch in planned(answer, lengths, budget, draw.size(0)):
        size = len(batch) * max(lengths[i] for i in batch)
        holds(size <= budget, f"a batch of {size} positions", f"at most {budget}")


@homework.check(plan, "Which sentences share a batch, and how full is it?", draws=3, shrinks=False)
def wastes_little(answer, draw: Draw):
    """On a corpus of a thousand sentences less than 10 % of the positions are padding."""
    lengths, budget = a_corpus(draw), draw.one_of([300, 120, 500])
    batches = planned(answer, lengths, budget, draw.size(0))
    waste = 1 - sum(lengths) / sum(len(b) * max(lengths[i] for i in b) for b in batches)
    holds(waste < 0.1, f"{100 * waste:.0f} % of the positions are padding", "less than 10 %")
    alike = [5 + number % 2 for number in range(1000)]
    for corpus, most in ((lengths, budget), (alike, 2000)):
        batches, fewest = planned(answer, corpus, most, draw.size(0)), sum(corpus) / most
        holds(len(batches) < 1.5 * fewest + 2, f"{len(batches)} batches", f"about {fewest:.0f}")


@homework.check(
    plan, "What should be random, what reproducible, and what not in order?", draws=6, shrinks=False
)
def is_shuffled_by_the_seed(answer, draw: Draw):
    """The seed decides order and composition; the batches are not sorted by length."""
    lengths, seed = a_corpus(draw), draw.choose(3)
    first = planned(answer, lengths, 300, seed)
    for other in (seed + 1, seed + 2, seed + 100, seed + 256, seed + 2**16):
        second = planned(answer, lengths, 300, other)
        holds(first != second, f"the same batches for the seeds {seed} and {other}", "others")
    again = planned(answer, lengths, 300, seed)
    holds(first == again, f"different batches for the same seed {seed}", "the same batches")
    groups = [{frozenset(b) for b in batches} for batches in (first, second)]
    shared = 100 * len(groups[0] & groups[1]) / len(groups[0])
    measured = f"{shared:.0f} % of the batches contain the same sentences for two seeds"
    holds(shared < 60, measured, "few")
    longest = [max(lengths[i] for i in batch) for batch in first]
    rising = sum(a <= b for a, b in zip(longest, longest[1:], strict=False)) / (len(longest) - 1)
    measured = f"{100 * rising:.0f} % of the batches are followed by one as long or longer"
    holds(0.2 < rising < 0.8, measured, "about half")
    equal = planned(answer, [7] * 400, 35, seed)
    close = sum(max(b) - min(b) < 2 * len(b) for b in equal) / len(equal)
    measured = f"{100 * close:.0f} % of the batches have neighbours of the corpus, all equally long"
    holds(close < 0.3, measured, "hardly any")
    rising = sum(a[0] < b[0] for a, b in zip(equal, equal[1:], strict=False)) / len(equal)
    holds(0.2 < rising < 0.8, "the batches keep the order of the corpus", "a random order")


@homework.check(plan, "What should happen to a sentence that fits into no batch?", draws=8)
def names_what_is_too_long(answer, draw: Draw):
    """A sentence longer than the budget raises a ValueError that names its index."""
    lengths, budget = [5] * draw.size(1, 60), draw.one_of([900, 800])
    place = draw.one_of([len(lengths) - 1, 0, len(lengths) // 2])
    lengths[place] = budget + draw.one_of([1, 100])
    refuses(answer, (lengths, budget, 0), f"the length {lengths[place]}", place)


@homework.question(
    "Which words are unknown?",
    options=["The first and the second.", "Only the second.", "None of them."],
    hints=("Encode them with your class.", "Which ids are 3?"),
    read="notebook 01, section 3",
    uses=(Vocabulary,),
)
def which_words_are_unknown(Vocabulary) -> str:
    """
    A vocabulary with `min_count=2` is built from the sentences *der hund sieht den ball* and *der
    ball sieht den mann*. Which of the words *mann* and *katze* become UNK in **your** vocabulary?
    """
    sentences = ["der hund sieht den ball".split(), "der ball sieht den mann".split()]
    ids = list(Vocabulary(sentences, 2).encode(["mann", "katze"]))
    return {(True, True): "A", (False, True): "B"}.get((ids[0] == 3, ids[1] == 3), "C")
