"""Homework 01: a vocabulary, byte-pair encoding, batches within a token budget."""

from collections import Counter

import tokenizers
import torch

from nmtcourse.homework.compare import holds, same
from nmtcourse.homework.draw import Draw
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


@homework.task(
    "easy",
    "A vocabulary",
    """
    Write a vocabulary of words, built from tokenised training sentences (lists of words). Ids 0 to
    3 are `<PAD>`, `<BOS>`, `<EOS>` and `<UNK>`; the words follow, most frequent first, and words of
    equal frequency in alphabetical order. Words that occur fewer than `min_count` times get no id.
    `encode(words)` returns a list of ids, with UNK for words that have none. `decode(ids)` returns
    the words: it drops PAD, BOS and EOS and shows UNK as `<UNK>`.
    """,
    hints=(
        "Build the list of tokens first; the dictionary from word to id follows from it.",
        "Sort by two keys: minus the count, then the word.",
    ),
    read="notebook 01, the section on the vocabulary",
    mistakes={
        "The special tokens do not have the ids 0 to 3.": [
            ("[*SPECIALS, *kept]", "[*kept, *SPECIALS]")
        ],
        "The rarest words come first.": [("(-counts[w], w)", "(counts[w], w)")],
        "Words of equal frequency are not in alphabetical order.": [
            ("(-counts[w], w)", "(-counts[w], [-ord(c) for c in w])")
        ],
        "A word that occurs exactly `min_count` times is dropped.": [
            (">= min_count", "> min_count")
        ],
        "`min_count` is ignored: rare words are kept.": [("if n >= min_count", "if n")],
        "Counts are numbers of sentences, not of occurrences.": [
            ("counts.update(sentence)", "counts.update(set(sentence))")
        ],
        "An unknown word raises an error instead of becoming UNK.": [
            ("self.ids.get(word, 3)", "self.ids[word]")
        ],
        "An unknown word becomes PAD.": [("self.ids.get(word, 3)", "self.ids.get(word, 0)")],
        "PAD, BOS and EOS are decoded as words.": [("if i not in (0, 1, 2)", "if True")],
        "`decode` drops UNK: the reader cannot see that a word is missing.": [
            ("if i not in (0, 1, 2)", "if i > 3")
        ],
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


def some_sentences(draw: Draw) -> list[list[str]]:
    """Sentences with word counts of 5, 3, 3, 2, 2, 1 and 1, no word only in one sentence."""
    words = draw.words(7)
    said = [w for w, n in zip(words, (5, 3, 3, 2, 2, 1, 1), strict=True) for _ in range(n)]
    draw.random.shuffle(said)
    said[1:1] = [said[0]] * 7  # one word repeated within a sentence
    cut = draw.random.randint(9, 14)
    return [said[:cut], said[cut:]]


def expected_of(sentences: list[list[str]], min_count: int) -> list[str]:
    """The words in the order of their ids."""
    counts = Counter(word for sentence in sentences for word in sentence)
    return [w for w in sorted(counts, key=lambda w: (-counts[w], w)) if counts[w] >= min_count]


@homework.check(
    Vocabulary, "Encode a sentence whose word counts you know, and print the ids.", worth=2
)
def numbers_words_by_frequency(answer, draw: Draw):
    """Words get the ids from 4 on, by frequency, then alphabetically."""
    sentences = some_sentences(draw)
    words = expected_of(sentences, 1)
    found = list(answer(sentences).encode(words))
    same([int(i) for i in found], list(range(4, 11)), "the ids of the words, most frequent first")
    many = sorted({*draw.words(90), "Haus", "haus", ".", "1999"})
    same(
        [int(i) for i in answer([many]).encode(many)],
        list(range(4, 4 + len(many))),
        f"the ids of {len(many)} words, including Haus, haus, 1999 and a full stop",
    )


@homework.check(Vocabulary, "Which words does `min_count` keep, and which id do the others get?")
def leaves_rare_words_out(answer, draw: Draw):
    """Words below `min_count` and unseen words become UNK; the others keep their order."""
    sentences = some_sentences(draw)
    for least in (2, 3):
        kept, every = expected_of(sentences, least), expected_of(sentences, 1)
        expected = [4 + kept.index(w) if w in kept else 3 for w in every]
        found = answer(sentences, least).encode([*every, "never-seen"])
        same([int(i) for i in found], [*expected, 3], f"the ids with min_count = {least}")


@homework.check(Vocabulary, "What should the reader see of PAD, BOS, EOS and UNK?")
def comes_back(answer, draw: Draw):
    """Decoding returns the words without PAD, BOS and EOS, and shows UNK as <UNK>."""
    sentences = some_sentences(draw)
    vocabulary, words = answer(sentences), expected_of(sentences, 1)
    there = [int(i) for i in vocabulary.encode(words)]
    same(list(vocabulary.decode(there)), words, "the words, encoded and decoded")
    same(
        list(vocabulary.decode([1, *there[:2], 3, 2, 0, 0, there[2], 2])),
        [*words[:2], "<UNK>", words[2]],
        "the decoded ids of BOS a b UNK EOS PAD PAD c EOS",
    )


@homework.task(
    "medium",
    "Byte-pair encoding",
    """
    `words` maps each word to its number of occurrences. Every word starts as a sequence of
    characters. Each step finds the most frequent pair of adjacent symbols in all words and merges
    every occurrence into one symbol, from left to right within a word. Of pairs with equal counts,
    the first in the order of Python tuples is merged. Return the first `merges` pairs in the order
    of merging, or fewer if no pair is left. There is no end-of-word symbol. (Sennrich et al. 2016,
    section 3.2.)
    """,
    hints=(
        "Do three merges for {'aab': 2, 'ab': 3} with pen and paper first.",
        "Keep each word as a list of symbols, and count all pairs again in each step.",
    ),
    read="notebook 01, the section on BPE",
    mistakes={
        "Word counts are ignored: each word counts once.": [
            ("pairs[pair] += count", "pairs[pair] += 1")
        ],
        "A pair counts once for each word, not once for each occurrence in it.": [
            (
                "for pair in zip(pieces, pieces[1:], strict=False):",
                "for pair in set(zip(pieces, pieces[1:], strict=False)):",
            )
        ],
        "The rarest pair is merged.": [("(-pairs[p], p)", "(pairs[p], p)")],
        "Of pairs with equal counts, the last one is merged.": [
            ("min(pairs, key=lambda p: (-pairs[p], p))", "max(pairs, key=lambda p: (pairs[p], p))")
        ],
        "Only the first occurrence of a pair in each word is merged.": [
            ("== best:", "== best and ''.join(best) not in merged:")
        ],
        "Merges overlap: in aaa the pair aa is merged twice.": [
            (
                "merged.append(best[0] + best[1])\n                    i += 1",
                "merged.append(best[0] + best[1])",
            ),
        ],
        "The merge is not applied to the words: the same pair is found again.": [
            ("split[word] = merged", "pass")
        ],
        "The merged symbols are returned, not the pairs.": [
            ("found.append(best)", "found.append(best[0] + best[1])")
        ],
        "An error is raised when no pair is left.": [("if not pairs:", "if False:")],
    },
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


def plainly(words: dict[str, int], merges: int) -> list[tuple[str, str]]:
    """The same, written differently: a word is a string of symbols between bars."""
    texts, found = {w: "|" + "|".join(w) + "|" for w in words}, []
    for _ in range(merges):
        pairs: Counter = Counter()
        for word, text in texts.items():
            pieces = text[1:-1].split("|")
            for place in range(len(pieces) - 1):
                pairs[pieces[place], pieces[place + 1]] += words[word]
        if not pairs:
            return found
        most = max(pairs.values())
        a, b = min(pair for pair, count in pairs.items() if count == most)
        found.append((a, b))
        texts = {
            w: t.replace(f"|{a}|{b}|", f"|{a}{b}|").replace(f"|{a}|{b}|", f"|{a}{b}|")
            for w, t in texts.items()
        }
    return found


def compare(answer, words: dict[str, int], merges: int, what: str) -> None:
    """Raise Finding at the first merge that differs."""
    found = answer(dict(words), merges)
    holds(isinstance(found, list), f"a {type(found).__name__}", "a list of pairs")
    expected = plainly(words, merges)
    for number, pair in enumerate(expected):
        given = tuple(found[number]) if number < len(found) else "nothing"
        holds(given == pair, f"{what}: merge {number} is {given}", f"{pair}")
    same(len(found), len(expected), f"{what}: the number of merges")


@homework.check(learn_merges, "Count the pairs of your first step by hand.", worth=2)
def finds_the_merges(answer, draw: Draw):
    """The merges of small vocabularies are right, one by one."""
    compare(answer, {"aab": 2, "ab": 3, "b": 9}, 3, "aab twice, ab three times")
    compare(
        answer, {"low": 5, "lower": 2, "newest": 6, "widest": 3}, 8, "low, lower, newest, widest"
    )
    words = {word: draw.random.randint(1, 30) for word in draw.words(12)}
    compare(answer, words, 10, "twelve random words")


@homework.check(learn_merges, "Write down the merges of aaaa and abab.")
def merges_from_left_to_right(answer, draw: Draw):
    """Repeated characters are merged from left to right, without overlap, throughout the word."""
    compare(answer, {"aaaa": 3, "aaa": 2, "baaab": 1}, 4, "repeated characters")
    compare(answer, {"ababab": 3, "abcab": 2}, 4, "repeated pairs")
    compare(answer, {"ab": 1, "cd": 1, "ba": 1}, 3, "pairs of equal count")


@homework.check(learn_merges, "What happens when no pair is left to merge?")
def ends_when_nothing_is_left(answer, draw: Draw):
    """If `merges` is too large, merging ends when every word is one symbol."""
    compare(answer, {"ab": 2, "c": 1}, 5, "ab and c")
    compare(answer, {}, 2, "no words")


@homework.check(learn_merges, "Small words are right; try large counts.", draws=1)
def is_that_of_the_library(answer, draw: Draw):
    """The merges of a random corpus are those of the `tokenizers` library."""
    words = {w: 40 * n + draw.random.randint(1, 39) for n, w in enumerate(draw.words(25), start=1)}
    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    model.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    letters = len({letter for word in words for letter in word})
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=letters + 12, show_progress=False)
    model.train_from_iterator((w for w, n in words.items() for _ in range(n)), trainer)
    pieces = sorted(model.get_vocab().items(), key=lambda item: item[1])[letters:]
    found = ["".join(pair) for pair in answer(words, 12)]
    same(sorted(found), sorted(piece for piece, _ in pieces), "the symbols after 12 merges")


@homework.task(
    "hard",
    "Batches within a token budget",
    """
    `lengths` holds the number of tokens of each sentence. Return batches, as lists of sentence
    indices, such that

    - every sentence is in exactly one batch;
    - the padded size of a batch (number of sentences times the longest length) is at most `budget`;
    - on a corpus of a thousand sentences, less than 10 % of all positions are padding;
    - the same `seed` gives the same batches, and a different seed a different order;
    - neither the batches nor sentences of equal length keep the order of the corpus, and the
      batches are not sorted by length.

    A sentence longer than the budget raises a `ValueError` that names its index.
    """,
    hints=(
        "Sort by length, split into batches, shuffle the batches. What is still missing?",
        "Shuffle before you sort: a stable sort keeps the random order of equal lengths.",
    ),
    read="notebook 01, the section on batches",
    mistakes={
        "Sentences of different lengths share a batch: most positions are padding.": [
            ("order.sort(key=lambda i: lengths[i])", "pass")
        ],
        "The budget counts only real tokens, but padding takes memory as well.": [
            (
                "(len(batch) + 1) * lengths[i] > budget",
                "sum(lengths[j] for j in batch) + lengths[i] > budget",
            )
        ],
        "Each batch is closed one sentence too late.": [
            ("(len(batch) + 1) * lengths[i]", "len(batch) * lengths[i]")
        ],
        "The last batch is lost.": [("batches.append(batch)\n    order_of", "order_of")],
        "The sentence that no longer fitted is lost.": [("batch = [i]", "batch = []")],
        "The batches are not shuffled: they run from short to long.": [
            ("return [batches[k] for k in order_of]", "return batches")
        ],
        "Sentences of equal length always share a batch: only the batches are shuffled.": [
            (
                "order = torch.randperm(len(lengths), generator=generator).tolist()",
                "order = list(range(len(lengths)))",
            )
        ],
        "The seed is ignored: each call returns different batches.": [
            ("torch.Generator().manual_seed(seed)", "torch.default_generator"),
            ("    for i in order:", "    torch.seed()\n    for i in order:"),
            ("    order = torch", "    torch.seed()\n    order = torch"),
        ],
        "All seeds give the same order.": [("manual_seed(seed)", "manual_seed(0)")],
        "A sentence longer than the budget is accepted.": [
            ("if lengths[i] > budget:", "if False:")
        ],
    },
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
    return [3 + int(8 * abs(float(x)) ** 1.3) for x in draw.normal(1000)]


def planned(answer, lengths: list[int], budget: int, seed: int) -> list[list[int]]:
    """The batches of an answer, without empty ones."""
    return [[int(i) for i in batch] for batch in answer(list(lengths), budget, seed) if len(batch)]


@homework.check(plan, "Follow the sentences at the boundary between two batches.")
def holds_every_sentence_once(answer, draw: Draw):
    """Every sentence is in exactly one batch."""
    flat = [i for batch in planned(answer, a_corpus(draw), 300, 1) for i in batch]
    lost = 1000 - len(set(flat))
    holds(lost == 0, f"{lost} sentences of 1000 are in no batch", "0")
    holds(len(flat) == 1000, f"{len(flat)} indices for 1000 sentences", "1000")


@homework.check(plan, "What is the size of a batch, padding included?", worth=2)
def keeps_the_budget(answer, draw: Draw):
    """No batch exceeds the budget of padded positions, and little of it is padding."""
    lengths = a_corpus(draw)
    for budget in (120, 500):
        batches = planned(answer, lengths, budget, 2)
        sizes = [len(batch) * max(lengths[i] for i in batch) for batch in batches]
        holds(max(sizes) <= budget, f"a batch of {max(sizes)} positions", f"at most {budget}")
        waste = 1 - sum(lengths) / sum(sizes)
        holds(waste < 0.1, f"{100 * waste:.0f} % of the positions are padding", "less than 10 %")
        fewest = sum(lengths) / budget
        holds(len(batches) < 1.5 * fewest + 2, f"{len(batches)} batches", f"about {fewest:.0f}")


@homework.check(plan, "What should be random, what reproducible, and what not in order?")
def is_shuffled_by_the_seed(answer, draw: Draw):
    """The seed decides order and composition; the batches are not sorted by length."""
    lengths = a_corpus(draw)
    first, again, other = (planned(answer, lengths, 300, seed) for seed in (1, 1, 2))
    holds(first == again, "different batches for the same seed", "the same batches")
    holds(first != other, "the same batches for a different seed", "others")
    groups = [{frozenset(b) for b in batches} for batches in (first, other)]
    shared = len(groups[0] & groups[1]) / len(groups[0])
    holds(
        shared < 0.6,
        f"{100 * shared:.0f} % of the batches contain the same sentences for two seeds",
        "few",
    )
    longest = [max(lengths[i] for i in batch) for batch in first]
    rising = sum(a <= b for a, b in zip(longest, longest[1:], strict=False)) / (len(longest) - 1)
    holds(
        0.2 < rising < 0.8,
        f"{100 * rising:.0f} % of the batches are followed by one that is as long or longer",
        "about half",
    )


@homework.check(plan, "Does a batch that uses the whole budget exceed it?", draws=1)
def fills_the_budget(answer, draw: Draw):
    """A sentence exactly as long as the budget is accepted."""
    try:
        batches = planned(answer, [5, 50, 7], 50, 3)
    except ValueError as error:
        holds(False, f"ValueError ({error}) for a length equal to the budget", "no error")
    same(sorted(i for batch in batches for i in batch), [0, 1, 2], "the sentences in the batches")


@homework.check(plan, "What should happen to a sentence that fits into no batch?", draws=1)
def names_what_is_too_long(answer, draw: Draw):
    """A sentence longer than the budget raises a ValueError that names its index."""
    lengths = [5] * 40
    lengths[23] = 90
    try:
        found = answer(lengths, 50, 0)
    except ValueError as error:
        holds("23" in str(error), f"the message {str(error)!r}", "a message that names 23")
        return
    except Exception as error:
        holds(False, f"{type(error).__name__} for a sentence that is too long", "ValueError")
    kept = any(23 in list(batch) for batch in found)
    holds(False, f"no error; the sentence is {'in a batch' if kept else 'left out'}", "ValueError")


@homework.question(
    "Which words are unknown?",
    options=["The first and the second.", "Only the second.", "None of them."],
    hints=("Encode them with your class.", "Which ids are 3?"),
    read="notebook 01, the section on unknown words",
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
