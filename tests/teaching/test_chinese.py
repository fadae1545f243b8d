"""What notebook 14 shows: the published test set, counts that can be counted again, rough rules."""

import gzip
import hashlib
import json
import math
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from nmtcourse.teaching import chinese, load_toy, slips
from nmtlib.data import corpora
from nmtlib.data.corpora import CMN
from nmtlib.inference import bleu_nltk
from nmtlib.training.history import EpochRecord

ROOT = Path(__file__).parents[2]
EPOCH = EpochRecord(1, 10, 2.5, 1e-3, 3.0, 2.8, math.exp(2.8), 0.4, 3.1, math.exp(3.1), 0.4, 900.0)


def test_the_test_set_is_the_published_one_bit_for_bit():
    shipped = gzip.decompress(chinese.TEST.read_bytes())
    assert hashlib.sha256(shipped).hexdigest() == CMN.files["testing.txt"]
    assert len(chinese.test_pairs()) == CMN.pairs[2]


def test_the_note_beside_the_sentences_names_their_home_and_licence():
    note = chinese.TEST.with_name("cmn-test.md").read_text("utf-8")
    assert "tatoeba.org" in note and "CC BY 2.0 FR" in note and CMN.home.split("/")[-2] in note


def test_the_facts_about_the_test_set_can_be_counted_again():
    facts, pairs = chinese.facts(), chinese.test_pairs()
    assert facts["pairs"] == list(CMN.pairs) and len(pairs) == facts["pairs"][2]
    assert len(facts["leaked"]) == 140 and max(facts["leaked"]) < len(pairs)
    assert set(facts["people"]["twice"]["slips"]) == set(slips.RULES)


def test_the_published_chinese_vocabulary_is_stored_whole():
    facts = chinese.facts()
    words = facts["chinese_vocabulary"].split()
    assert len(set(words)) == len(words) == facts["vocabularies"]["chinese"]
    assert len(words) < facts["chinese_words"]["different"] < facts["chinese_words"]["all"]


def test_recorded_runs_are_read_as_they_were_written(tmp_path):
    worse = asdict(EPOCH) | {"epoch": 2, "validation_nll": 3.2}
    run = {"seed": 1, "bleu_nltk": 0.2, "history": [asdict(EPOCH), worse], "minutes": 3}
    file = tmp_path / "recorded.json"
    file.write_text(json.dumps({"runs": [run], "outputs": ["好 。"]}), "utf-8")
    (read,) = chinese.runs(file)
    assert read.best == EPOCH and (read.seed, read.bleu_nltk) == (1, 0.2)
    assert chinese.outputs(file) == ["好 。"]


def test_the_stored_outputs_are_those_of_the_first_run():
    texts = [output.lower().split() for output in chinese.outputs()]
    references = [pair.target.lower().split() for pair in chinese.test_pairs()]
    assert bleu_nltk(texts, references) == pytest.approx(chinese.runs()[0].bleu_nltk)


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


@pytest.mark.parametrize("output", ["我 不 忙 。 我 很 好 吗 ？", "我 不 忙 。 好"])
def test_a_draw_scores_as_nltk_does(output):
    long, short = (output, "我 不 忙 。 我 很 好 。"), ("好 。", "好 。")  # short: without 4-grams
    outputs, references = zip(long, short, strict=True)
    draws = chinese.bootstrap(outputs, references, draws=50)
    expected = set()
    for rows in ([long, long], [long, short]):
        sides = [[text.split() for text in side] for side in zip(*rows, strict=True)]
        expected.add(round(bleu_nltk(*sides), 9))
    with_a_match = {round(float(draw), 9) for draw in draws if draw > 0}
    assert with_a_match == expected


def test_a_cut_is_wrong_where_another_is_far_commoner():
    texts = ["汤姆 拒绝 。"] * 5 + ["汤姆拒 绝 。"]
    assert chinese.miscuts(texts) == [("汤姆拒 绝", "汤姆 拒绝")]
    assert chinese.miscuts(texts, factor=25) == []


def test_a_translation_has_the_length_of_its_reference():
    torch.set_num_threads(1)
    translator = load_toy("en-zh")
    pairs = list(corpora.load("toy-en-zh").test[:12])
    wanted = [len(pair.target.split()) for pair in pairs]
    exactly = chinese.to_reference_length(translator, pairs, exactly=True)
    assert [len(text.split()) for text in exactly] == wanted
    shorter = [type(pair)(pair.source, "我 。") for pair in pairs]
    at_most = chinese.to_reference_length(translator, shorter, exactly=False)
    assert max(len(text.split()) for text in at_most) == 2


S, GOOD = "tom does not like two dogs .", "汤姆 不 喜欢 两只 狗 。"
BROKEN = {  # an output that breaks just this rule
    "another measure word, or none": "汤姆 不 喜欢 两个 狗 。",
    "了 on one side only": "汤姆 不 喜欢 两只 狗 了 。",
    "a name lost or invented": "玛丽 不 喜欢 两只 狗 。",
    "yes for no": "汤姆 喜欢 两只 狗 。",
    "question or statement": "汤姆 不 喜欢 两只 狗 ？",
    "said twice running": "汤姆 不 喜欢 喜欢 两只 狗 。",
    "English left over": "汤姆 不 喜欢 两只 dogs 。",
    "less than 60 % of the length": "汤姆 不 两只",
}


def test_every_rule_has_an_example():
    assert set(BROKEN) == set(slips.RULES)


@pytest.mark.parametrize(("rule", "output"), BROKEN.items(), ids=BROKEN)
def test_a_rule_rings_for_its_slip_alone(rule, output):
    assert slips.slips(S, GOOD, GOOD) == []
    assert slips.slips(S, output, GOOD) == [rule]


@pytest.mark.parametrize(
    "text",
    ["你 是不是 学生 ？", "还 不错 。", "对不起 。", "别人 的 书 。", "很 无聊 。", "有 区别 。"],
)
def test_a_word_that_only_contains_a_negation_denies_nothing(text):
    assert not slips.denies(text) and slips.denies(f"我 没有 说 {text}")


def test_what_is_doubled_on_purpose_is_no_repetition():
    assert slips.repeats("妈妈 常常 看看 书 。 。") == []
    assert slips.repeats("他 说 他 说 好 。") == ["他说"]
