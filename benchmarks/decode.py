"""Decoding speed against Hugging Face transformers and CTranslate2: same weights, same batches.

    python benchmarks/decode.py [--run runs/multi30k-de-en] [--sentences 1000] [--threads 2]
                                [--repeats 3]

The run is exported by `nmtcourse.recipes.export`.  Each batch is translated by all candidates
before the next one comes, so that a change of the machine's speed meets all of them; what counts
are the ratios.
Tokenization is not timed. With the length penalty 0 all of them search by one rule and
must say the same.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from shared import timing_parser, write_result  # before torch, as it imports nmtlib first

# isort: split
import torch

from nmtcourse.corpora import load_corpus
from nmtcourse.provenance import command_line, describe_machine, training_summary
from nmtcourse.recipes.export import export
from nmtlib.data.batching import pad
from nmtlib.data.corpus import Corpus
from nmtlib.inference.evaluate import bleu_tokenizer, score
from nmtlib.inference.search import NEVER_GENERATED, beam_search, length_limits
from nmtlib.inference.translator import Translator
from nmtlib.specials import EOS, PAD, SPECIALS

OURS, OURS_BF16, THEIRS = "nmtlib float32", "nmtlib bfloat16", "transformers float32"
# how its pipelines call `generate` where no batch size is given
THEIRS_SINGLY = "transformers float32, one by one"
CT2, CT2_INT8 = "CTranslate2 float32", "CTranslate2 int8"
SAME_RULE = (
    "All rank hypotheses by their log-probability alone and stop after as many have ended as the "
    "beam is wide."
)
OTHER_RULES = (
    "The programs rank by other rules, so outputs and BLEU differ: nmtlib divides a "
    "log-probability by ((5 + length) / 6) ** penalty, transformers and CTranslate2 by "
    "length ** penalty."
)
Ids = list[list[int]]
# Source sentences with EOS, and the beam -> translations without specials.
Search = Callable[[Ids, int], Ids]


def ours(translator: Translator, penalty: float, bfloat16: bool) -> Search:
    """nmtlib's beam search; a beam of 1 is greedy search."""
    model = copy.deepcopy(translator.model).bfloat16() if bfloat16 else translator.model

    def search(sources: Ids, beam: int) -> Ids:
        found = beam_search(model, pad(sources), beam, length_penalty=penalty)
        return [best.ids for (best,) in found]

    return search


def hugging_face(translator: Translator, run: Path, place: Path, penalty: float) -> Search:
    """`generate` of Marian, or of its pre-norm relative Pegasus."""
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    family = "marian" if translator.model.config.norm == "post" else "pegasus"
    folder = export(run, family, place / family)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    limit = translator.model.config.max_length

    def search(sources: Ids, beam: int) -> Ids:
        source = pad(sources)
        longest = int(length_limits(source, limit).max())
        rank = {"length_penalty": penalty, "early_stopping": True} if beam > 1 else {}
        with torch.inference_mode():
            said = model.generate(
                source,
                attention_mask=(source != PAD).long(),
                num_beams=beam,
                max_new_tokens=longest,
                do_sample=False,
                **rank,
            )
        return [row[: row.index(EOS)] if EOS in row else row for row in said[:, 1:].tolist()]

    return search


def ctranslate2(
    translator: Translator, folder: Path, penalty: float, threads: int, number: str
) -> Search:
    """CTranslate2's translator, its weights in the number format `number`."""
    import ctranslate2

    model = ctranslate2.Translator(
        str(folder), intra_threads=threads, inter_threads=1, compute_type=number
    )
    source, target = translator.source.vocab, translator.target.vocab
    limit = translator.model.config.max_length
    # 0 would be another rule: stop once the best hypothesis of a step ends.
    penalty = penalty or 1e-6

    def search(sources: Ids, beam: int) -> Ids:
        found = model.translate_batch(
            [source.decode(row[:-1]) for row in sources],
            beam_size=beam,
            min_decoding_length=0,
            max_input_length=0,
            length_penalty=penalty,
            max_decoding_length=int(length_limits(pad(sources), limit).max()),
            suppress_sequences=[[SPECIALS[i]] for i in NEVER_GENERATED],
        )
        return [target.encode(result.hypotheses[0]) for result in found]

    return search


def measure(
    candidates: dict[str, Search], batches: list[Ids], beam: int, repeats: int
) -> tuple[dict[str, list[float]], dict[str, Ids]]:
    """Seconds of each repeat, and the translations in the order of the batches, by candidate."""
    seconds = {name: [0.0] * repeats for name in candidates}
    said: dict[str, Ids] = {}
    for search in candidates.values():
        search(batches[-1], beam)  # the first time allocates
    for repeat in range(repeats):
        said = {name: [] for name in candidates}
        for batch in batches:
            for name, search in candidates.items():
                started = time.perf_counter()
                said[name] += search(batch, beam)
                seconds[name][repeat] += time.perf_counter() - started
    return seconds, said


def report(
    seconds: dict[str, list[float]], said: dict[str, Ids], bleu: Callable[[Ids], float]
) -> dict[str, Any]:
    """Speed, speed relative to ours in float32 (median over the repeats), agreement and BLEU."""
    count = len(said[OURS])
    return {
        name: {
            "sentences_per_second": round(count / statistics.median(times), 1),
            "nmtlib_speed_over_this": round(
                statistics.median(a / b for a, b in zip(times, seconds[OURS], strict=True)), 2
            ),
            "same_as_nmtlib": round(
                sum(a == b for a, b in zip(said[name], said[OURS], strict=True)) / count, 4
            ),
            "bleu": round(bleu(said[name]), 2),
        }
        for name, times in seconds.items()
    }


def make_candidates(
    translator: Translator, place: Path, options: argparse.Namespace
) -> dict[str, Search]:
    """Every program with the same weights, exported into the folder `place`."""
    run, penalty, threads = options.run, options.length_penalty, options.threads
    theirs = hugging_face(translator, run, place, penalty)
    exported = export(run, "ctranslate2", place / "ctranslate2")
    return {
        OURS: ours(translator, penalty, bfloat16=False),
        OURS_BF16: ours(translator, penalty, bfloat16=True),
        THEIRS: theirs,
        THEIRS_SINGLY: lambda sources, beam: [theirs([source], beam)[0] for source in sources],
        CT2: ctranslate2(translator, exported, penalty, threads, "float32"),
        CT2_INT8: ctranslate2(translator, exported, penalty, threads, "int8"),
    }


def compare(
    translator: Translator,
    corpus: Corpus,
    candidates: dict[str, Search],
    beam: int,
    options: argparse.Namespace,
) -> dict[str, Any]:
    """All candidates with one beam, on the first sentences of the test split."""
    pairs = corpus.test[: options.sentences]
    encoded = [translator.source.encode(pair.source) for pair in pairs]
    order = translator.batches(encoded, translator.settings.decoding.max_tokens // beam)
    batches = [[[*encoded[i], EOS] for i in rows] for rows in order]
    ordered = [pairs[i] for rows in order for i in rows]
    tokenize = bleu_tokenizer(translator, corpus)
    lowercase = translator.settings.tokenizer.lowercase

    def bleu(said: Ids) -> float:
        texts = [translator.target.decode(ids) for ids in said]
        return score(texts, ordered, tokenize=tokenize, lowercase=lowercase).bleu

    return report(*measure(candidates, batches, beam, options.repeats), bleu)


def main() -> None:
    parser = timing_parser(__doc__, "decode")
    add = parser.add_argument
    add("--run", type=Path, default=Path("runs/multi30k-de-en"))
    add("--sentences", type=int, default=1000, help="the first so many of the test split")
    add("--repeats", type=int, default=3)
    add("--length-penalty", type=float, default=0.0)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    translator = Translator.load(options.run, device="cpu")
    corpus = load_corpus(translator.settings.corpus)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        candidates = make_candidates(translator, Path(place), options)
        for beam in (1, 5):
            found = compare(translator, corpus, candidates, beam, options)
            results[f"beam {beam}"] = found
    versions = {name: version(name) for name in ("transformers", "ctranslate2")}
    result = {
        "command": f"python benchmarks/{command_line()}",
        "sentences": len(corpus.test[: options.sentences]),
        "repeats": options.repeats,
        "length_penalty": options.length_penalty,
        "note": OTHER_RULES if options.length_penalty else SAME_RULE,
        **results,
        "training": training_summary(options.run),
        "machine": describe_machine() | versions,
    }
    write_result(options.output, result)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
