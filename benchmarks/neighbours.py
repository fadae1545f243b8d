"""What looking words up brings the models that ship: nmtcourse/teaching/recorded/neighbours.json.

    python benchmarks/neighbours.py [MODEL …] [--output FILE]

Scores each on the test split of its corpus with and without neighbours among the training pairs.
Records also how often the nearest entry and the model are right, by the distance of that entry, and
the first sentences that became better and worse where the vote turned a choice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from shared import RESULTS, parser, say, unleaked, write_result

# isort: split
import torch

from nmtcourse.recipes.neighbours import Datastore, NeighbourModel
from nmtcourse.teaching.neighbours import RECORDED
from nmtlib.data.codec import Codec
from nmtlib.data.corpus import Pair
from nmtlib.inference.evaluate import Evaluation, Scores, evaluate
from nmtlib.inference.metrics import chrf
from nmtlib.inference.translator import Translator
from nmtlib.recipe import load_corpus
from nmtlib.specials import BOS, EOS
from nmtlib.training.hardware import command_line, describe_machine

MODELS = {"cmn-en-zh": "cmn-en-zh-small", "multi30k-de-en": "multi30k-de-en-small"}  # by preset
NEIGHBOURS, SHOWN, PARTS = 4, 4, 5


def main(arguments: Sequence[str] | None = None) -> None:
    """Score, look closely, record; what is recorded of other models stays."""
    options = parser(__doc__)
    options.add_argument("models", nargs="*", default=list(MODELS), metavar="MODEL")
    options.add_argument("--output", type=Path, default=RECORDED, help="JSON file")
    given = options.parse_args(arguments)
    earlier = (
        json.loads(given.output.read_text("utf-8"))["models"] if given.output.is_file() else []
    )
    found = {one["model"]: one for one in earlier}
    how = {"command": f"python benchmarks/{command_line()}", "machine": describe_machine()}
    for name in given.models:
        found[name] = {**examined(name), **how}
        write_result(given.output, {"models": list(found.values())})


def examined(name: str) -> dict[str, Any]:
    """One model with and without neighbours."""
    plain = Translator.load(name)
    corpus = load_corpus(plain.settings.corpus)
    store = datastore(plain, corpus.train)
    say(f"{name}: {len(store.keys):,} entries")
    model = NeighbourModel(plain.model, store, neighbours=NEIGHBOURS)
    looking = Translator(model, plain.source, plain.target, plain.settings)
    before, first = evaluate(plain, corpus)
    after, second = evaluate(looking, corpus)
    say(f"BLEU {before.scores.bleu:.2f} {after.scores.bleu:.2f}")
    gains = [
        chrf([then], [pair.target]).score - chrf([now], [pair.target]).score
        for pair, now, then in zip(corpus.test, first, second, strict=True)
    ]
    better = [i for i, gain in enumerate(gains) if gain > 0]
    worse = [i for i, gain in enumerate(gains) if gain < 0]

    def partings(numbers: list[int]) -> Iterator[dict[str, Any]]:
        for number in numbers:
            yield parting(plain, looking, corpus.test[number], store, corpus.train)

    with torch.no_grad():
        return {
            "model": name,
            "entries": len(store.keys),
            "neighbours": NEIGHBOURS,
            "weight": model.weight,
            "plain": figures(before, unleaked(plain, corpus, first)),
            "looked_up": figures(after, unleaked(looking, corpus, second)),
            "seeds": seeds(MODELS[name]),
            "sentences": len(gains),
            "better": len(better),
            "worse": len(worse),
            "by_distance": by_distance(plain, corpus.test, model, store),
            "examples": {
                kind: list(islice(filter(turned, partings(numbers)), SHOWN))
                for kind, numbers in {"better": better, "worse": worse}.items()
            },
        }


def seeds(preset: str) -> list[dict[str, Any]]:
    """NLTK BLEU of each seed of a preset, where `seeds.py` has scored them with neighbours."""
    measured = RESULTS / f"seeds-{preset}.json"
    runs = json.loads(measured.read_text("utf-8"))["runs"] if measured.is_file() else []
    return [
        {"seed": run["seed"], "plain": run["bleu_nltk"], "looked_up": run["looked_up"]["bleu_nltk"]}
        for run in runs
        if "looked_up" in run
    ]


def datastore(translator: Translator, pairs: Sequence[Pair]) -> Datastore:
    """The entries of all pairs, in the order of these."""
    examples = [translator.example(pair.source, pair.target) for pair in pairs]
    return Datastore.build(translator.quick_model, examples)


def figures(found: Evaluation, clean: Scores) -> dict[str, Any]:
    """What is compared of an evaluation; `clean` are its scores without leaked pairs."""
    return {
        "bleu": found.scores.bleu,
        "bleu_nltk": found.scores.bleu_nltk,
        "bleu_unleaked": clean.bleu,
        "bleu_nltk_unleaked": clean.bleu_nltk,
        "perplexity": found.perplexity,
        "seconds": found.seconds,
    }


def by_distance(
    plain: Translator, pairs: Sequence[Pair], model: NeighbourModel, store: Datastore
) -> list[dict[str, float]]:
    """How often the nearest entry and the model have the right next token after the reference's
    beginning, in equal parts by the distance of that entry.
    """
    asked = datastore(plain, pairs)
    found = [model.nearest(some) for some in asked.keys.split(128)]
    squared, places = (torch.cat(parts) for parts in zip(*found, strict=True))
    nearest = store.values[places[:, 0]] == asked.values
    alone = model.output(asked.keys).argmax(dim=1) == asked.values
    distance = squared[:, 0] / model.variance  # in variances of the keys
    return [
        {
            "upto": float(distance[part].max()),
            "nearest": float(nearest[part].float().mean()),
            "model": float(alone[part].float().mean()),
            "nearest_alone": float((nearest & ~alone)[part].float().mean()),
        }
        for part in distance.argsort().tensor_split(PARTS)
    ]


def parting(
    plain: Translator, looking: Translator, pair: Pair, store: Datastore, training: Sequence[Pair]
) -> dict[str, Any]:
    """Two translations of a sentence, and what was looked up where they part."""
    source, target, model = looking.source, looking.target, looking.model
    ids = [one.search([pair.source])[0][0].ids for one in (plain, looking)]
    same = [a for a, _ in takewhile(lambda both: both[0] == both[1], zip(*ids, strict=False))]
    asked = torch.tensor([[*source.encode(pair.source), EOS]]), torch.tensor([[BOS, *same]])
    hidden = model.body(*asked)[0, -1:]  # (1, D)
    alone = model.output(hidden).softmax(dim=-1)[0]  # (V,)
    mixed = model(*asked)[0, -1].exp()  # (V,)
    _, places = model.nearest(hidden)
    entries = []
    for place in places[0].tolist():
        number, label = store.origins[place].tolist()
        tokens = target.encode(training[number].target)
        entries.append(
            {
                "source": training[number].source,
                "before": target.decode(tokens[:label]),
                "next": token(target, int(store.values[place])),
            }
        )
    next_ids = [([*words, EOS])[len(same)] for words in ids]
    return {
        "source": pair.source,
        "reference": pair.target,
        "plain": target.decode(ids[0]),
        "looked_up": target.decode(ids[1]),
        "before": target.decode(same),
        "next": [token(target, word) for word in next_ids],
        "alone": [float(alone[word]) for word in next_ids],
        "mixed": [float(mixed[word]) for word in next_ids],
        "entries": entries,
    }


def turned(example: dict[str, Any]) -> bool:
    """Whether the vote changed which of the two tokens is more probable."""
    (first, second), (now, then) = example["alone"], example["mixed"]
    return first > second and now < then


def token(codec: Codec, word: int) -> str:
    """One token as text."""
    return codec.vocab.decode([word])[0]


if __name__ == "__main__":
    main()
