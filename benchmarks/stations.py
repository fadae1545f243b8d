"""Where German-English goes from: nmtcourse/teaching/recorded/german_english.json.

    python benchmarks/stations.py [--seeds 1 2 3] [--captions FILE.tsv] [--out RUNS]

Each station adds one idea to the one before it, from the words of the classic tutorial to captions
that were translated back, with a model of 2.3 million parameters that reads as many pairs in each.
All are scored on the validation split, each against the one before on the same sentences, by a
paired bootstrap (Koehn 2004).  `--captions` is what `nmtlib backtranslate` wrote of the captions;
without it, the last station is left out.  A second call goes on where the first was stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shared import parser, say, train_or_go_on, write_result

# isort: split
import numpy as np
from sacrebleu.metrics import BLEU

from nmtcourse.teaching.case_studies import STATIONS
from nmtlib.data.corpora import load
from nmtlib.data.corpus import Corpus
from nmtlib.inference.evaluate import score
from nmtlib.inference.translator import Translator
from nmtlib.presets import load_settings
from nmtlib.run import Run
from nmtlib.training.checkpoint import average_checkpoints, load_weights
from nmtlib.training.hardware import choose_device, command_line, describe_machine
from nmtlib.training.history import read_history
from nmtlib.training.loss import measure_all

PRESET, EPOCHS, QUOTED, DRAWS = "multi30k-de-en", 4, 40, 1_000
SMALL = {"model.d_model": 144, "model.d_ff": 576, "training.epochs": EPOCHS}
WORDS = {
    "tokenizer.kind": "spacy",
    "tokenizer.min_count": 2,
    "tokenizer.size": 20_000,
    "tokenizer.joint": False,
    "model.tied": "target",
    "model.embedding_init": "xavier",
    "training.max_tokens": 4096,
    "training.learning_rate": 1.5e-3,
    "training.warmup": 200,
}
PIECES = {"tokenizer.kind": "bpe", "tokenizer.size": 4000, "tokenizer.joint": True}
BATCHES = {"training.max_tokens": 1024, "training.learning_rate": 3e-3, "training.warmup": 400}


@dataclass(frozen=True)
class Station:
    """One idea: the settings that it changes, the epochs it averages, and how it searches."""

    key: str
    idea: str
    changes: dict[str, Any]
    average: int = 1
    beam: int = 1
    length_penalty: float = 1.0


def stations(captions: Path | None) -> list[Station]:
    """The stations in their order."""
    found = [
        Station("words", "spaCy words, large batches", WORDS),
        Station("batches", "small batches", BATCHES),
        Station("bpe", "BPE pieces", {**PIECES, "model.tied": "all"}),
        Station("start", "embeddings that start normal", {"model.embedding_init": "normal"}),
        Station("average", "average of two epochs", {}, average=2),
        Station("beam", "beam of 5", {}, average=2, beam=5),
        Station("length-penalty", "length penalty 2", {}, 2, 5, 2.0),
    ]
    if captions:
        # Half as many epochs of twice as many pairs.
        half = {
            "recipe.synthetic": [str(captions)],
            "recipe.name": "course",
            "training.epochs": EPOCHS // 2,
        }
        found.append(Station("captions", "translated captions", half, 2, 5, 2.0))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing, score every station, and write the record."""
    options = parser(__doc__)
    options.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    options.add_argument("--captions", type=Path, metavar="FILE.tsv")
    options.add_argument("--out", type=Path, default=Path("runs/stations"), metavar="RUNS")
    options.add_argument("--output", type=Path, default=STATIONS, help="JSON file")
    given = options.parse_args(arguments)
    corpus = load(PRESET)
    rows: list[dict[str, Any]] = []
    histories: dict[str, list] = {}
    translated: dict[str, list[list[str]]] = {}
    for station, folders in trained(stations(given.captions), given.seeds, given.out):
        before = [*translated.values()][-1] if translated else None
        scores, translated[station.key] = zip(
            *(scored(station, folder, corpus) for folder in folders), strict=True
        )
        rows.append(
            {
                **described(station, folders[0]),
                "runs": [{"seed": s, **run} for s, run in zip(given.seeds, scores, strict=True)],
                "gains": gains(given.seeds, before, translated[station.key], corpus),
            }
        )
        if station.changes:
            records = [read_history(Run(folder).history_file) for folder in folders]
            histories[station.key] = [[vars(record) for record in history] for history in records]
        say(f"{station.key}: {[round(run['bleu'], 2) for run in scores]}")
        first = {"words": translated["words"][0], "full": translated[station.key][0]}
        few = corpus.validation[:QUOTED]
        texts = {"source": [p.source for p in few], "reference": [p.target for p in few]}
        result = {
            "command": f"python benchmarks/{command_line()}",
            "machine": describe_machine(choose_device("cpu")),
            "stations": rows,
            "histories": histories,
            "systems": texts | {name: lines[:QUOTED] for name, lines in first.items()},
        }
        write_result(given.output, result)


def trained(
    steps: Sequence[Station], seeds: Sequence[int], out: Path
) -> Iterator[tuple[Station, list[Path]]]:
    """Each station with its runs, one a seed; what changes no setting has those before it."""
    changes, folders = dict(SMALL), []
    for station in steps:
        changes |= station.changes
        if station.changes:
            folders = [out / f"{station.key}-{seed}" for seed in seeds]
            for seed, folder in zip(seeds, folders, strict=True):
                settings = replace(load_settings(PRESET), recipe={})
                nested: dict[str, dict[str, Any]] = {}
                for key, value in {**changes, "training.seed": seed}.items():
                    section, _, name = key.partition(".")
                    nested.setdefault(section, {})[name] = value
                train_or_go_on(folder, settings.changed(nested, station.key))
        yield station, folders


def described(station: Station, folder: Path) -> dict[str, Any]:
    """What a station is, whatever the seed."""
    translator = Translator.load(folder)
    return {
        "key": station.key,
        "idea": station.idea,
        "settings": [
            f"{key}={Path(value[0]).name if key == 'recipe.synthetic' else value}"
            for key, value in station.changes.items()
        ],
        "beam": station.beam,
        "length_penalty": station.length_penalty,
        "parameters": sum(translator.model.parameter_table().values()),
        "vocabularies": [len(translator.source.vocab), len(translator.target.vocab)],
    }


def scored(station: Station, folder: Path, corpus: Corpus) -> tuple[dict[str, Any], list[str]]:
    """Scores and translations of one run on the validation split, with its last epochs' weights."""
    run, translator = Run(folder), Translator.load(folder)
    history = read_history(run.history_file)
    epochs = [run.epoch_file(record.epoch) for record in history[-station.average :]]
    model = translator.model
    load_weights(model, average_checkpoints(epochs))
    translator = Translator(model, translator.source, translator.target, translator.settings)
    pairs, search = corpus.validation, {"beam": station.beam}
    translations = translator.translate(
        [pair.source for pair in pairs], length_penalty=station.length_penalty, **search
    )
    references = [pair.target for pair in pairs]
    lengths = [sum(len(line.split()) for line in lines) for lines in (translations, references)]
    examples = [translator.example(pair.source, pair.target) for pair in pairs]
    scores = {
        "minutes": round(history[-1].seconds / 60, 2),
        "bleu": score(translations, pairs, lowercase=True).bleu,
        "length_ratio": lengths[0] / lengths[1],
        "perplexity": measure_all(model, examples).perplexity,
    }
    return scores, translations


def gains(
    seeds: Sequence[int],
    before: Sequence[list[str]] | None,
    after: Sequence[list[str]],
    corpus: Corpus,
) -> list[dict[str, Any]]:
    """What each seed gained over the station before, where there is one."""
    if before is None:
        return []
    references = [pair.target for pair in corpus.validation]
    return [
        {"seed": seed, **paired_bootstrap(old, new, references)}
        for seed, old, new in zip(seeds, before, after, strict=True)
    ]


def paired_bootstrap(
    old: Sequence[str], new: Sequence[str], references: Sequence[str]
) -> dict[str, float]:
    """The difference in BLEU of two systems, and where 95 % of it lie over resampled sentences.

    `p` is the share of the samples in which the system that is better on the whole is not.
    """
    counts = [statistics(lines, references) for lines in (old, new)]  # (N, 10) each
    number = np.random.default_rng(1)
    rows = number.integers(len(references), size=(DRAWS, len(references)))
    whole, drawn = (
        np.array([bleu(table[chosen].sum(axis=-2)) for table in counts])
        for chosen in (slice(None), rows)
    )
    difference, differences = whole[1] - whole[0], drawn[1] - drawn[0]
    low, high = np.quantile(differences, (0.025, 0.975))
    wrong = np.mean(differences <= 0 if difference > 0 else differences >= 0)
    return {"difference": difference, "low": low, "high": high, "p": float(wrong)}


def statistics(lines: Sequence[str], references: Sequence[str]) -> np.ndarray:
    """What BLEU adds up, (N, 10): matches and n-grams of 1 to 4 words, length, the reference's."""
    metric = BLEU(lowercase=True, effective_order=True)
    found = [metric.sentence_score(h, [r]) for h, r in zip(lines, references, strict=True)]
    return np.array([[*f.counts, *f.totals, f.sys_len, f.ref_len] for f in found])


def bleu(sums: np.ndarray) -> np.ndarray:
    """BLEU from 0 to 100 of sums (..., 10), as `statistics` orders them.  Papineni et al. 2002."""
    precisions = np.log(sums[..., :4] / sums[..., 4:8]).mean(axis=-1)
    brevity = np.minimum(0, 1 - sums[..., 9] / sums[..., 8])
    return 100 * np.exp(precisions + brevity)


if __name__ == "__main__":
    main()
