"""What notebook 14 shows: the published test set, counts that can be counted again, rough rules."""

import gzip
import hashlib
import json
import math
from dataclasses import asdict
from pathlib import Path

import cmn_facts
import pytest
import torch

from nmtcourse.teaching import chinese, load_toy, slips
from nmtlib import Transformer, TransformerConfig
from nmtlib.data import corpora
from nmtlib.data.corpora import CMN
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
    for found in facts["lengths"].values():
        assert sum(found.values()) == facts["pairs"][0]


@pytest.mark.skipif(
    not corpora.check("cmn-en-zh").ok, reason="the corpus cmn-en-zh is not in the cache"
)
def test_the_facts_are_those_of_the_corpus():
    counted = json.loads(json.dumps(cmn_facts.count(corpora.load("cmn-en-zh"))))
    assert counted | {"command": ""} == chinese.facts() | {"command": ""}


def test_recorded_trainings_are_read_as_they_were_written(tmp_path):
    scores = dict.fromkeys(
        ("minutes", "bleu_nltk", "bleu_nltk_unleaked", "bleu_zh", "bleu_characters", "perplexity"),
        1.0,
    )
    worse = asdict(EPOCH) | {"epoch": 2, "validation_nll": 3.2}
    run = {"seed": 1, "history": [asdict(EPOCH), worse]} | scores
    about = {"key": "record", "title": "a", "settings": [], "parameters": 5, "runs": [run]}
    file = tmp_path / "recorded.json"
    file.write_text(json.dumps({"systems": [about], "outputs": ["好 。"]}), "utf-8")
    (system,) = chinese.systems(file).values()
    assert system.runs[0].best == EPOCH and system.parameters == 5
    assert chinese.outputs(file) == ["好 。"]


def test_a_text_is_cut_in_every_way_that_the_words_allow():
    assert chinese.ways_to_cut("aab", {"a", "b", "ab", "aa"}) == 3
    assert chinese.ways_to_cut("abc", {"a", "b"}) == 0


def test_a_cut_is_wrong_where_another_is_far_commoner():
    texts = ["汤姆 拒绝 。"] * 5 + ["汤姆拒 绝 。"]
    assert chinese.miscuts(texts) == [("汤姆拒 绝", "汤姆 拒绝")]
    assert chinese.miscuts(texts, factor=25) == []


def test_the_rows_of_a_model_add_up_to_its_parameters():
    model = Transformer(TransformerConfig(11, 13, 8, 2, 3, 2, 16, norm="pre"))
    model.encoder[0].requires_grad_(False)
    rows = {name: about for name, *about in chinese.parameter_rows(model)}
    total = sum(p.numel() for p in model.parameters())
    assert sum(count for _, count, *_ in rows.values()) == total
    assert rows["encoder"][0] == 3 and rows["decoder"][0] == 2
    assert rows["encoder"][2] == pytest.approx(2 / 3) and rows["output"][2] == 1


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
