"""Bugs 48 to 54: from probabilities to a translation."""

from __future__ import annotations

from nmtlib.teaching.bugs.bug import Bug
from nmtlib.teaching.bugs.planting import Edit

SUBJECT = "data and decoding"
BEAM_SEARCH = "inference.search:beam_search"
DONE = "done = (finished.count[rows] >= beam) | (finished.score[rows, n_best - 1] >= reachable)"

BUGS = (
    Bug(
        number=48,
        key="wrong-start-symbol",
        title="Start symbol of inference differs from that of training",
        subject=SUBJECT,
        symptom="Validation loss is fine, but translations begin with a guess, for the decoder never read "
        "this symbol first, and a wrong first word leads the rest astray.",
        cure="Start with the symbol that stood first in training, and name it once.",
        source="course projects, where one library starts with EOS and the other with BOS",
        caught_by=("decoding.start_symbol",),
        edits=(
            Edit("inference.search:_search_one", "torch.full_like(open_rows, BOS)", "torch.full_like(open_rows, EOS)"),
            Edit(BEAM_SEARCH, "(len(source), 1, 1), BOS,", "(len(source), 1, 1), EOS,"),
        ),
    ),
    Bug(
        number=49,
        key="reference-length-leaks",
        title="Decoding runs to the length of the reference",
        subject=SUBJECT,
        symptom="A better BLEU than a reader can reproduce with new text: the brevity penalty never applies, and "
        "endless translations are cut where the reference ends.",
        cure="Bound the length by the source alone; a translator does not know the reference.",
        source="course projects that loop over the positions of the target at inference",
        caught_by=("decoding.no_reference",),
        edits=(
            Edit(
                "inference.evaluate:evaluate",
                "translator.translate([p.source for p in pairs], beam=beam, length_penalty=length_penalty)",
                "[\n        translator.translate([p.source], beam=beam, length_penalty=length_penalty,\n"
                "                             max_length=len(translator.target.encode(p.target)))[0]\n"
                "        for p in pairs\n    ]",
            ),
        ),
    ),
    Bug(
        number=50,
        key="text-after-eos",
        title="What follows EOS is scored",
        subject=SUBJECT,
        symptom="Right translations with a tail of symbols, padding or repetitions, and a low precision.",
        cure="Cut at the first EOS before ids become text.",
        source="course projects that decode a whole row of a padded batch",
        caught_by=("decoding.stops_at_eos", "decoding.text_ends_at_eos"),
        edits=(
            Edit("inference.search:_words", "return ids[: ids.index(EOS)] if EOS in ids else ids", "return ids"),
            Edit("data.codec:Codec.tokens", "    ids = ids[: ids.index(EOS)] if EOS in ids else ids\n", ""),
        ),
    ),
    Bug(
        number=51,
        key="beam-extends-finished",
        title="Beam search keeps extending finished hypotheses",
        subject=SUBJECT,
        symptom="Places of the beam go to what follows EOS, so that a beam of 5 searches like one of 2, and "
        "a sentence may be listed twice.",
        cure="Take a hypothesis out of the beam as soon as it says EOS, and keep it in a list of its own.",
        source="beam searches written from scratch",
        caught_by=("beam.scores",),
        edits=(Edit(BEAM_SEARCH, "log_prob.masked_fill(ends, -math.inf).topk", "log_prob.topk"),),
    ),
    Bug(
        number=52,
        key="length-penalty-sign",
        title="Length penalty with the wrong sign",
        subject=SUBJECT,
        symptom="The greater the penalty, the shorter the translations, and BLEU falls with its brevity penalty.",
        cure="Log-probabilities are negative: divide them by a norm that grows with the length.",
        source="beam searches written from scratch",
        caught_by=("beam.length_penalty",),
        edits=(
            Edit(
                "inference.search:length_norm",
                "6) ** penalty\n",
                "6) ** -penalty\n",
            ),
        ),
    ),
    Bug(
        number=53,
        key="beam-stops-early",
        title="Search stops as soon as the best beam has ended",
        subject=SUBJECT,
        symptom="A beam of 10 is no better than one of 2, the n-best list is short, and translations are short too: "
        "a longer hypothesis never gets the time to win.",
        cure="Go on until no open hypothesis can still beat what has ended.",
        source="beam searches written from scratch",
        caught_by=("beam.does_not_stop_early",),
        edits=(Edit(BEAM_SEARCH, DONE, "done = ends[:, 0]"),),
    ),
    Bug(
        number=54,
        key="cache-not-reordered",
        title="Cache not reordered when the beams change places",
        subject=SUBJECT,
        symptom="Greedy search is right and beam search is worse, with words of one hypothesis inside another.",
        cure="Select the rows of the cache by the parents of the new hypotheses, at every step.",
        source="an issue of a widely used library: for some models the reordering was silently skipped",
        caught_by=("beam.scores",),
        edits=(
            Edit(
                BEAM_SEARCH,
                "keep[:, None] * width + parents[keep]",
                "keep[:, None] * width + torch.arange(parents.size(1)).clamp(max=width - 1)",
            ),
        ),
    ),
)
