"""What notebook 14 shows: the published test set, counts that can be counted again, rough rules."""

import gzip
import hashlib

from nmtcourse.teaching import chinese, slips
from nmtlib.data.corpora import CMN
from nmtlib.inference import bleu_nltk


def test_the_test_set_is_the_published_one_bit_for_bit():
    shipped = gzip.decompress(chinese.TEST.read_bytes())
    assert hashlib.sha256(shipped).hexdigest() == CMN.files["testing.txt"]
    assert len(chinese.test_pairs()) == CMN.pairs[2]


def test_a_bootstrap_draws_around_the_score_and_pairs_by_its_draws():
    references = [pair.target for pair in chinese.test_pairs()[:300]]
    outputs = chinese.outputs()[:300]
    score = bleu_nltk([o.split() for o in outputs], [r.split() for r in references])
    draws = chinese.bootstrap(outputs, references, draws=400)
    assert draws.shape == (400,) and abs(draws.mean() - score) < draws.std()
    assert (draws == chinese.bootstrap(outputs, references, draws=400)).all()
    better = [references[0], *outputs[1:]]
    gain = chinese.bootstrap(better, references, draws=400) - draws
    assert gain.std() < draws.std() / 5 and gain.mean() > 0


def test_a_draw_scores_as_nltk_does():
    for output in ("我 不 忙 。 我 很 好 吗 ？", "我 不 忙 。 好"):
        long, short = (output, "我 不 忙 。 我 很 好 。"), ("好 。", "好 。")  # short: no 4-grams
        outputs, references = zip(long, short, strict=True)
        draws = chinese.bootstrap(outputs, references, draws=50)
        expected = set()
        for rows in ([long, long], [long, short]):
            sides = [[text.split() for text in side] for side in zip(*rows, strict=True)]
            expected.add(round(bleu_nltk(*sides), 9))
        assert {round(float(draw), 9) for draw in draws if draw > 0} == expected


S, GOOD = "tom does not like two dogs .", "汤姆 不 喜欢 两只 狗 。"
BROKEN = {  # an output that breaks just this rule
    "another measure word, or none": "汤姆 不 喜欢 两个 狗 。",
    "了 on one side only": "汤姆 不 喜欢 两只 狗 了 。",
    "a name lost or invented": "玛丽 不 喜欢 两只 狗 。",
    "wrong polarity": "汤姆 喜欢 两只 狗 。",
    "question or statement": "汤姆 不 喜欢 两只 狗 ？",
    "repeated word": "汤姆 不 喜欢 喜欢 两只 狗 。",
    "English left over": "汤姆 不 喜欢 两只 dogs 。",
    "less than 60 % of the length": "汤姆 不 两只",
}


def test_a_rule_rings_for_its_slip_alone():
    for rule, output in BROKEN.items():
        assert slips.slips(S, GOOD, GOOD) == []
        assert slips.slips(S, output, GOOD) == [rule]
