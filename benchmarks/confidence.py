"""Set the limit of confidence of each shipped model on its validation set, and record it.

    python benchmarks/confidence.py     # a minute; needs Multi30k and cmn-eng-simple in the cache

Writes confidence.json beside the weights of each model, and results/confidence.json: the limit, and
of how many good and other translations of the validation set the rule warns.  What is good is said
in `nmtcourse/confidence.py`.  The sentences that people type were not used to set a limit.
"""

from __future__ import annotations

from typing import Any

from shared import RESULTS, parser, write_result

from nmtcourse import confidence
from nmtcourse.corpora import load_corpus
from nmtcourse.provenance import command_line, describe_machine
from nmtlib.inference.translator import Translator
from nmtlib.run import SHIPPED

RESULT = RESULTS / "confidence.json"


def measure(model: str) -> dict[str, Any]:
    """Store the limit of one model; returns what it does on the validation set."""
    translator = Translator.load(model, device="cpu")
    found = confidence.measure(translator, load_corpus(translator.settings.corpus))
    if found is None:
        raise ValueError(f"{model} translates too few validation sentences well to set a limit")
    rule, judged = found
    confidence.store(SHIPPED / model, rule)
    good = [rule.doubts(each.perplexity) for each in judged if each.good]
    others = [rule.doubts(each.perplexity) for each in judged if not each.good]
    return {
        "name": model,
        "limit": rule.limit,
        "sentences": len(judged),
        "good": len(good),
        "good_doubted": sum(good),
        "others": len(others),
        "others_doubted": sum(others),
    }


def main() -> None:
    """Measure all shipped models and write the record."""
    parser(__doc__).parse_args()
    models = [measure(path.name) for path in sorted(SHIPPED.iterdir())]
    result = {"command": command_line(), "models": models, "machine": describe_machine()}
    write_result(RESULT, result)


if __name__ == "__main__":
    main()
