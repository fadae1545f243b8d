"""The cases of three published reports, trained again: nmtcourse/teaching/recorded/authors/*.json.

    python benchmarks/authors.py marks|talks|memory|classic|speed|large [--seeds 1 2 3] [--out RUNS]

marks     English to Chinese with the subword marks as published, and stripped by the loader
talks     the IWSLT report: TED talks in batches of 16 to 128 sentences, and a cure
memory    the same batches of all the talks: the peak of an update, by formula
classic   the Multi30k notebook, repaired: how many sentences differ, by the number of updates
speed     processor time of an update: the same notebook with its six layers a side, and `large`
large     the cmn-eng repository's 50 million parameters, trained its way for 20 epochs

All models but that of `large` fit two cores; each file repeats its settings.  A second call goes on
where the first was stopped.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from shared import earlier_runs, parser, require_finished, require_same_settings, say, write_result

# isort: split
import numpy as np
import torch

from nmtcourse.recipes.iwslt import TEST_SETS, segments
from nmtcourse.teaching import hardware_steps as steps
from nmtcourse.teaching.authors import RECORDED, from_ids, paired_error, read_case, score
from nmtcourse.teaching.chinese import without_marks
from nmtlib.data import Vocab, WhitespaceTokenizer
from nmtlib.data.batching import Example, collate, pad, padding_waste
from nmtlib.data.codec import Codec, build_codecs
from nmtlib.data.corpora import load
from nmtlib.data.corpus import Corpus, Pair
from nmtlib.data.source import cache_folder
from nmtlib.inference import bleu_sacre, greedy_search, search
from nmtlib.inference.translator import Translator
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.presets import load_settings
from nmtlib.recipe import encode_pairs, read_examples
from nmtlib.run import Run
from nmtlib.settings import Settings
from nmtlib.specials import BOS, EOS, PAD
from nmtlib.training.hardware import choose_device, command_line, describe_machine
from nmtlib.training.history import EpochRecord, read_history
from nmtlib.training.trainer import Trainer

MARKS = {
    "model": {"d_model": 96, "n_heads": 4, "n_encoder_layers": 2, "n_decoder_layers": 2}
    | {"d_ff": 384, "dropout": 0.1, "attention_dropout": 0.0, "tied": "target"},
    "tokenizer": {"target_kind": "", "lowercase": False},
    "training": {"epochs": 7, "max_tokens": 512, "learning_rate": 3e-3, "warmup": 300}
    | {"schedule": "cosine", "average": 1, "keep": "best"},
    "decoding": {"beam": 1},
}


class BySentences(list):
    """Examples that count 1 each, so that `max_tokens` is the number of sentences in a batch."""

    @property
    def lengths(self) -> np.ndarray:
        """(N, 2), all of them 1."""
        return np.ones((len(self), 2), dtype=np.int32)


def fit(
    folder: Path,
    settings: Settings,
    codecs: tuple[Codec, Codec],
    corpus: Corpus,
    kind: Callable[[Any], Any] = list,
    part: int = 0,
) -> list[EpochRecord]:
    """Train in `folder` with these codecs, or go on there; the history of all epochs.

    With `part`, an epoch reads only so many sentences, the next epoch the next ones.
    """
    there = require_same_settings(folder, settings)
    settings = settings.with_vocabularies(*(len(codec.vocab) for codec in codecs))
    training, validation = read_examples(settings, corpus, codecs, say)
    torch.manual_seed(settings.training.seed)
    model = Transformer(settings.model)
    run = Run(folder) if there else Run.create(folder, settings, *codecs)
    examples = parts_of(training, part, settings.training.seed) if part else None
    options = {"identity": run.codec_digests(), "examples": examples}
    trainer = Trainer(model, kind(training), validation, settings.training, run, **options)
    trainer.report = run.reporting(say)
    if run.last_file.is_file():
        trainer.resume()
    trainer.fit()
    require_finished(run)  # after Ctrl-C its scores would not be those of the whole run
    return trainer.progress.history


def parts_of(
    examples: Sequence[Example], size: int, seed: int
) -> Callable[[int], Sequence[Example]]:
    """The examples of each epoch: the next `size` of a random order that starts anew at its end."""
    order = torch.randperm(len(examples), generator=torch.Generator().manual_seed(seed)).tolist()
    return lambda epoch: [
        examples[order[n % len(order)]] for n in range(epoch * size, (epoch + 1) * size)
    ]


def as_record(history: Sequence[EpochRecord]) -> list[dict[str, Any]]:
    """The epochs of a run with rounded numbers."""
    rows = [vars(record) for record in history]
    return [{k: round(v, 5) if isinstance(v, float) else v for k, v in r.items()} for r in rows]


def write(name: str, **found: Any) -> None:
    """Write the file of one case."""
    head = {"command": f"python benchmarks/{command_line()}"}
    head["machine"] = describe_machine(choose_device("cpu" if name == "speed" else "auto"))
    write_result(RECORDED / f"{name}.json", head | found)


def earlier(name: str, settings: Settings) -> list[dict[str, Any]]:
    """The runs of a case that are recorded already.  Raises ValueError for other settings."""
    return earlier_runs(RECORDED / f"{name}.json", {"settings": asdict(settings)})


def greedy_with_unknown(translator: Translator, sources: Sequence[str]) -> list[str]:
    """Greedy translations of a model that may generate <UNK>, as most programs let it."""
    ids, place = [[*translator.source.encode(s), EOS] for s in sources], translator.device
    order, found = sorted(range(len(ids)), key=lambda i: len(ids[i])), [""] * len(ids)
    with patch.object(search, "NEVER_GENERATED", [PAD, BOS]):
        for start in range(0, len(order), 128):
            rows = order[start : start + 128]
            said = greedy_search(translator.quick_model, pad([ids[i] for i in rows]).to(place))
            for i, tokens in zip(rows, said, strict=True):
                found[i] = " ".join(translator.target.tokens(tokens))
    return found


def marks(seeds: Sequence[int], out: Path) -> None:
    """Marks kept and stripped, a run for each seed; both metrics, last weights and best ones."""
    settings = load_settings("cmn-en-zh-small").changed(MARKS, "marks")
    corpus, runs = load("cmn-en-zh"), earlier("marks", settings)
    outputs = read_case("marks")["outputs"] if runs else {}
    words = set(corpus.vocabularies[1])
    codecs = tuple(Codec(WhitespaceTokenizer(), Vocab(side)) for side in corpus.vocabularies)
    for seed in (seed for seed in seeds if seed not in {run["seed"] for run in runs}):
        pair = {}
        for loader in ("kept", "stripped"):
            data = corpus if loader == "kept" else stripped(corpus)
            folder = out / f"marks-{loader}-{seed}"
            history = fit(folder, settings.with_value("training.seed", seed), codecs, data)
            found, texts = marks_scores(folder, data, words)
            pair[loader] = texts
            runs.append({"loader": loader, "seed": seed, **found, "history": as_record(history)})
            say(f"{loader} {seed}: {found}")
        outputs = outputs or pair
        references = [p.target for p in corpus.test]
        for key in ("words", "ids"):
            made = [t if key == "words" else [from_ids(x, words) for x in t] for t in pair.values()]
            wanted = references if key == "words" else [from_ids(x, words) for x in references]
            runs[-1][f"error_{key}"] = paired_error(*made, wanted)
        write("marks", settings=asdict(settings), runs=runs, outputs=outputs)


def stripped(corpus: Corpus) -> Corpus:
    """The corpus as a loader reads it that takes the subword marks for punctuation."""
    splits = {
        s: [Pair(without_marks(p.source), p.target) for p in getattr(corpus, s)]
        for s in ("train", "validation", "test")
    }
    return replace(corpus, **splits)


def marks_scores(
    folder: Path, corpus: Corpus, words: set[str]
) -> tuple[dict[str, float], list[str]]:
    """Both metrics for best and last weights of a model that may generate <UNK>, and its texts."""
    sources, references = ([getattr(p, side) for p in corpus.test] for side in ("source", "target"))
    rebuilt = [from_ids(text, words) for text in references]
    last = len(read_history(Run(folder).history_file))
    translator = Translator.load(folder)
    texts = greedy_with_unknown(translator, sources)
    found = {"words": score(texts, references), "ids": score(texts, rebuilt)}
    without = translator.translate(sources, beam=1)
    found["words_no_unknown"] = score(without, references)
    found["ids_no_unknown"] = score([from_ids(text, words) for text in without], rebuilt)
    translator = Translator.load(folder, checkpoint=f"epoch-{last:03d}")
    last_texts = greedy_with_unknown(translator, sources)
    found |= {"last_words": score(last_texts, references), "last_ids": score(last_texts, rebuilt)}
    return found, texts


TALKS = {
    "corpus": {"name": "", "source_language": "de", "target_language": "en"},
    "tokenizer": {"kind": "spacy", "size": 20_000, "min_count": 2, "joint": False},
    "model": {"d_model": 64, "n_heads": 4, "n_encoder_layers": 1, "n_decoder_layers": 1}
    | {"d_ff": 256, "dropout": 0.1, "tied": "target"},
    "training": {"epochs": 47, "learning_rate": 3e-3, "warmup": 400}
    | {"schedule": "inverse-sqrt", "average": 1, "keep": "best", "patience": 0},
    "decoding": {"beam": 1},
}
LONGEST = 16  # words a side of the pairs that are trained on; memory is counted for all of them
CURE = {  # on pairs of every length
    "tokenizer": {"kind": "bpe", "size": 2000, "joint": True},
    "model": {"d_model": 128, "n_encoder_layers": 2, "n_decoder_layers": 2, "d_ff": 512}
    | {"dropout": 0.2, "tied": "all"},
    "training": {"max_tokens": 512, "learning_rate": 2e-3, "epochs": 20, "patience": 4},
    "decoding": {"beam": 5},
}


def talks(seeds: Sequence[int], out: Path) -> None:
    """Four batch sizes and the cure, with one schedule for all sizes, as the report has it."""
    whole = talk_corpus()
    corpus = short(whole)
    settings = load_settings("iwslt14-de-en").changed(TALKS, "talks")
    runs = earlier("talks", settings)
    cases = {str(n): settings.with_value("training.max_tokens", n) for n in (16, 32, 64, 128)}
    cases["cure"] = settings.changed(CURE, "cure")
    found = {"settings": asdict(settings), "cure": CURE, "longest_words": LONGEST}
    found |= {"pairs": sizes(whole), "trained_pairs": sizes(corpus)}
    made = {(run["case"], run["seed"]) for run in runs}
    for seed in seeds:
        for case in [case for case in cases if (case, seed) not in made]:
            chosen = cases[case]
            chosen, folder = chosen.with_value("training.seed", seed), out / f"talks-{case}-{seed}"
            read = replace(corpus, train=whole.train) if case == "cure" else corpus
            codecs = build_codecs(read, **asdict(chosen.tokenizer))
            kind = list if case == "cure" else BySentences
            history = fit(folder, chosen, codecs, read, kind)
            translator = Translator.load(folder)
            said = translator.translate([p.source for p in corpus.test])
            bleu = bleu_sacre(said, [p.target for p in corpus.test], lowercase=True).score
            row = {"case": case, "seed": seed, "bleu": round(bleu, 2)}
            runs.append(row | {"history": as_record(history)})
            say(str(row))
            write("talks", **found, runs=runs)


def short(corpus: Corpus) -> Corpus:
    """The pairs of at most `LONGEST` words a side: what two cores train in minutes."""
    splits = {split: getattr(corpus, split) for split in ("train", "validation", "test")}
    for split, pairs in splits.items():
        splits[split] = [
            p for p in pairs if max(len(p.source.split()), len(p.target.split())) <= LONGEST
        ]
    return replace(corpus, **splits)


def sizes(corpus: Corpus) -> dict[str, int]:
    """How many pairs each split has."""
    return {split: len(getattr(corpus, split)) for split in ("train", "validation", "test")}


def talk_corpus(root: Path | None = None) -> Corpus:
    """The released development and test sets, split by talk: five sixths train.

    Every sixth talk is held out; those validate and test in turn.  A talk that is in two sets
    counts once: its later copy is left out.
    """
    splits, seen = {"train": [], "validation": [], "test": []}, set()
    for name in TEST_SETS:
        names = [f"IWSLT16.{name}.de-en.{side}.xml" for side in ("de", "en")]
        files = [((root or cache_folder()) / "iwslt" / "de-en" / n).read_bytes() for n in names]
        for source, target in zip(*map(by_talk, files, names), strict=True):
            talk, texts = source
            if talk != target[0] or len(texts) != len(target[1]):
                raise ValueError(f"{names[0]}: talk {talk} differs in {names[1]}")
            if talk not in seen:
                held = ("validation", "test")[len(seen) // 6 % 2]
                split = held if len(seen) % 6 == 5 else "train"
                splits[split] += map(Pair, texts, target[1])
                seen.add(talk)
    return Corpus("talks", "de", "en", **splits)


def by_talk(data: bytes, name: str) -> list[tuple[str, list[str]]]:
    """Each talk's number with the texts of its segments."""
    found = []
    for part in data.split(b"<doc ")[1:]:
        talk = part.partition(b'docid="')[2].partition(b'"')[0].decode()
        found.append((talk, [text for _, text in segments(part, name)]))
    return found


def memory(seeds: Sequence[int], out: Path) -> None:
    """MiB at the peak of an update on all talks, padded to the batch and to the longest of all."""
    corpus, settings = talk_corpus(), load_settings("iwslt14-de-en").changed(TALKS, "talks")
    codecs = build_codecs(corpus, **asdict(settings.tokenizer))
    settings = settings.with_vocabularies(*(len(codec.vocab) for codec in codecs))
    examples, _ = encode_pairs(corpus.train, *codecs, settings.model.max_length)
    longest = max(max(len(e.source), len(e.target) - 1) for e in examples)
    order, rows = torch.randperm(len(examples), generator=torch.manual_seed(seeds[0])).tolist(), []
    for size in (16, 32, 64, 128):
        batches = [
            collate([examples[i] for i in order[n : n + size]]) for n in range(0, len(order), size)
        ]
        batches.sort(key=steps.positions)
        middle, largest = batches[len(batches) // 2], batches[-1]
        whole = steps.pad_to(largest, longest + 1)
        peaks = {"middle": middle, "largest": largest, "padded to the corpus": whole}
        for name, batch in peaks.items():
            peaks[name] = steps.memory_by_formula(batch, config=settings.model).peak / steps.MIB
        rows.append({"sentences": size, "padding": padding_waste(batches), "peaks": peaks})
    write(
        "memory", model=asdict(settings.model), pairs=len(examples), longest=longest, batches=rows
    )


CLASSIC = {
    "model": {"d_model": 128, "n_heads": 4, "n_encoder_layers": 2, "n_decoder_layers": 2}
    | {"d_ff": 512, "dropout": 0.1, "tied": "target"},
    "tokenizer": {"kind": "spacy", "size": 20_000, "min_count": 2, "joint": False}
    | {"lowercase": True},
    "training": {"epochs": 18, "max_tokens": 512, "learning_rate": 2e-3, "warmup": 2000}
    | {"schedule": "inverse-sqrt", "average": 18, "keep": "best"},
    "decoding": {"beam": 1},
    "recipe": {},
}
VARIED = {  # the recipe, and one change each
    "classic": {},
    "warm-up 200": {"training": {"warmup": 200}},
    "no smoothing": {"training": {"label_smoothing": 0.0}},
}
PART, READ = 3_700, 200  # sentences between two measurements, and translated at each


def classic(seeds: Sequence[int], out: Path) -> None:
    """The classic recipe without its faults, and with a short warm-up or without smoothing."""
    settings = load_settings("multi30k-de-en").changed(CLASSIC, "classic")
    corpus, runs = load("multi30k-de-en"), earlier("classic", settings)
    made = {(run["case"], run["seed"]) for run in runs}
    corpus = replace(corpus, validation=corpus.validation[:READ])
    codecs = build_codecs(corpus, **asdict(settings.tokenizer))
    for seed in seeds:
        for case in (case for case in VARIED if (case, seed) not in made):
            chosen = settings.changed(VARIED[case], case).with_value("training.seed", seed)
            folder = out / f"classic-{case.replace(' ', '-')}-{seed}"
            history = fit(folder, chosen, codecs, corpus, part=PART)
            points = [sameness(folder, record, corpus) for record in history]
            searched = [sameness(folder, r, corpus, beam=5) for r in (history[:3][-1], history[-1])]
            runs.append({"case": case, "seed": seed, "points": points, "beam": searched})
            say(f"{case}, seed {seed}: {points[0]} {points[-1]}")
            write("classic", settings=asdict(settings), varied=VARIED, read=READ, runs=runs)


def sameness(folder: Path, record: EpochRecord, corpus: Corpus, beam: int = 1) -> dict[str, Any]:
    """How alike the translations of the validation sentences are after an epoch, and BLEU."""
    translator = Translator.load(folder, checkpoint=f"epoch-{record.epoch:03d}")
    said = translator.translate([p.source for p in corpus.validation], beam=beam)
    common, times = Counter(said).most_common(1)[0]
    words = Counter(w for t in said for w in set(t.rstrip(".").split()) if len(w) > 4)
    lengths = [
        sum(len(t.split()) for t in texts)
        for texts in (said, [p.target for p in corpus.validation])
    ]
    bleu = bleu_sacre(said, [p.target for p in corpus.validation], lowercase=True).score
    return {
        "updates": record.updates,
        "rate": record.learning_rate,
        "validation_nll": round(record.validation_nll, 4),
        "different": len(set(said)),
        "most_common": [common, times],
        "usual_word": list(*words.most_common(1)),  # of more than four letters, in so many outputs
        "length_ratio": round(lengths[0] / lengths[1], 3),
        "bleu": round(bleu, 2),
    }


SIX = {
    "model": {"d_model": 256, "n_heads": 8, "n_encoder_layers": 6, "n_decoder_layers": 6}
    | {"d_ff": 1024},
    "training": {"max_tokens": 256},
}


def speed(seeds: Sequence[int], out: Path) -> None:
    """Time updates: the classic recipe with six layers a side on 256 sentences, and `large`."""
    settings = load_settings("multi30k-de-en").changed(CLASSIC, "classic").changed(SIX, "six")
    corpus = load("multi30k-de-en")
    model, timed = time_updates(
        corpus, build_codecs(corpus, **asdict(settings.tokenizer)), settings
    )
    large = time_updates(*large_parts())[1]
    write("speed", model=asdict(model), timed=timed, large=large)


LARGE = {  # the sizes of Vaswani et al. 2017, and 50,015,935 parameters with this vocabulary
    "model": {"d_model": 512, "n_heads": 8, "n_encoder_layers": 6, "n_decoder_layers": 6}
    | {"d_ff": 2048, "dropout": 0.1},
    "training": {"epochs": 20, "max_tokens": 64, "learning_rate": 1e-4, "precision": "fp32"}
    | {"keep": "best"},
}


def large_parts() -> tuple[Corpus, tuple[Codec, Codec], Settings]:
    """Corpus, vocabularies and settings of the cmn-eng repository's largest model."""
    corpus, settings = load("cmn-en-zh"), load_settings("cmn-en-zh-original")
    codecs = tuple(Codec(WhitespaceTokenizer(), Vocab(side)) for side in corpus.vocabularies)
    return corpus, codecs, settings.changed(LARGE, "large")


def large(seeds: Sequence[int], out: Path) -> None:
    """Train the cmn-eng repository's largest model its way; score its best and last weights."""
    corpus, codecs, settings = large_parts()
    runs = earlier("large", settings)
    made = {run["seed"] for run in runs}
    for seed in (seed for seed in seeds if seed not in made):
        folder, chosen = out / f"large-{seed}", settings.with_value("training.seed", seed)
        history = fit(folder, chosen, codecs, corpus, BySentences)
        scores = marks_scores(folder, corpus, set(corpus.vocabularies[1]))[0]
        runs.append({"case": "large", "seed": seed, **scores, "history": as_record(history)})
        say(f"seed {seed}: {scores}")
        write("large", settings=asdict(settings), runs=runs)


def time_updates(
    corpus: Corpus, codecs: tuple[Codec, Codec], settings: Settings
) -> tuple[TransformerConfig, dict[str, Any]]:
    """Processor time of four updates of a model after a first one, and target tokens a second."""
    examples, _ = encode_pairs(corpus.train, *codecs)
    settings = settings.with_vocabularies(*(len(codec.vocab) for codec in codecs))
    model = Transformer(settings.model)
    on_cpu = settings.with_value("training.device", "cpu").training
    trainer = Trainer(model, BySentences(examples), examples[:1], on_cpu)
    plan, seconds, tokens = trainer.loader.plan(1), [], 0
    for rows in plan[:5]:
        batch, started = trainer.loader.load([rows]), time.process_time()
        trainer.update(batch)
        seconds.append(round(time.process_time() - started, 2))
        tokens += sum(len(examples[row].target) - 1 for row in rows) * (len(seconds) > 1)
    return model.config, {
        "parameters": sum(p.numel() for p in model.parameters()),
        "updates_per_epoch": len(plan),
        "cpu_seconds": seconds[1:],
        "tokens_per_second": round(tokens / max(sum(seconds[1:]), 0.01)),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one case."""
    options = parser(__doc__)
    options.add_argument("case", choices=CASES)
    options.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    options.add_argument("--out", type=Path, default=Path("runs/authors"), metavar="RUNS")
    given = options.parse_args(arguments)
    torch.set_num_threads(1)
    CASES[given.case](given.seeds, given.out)


CASES = {"marks": marks, "talks": talks, "memory": memory, "classic": classic}
CASES |= {"speed": speed, "large": large}

if __name__ == "__main__":
    main()
