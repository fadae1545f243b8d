"""Each sentence is scored against its own reference; leaks, and how it was scored, are told."""

import json
import math
from dataclasses import replace

import pytest
import torch

from nmtlib.data.codec import build_codecs
from nmtlib.data.corpus import Corpus, Pair
from nmtlib.data.tokenizers import SpacyTokenizer
from nmtlib.inference import evaluate as module
from nmtlib.inference.evaluate import bleu_tokenizer, evaluate, score
from nmtlib.inference.metrics import bleu_nltk
from nmtlib.inference.translator import Translator
from nmtlib.model.transformer import Transformer
from nmtlib.settings import DecodingSettings, Settings, TokenizerSettings
from nmtlib.specials import BOS, EOS, SPECIALS, UNK

TRAIN = [
    Pair("Der Hund läuft in den Park .", "The dog runs into the park ."),
    Pair("Die Katze schläft heute zu Hause .", "The cat sleeps at home today ."),
]
FRESH = [
    Pair("Das Kind spielt mit dem Ball .", "The child plays with the ball ."),
    Pair("Die Frau liest ein gutes Buch .", "The woman reads a good book ."),
    Pair("Ein Mann kauft das rote Auto .", "A man buys the red car ."),
]


def corpus(test=FRESH, target_language="en") -> Corpus:
    return Corpus("tiny", "de", target_language, train=TRAIN, test=test)


class Stub(Translator):
    """A translator with a real model that gives the translations it is told to."""

    def __init__(self, answers: dict[str, str], *, lowercase: bool = False):
        layers = {"n_encoder_layers": 1, "n_decoder_layers": 1}
        settings = Settings(
            tokenizer=TokenizerSettings(kind="whitespace", lowercase=lowercase),
            model=replace(Settings().model, d_model=8, n_heads=2, d_ff=16, **layers),
            decoding=DecodingSettings(beam=3, length_penalty=0.5),
        )
        words = Corpus("c", "de", "en", [*TRAIN, *FRESH])
        source, target = build_codecs(words, "whitespace", lowercase=lowercase)
        torch.manual_seed(0)
        model = Transformer(settings.with_vocabularies(len(source.vocab), len(target.vocab)).model)
        super().__init__(model, source, target, settings)
        self.answers, self.asked = answers, []

    def translate(self, sentences, **options):
        self.asked.append(options)
        return [self.answers[sentence] for sentence in sentences]


PERFECT = {p.source: p.target for p in (*TRAIN, *FRESH)}


def test_perfect_translations_have_the_highest_scores():
    evaluation, hypotheses = evaluate(Stub(PERFECT), corpus())
    assert hypotheses == [p.target for p in FRESH]
    scores = evaluation.scores
    assert (scores.bleu, scores.chrf, scores.bleu_nltk) == pytest.approx((100, 100, 1))
    assert (evaluation.corpus, evaluation.split, scores.sentences) == ("tiny", "test", len(FRESH))


def test_each_sentence_is_compared_with_its_own_reference():
    rotated = {p.source: q.target for p, q in zip(FRESH, FRESH[1:] + FRESH[:1], strict=True)}
    scores = evaluate(Stub(rotated), corpus())[0].scores
    assert scores.bleu < 50 and scores.bleu_nltk < 0.5 and scores.chrf < 50


def test_bleu_of_nltk_counts_words_and_not_letters():
    hypotheses = ["the small dog runs over the green field", "two children play with a red ball"]
    references = [
        "the small dog runs across the green field",
        "two children play with the red ball",
    ]
    pairs = [Pair("", reference) for reference in references]
    words = bleu_nltk([h.split() for h in hypotheses], [r.split() for r in references])
    assert score(hypotheses, pairs).bleu_nltk == pytest.approx(words)


def test_a_word_that_the_model_does_not_know_is_never_right():
    """UNK is a word of no reference: the references are the text of the corpus."""
    unknown = [Pair(p.source, p.target.replace("child", "zebra")) for p in FRESH[:1]]
    said = {p.source: p.target.replace("zebra", SPECIALS[UNK]) for p in unknown}
    scores = evaluate(Stub(said), corpus(unknown))[0].scores
    assert scores.bleu < 90 and scores.bleu_nltk < 0.9


@pytest.mark.parametrize("lowercase", [False, True])
def test_capitals_count_unless_the_model_has_none(lowercase):
    lowered = {source: target.lower() for source, target in PERFECT.items()}
    scores = evaluate(Stub(lowered, lowercase=lowercase), corpus())[0].scores
    perfect = (scores.bleu, scores.chrf, scores.bleu_nltk) == pytest.approx((100, 100, 1))
    assert perfect == lowercase
    assert f"case:{'lc' if lowercase else 'mixed'}" in scores.signature
    assert f"case:{'lc' if lowercase else 'mixed'}" in scores.chrf_signature


@pytest.mark.parametrize(
    ("language", "reference", "near"),
    [
        ("zh", "我在公园里看书。", "我在公园里看报。"),
        ("ja", "彼は公園で本を読んでいます。", "彼は公園で本を読んでいた。"),
        ("ko", "그는공원에서책을읽고있습니다.", "그는공원에서책을읽고있었습니다."),
        ("th", "เขาอ่านหนังสือในสวน", "เขาอ่านหนังสือที่สวน"),
    ],
)
def test_languages_without_spaces_are_not_scored_as_one_word(language, reference, near):
    stub, pairs = Stub({}), [Pair("", reference)]
    tokenize = bleu_tokenizer(stub, corpus(target_language=language))
    assert score([near], pairs).bleu == 0, "what would come of the tokenizer for words"
    assert 50 < score([near], pairs, tokenize=tokenize).bleu < 100
    assert score([reference], pairs, tokenize=tokenize).bleu == pytest.approx(100)


def test_languages_with_spaces_are_cut_into_words_unless_they_are_already():
    stub = Stub({})
    assert bleu_tokenizer(stub, corpus()) == "none"
    stub.target.tokenizer = SpacyTokenizer("en")
    assert {bleu_tokenizer(stub, corpus(target_language=code)) for code in ("en", "de")} == {"13a"}


def test_sources_of_the_training_data_are_counted_and_told():
    test = [FRESH[0], TRAIN[1], FRESH[1], Pair(TRAIN[0].source, "The dog is running ."), FRESH[2]]
    evaluation, hypotheses = evaluate(Stub(PERFECT), corpus(test))
    assert evaluation.leaked_sources == 2, "the source decides, whatever the reference"
    assert evaluation.scores == score(hypotheses, test, tokenize="none")
    assert "2 of the sources are in the training data" in "\n".join(evaluation.lines())
    without, _ = evaluate(Stub(PERFECT), corpus())
    assert without.leaked_sources == 0 and "training data" not in "\n".join(without.lines())


def test_the_training_split_does_not_leak_into_itself():
    evaluation, _ = evaluate(Stub(PERFECT), corpus(), "train")
    assert evaluation.split == "train" and evaluation.leaked_sources == 0
    assert evaluation.scores.sentences == len(TRAIN)


def test_a_split_that_is_not_there_and_other_languages_are_refused_before_any_work():
    stub = Stub(PERFECT)
    for split, expected in (("tests", "unknown split 'tests'"), ("challenge", "no challenge spl")):
        with pytest.raises(ValueError, match=expected):
            evaluate(stub, corpus(), split)
    stub.settings = stub.settings.changed({"corpus": {"name": "toy-de-en"}})
    with pytest.raises(ValueError, match="translates de-en, but the pairs of tiny are de-zh"):
        evaluate(stub, corpus(target_language="zh"))
    assert not stub.asked


def test_a_sentence_that_the_model_cannot_read_has_an_empty_translation():
    stub = Stub(PERFECT | {"": ""})
    long = Pair("Hund " * 300, "dog")
    whole, hypotheses = evaluate(stub, corpus([*FRESH, long]))
    assert hypotheses == [*(p.target for p in FRESH), ""] and whole.too_long == 1
    assert any("1 of the sentences" in line for line in whole.lines())
    without, _ = evaluate(stub, corpus())
    assert whole.perplexity == without.perplexity and without.too_long == 0
    assert whole.scores.bleu < without.scores.bleu
    assert not any("more tokens" in line for line in without.lines())


def test_the_search_is_that_of_the_run_unless_another_is_given():
    stub = Stub(PERFECT)
    usual, _ = evaluate(stub, corpus())
    other, _ = evaluate(stub, corpus(), beam=1, length_penalty=0.0)
    assert stub.asked == [{"beam": 3, "length_penalty": 0.5}, {"beam": 1, "length_penalty": 0.0}]
    assert (usual.beam, usual.length_penalty, other.beam, other.length_penalty) == (3, 0.5, 1, 0.0)
    assert "beam 3" in usual.lines()[0] and "greedy" in other.lines()[0]


def test_perplexity_and_accuracy_are_those_of_the_references():
    stub = Stub(PERFECT)
    stub.model.double()
    evaluation, _ = evaluate(stub, corpus())
    nll, correct, labels = 0.0, 0, 0
    for pair in FRESH:
        source, target = stub.source.encode(pair.source), stub.target.encode(pair.target)
        with torch.no_grad():
            logp = stub.model(
                torch.tensor([[*source, EOS]]), torch.tensor([[BOS, *target]])
            ).log_softmax(-1)[0]
        wanted = torch.tensor([*target, EOS])
        nll -= float(logp[range(len(wanted)), wanted].sum())
        correct += int((logp.argmax(-1) == wanted).sum())
        labels += len(wanted)
    assert evaluation.perplexity == pytest.approx(math.exp(nll / labels), rel=1e-9)
    assert evaluation.token_accuracy == pytest.approx(correct / labels)
    changed, _ = evaluate(Stub({p.source: "nothing ." for p in FRESH}), corpus())
    assert changed.perplexity == pytest.approx(evaluation.perplexity, rel=1e-5), (
        "translations do not change it"
    )


def test_the_speed_is_that_of_translating(monkeypatch):
    clock = iter([10.0, 14.0])
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(clock))
    evaluation, _ = evaluate(Stub(PERFECT), corpus())
    assert evaluation.seconds == 4 and "4.0 s (1 sentences/s)" in evaluation.lines()[0]


def test_an_evaluation_is_json():
    stub = Stub(PERFECT)
    evaluation, _ = evaluate(stub, corpus())
    data = evaluation.to_dict()
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert data["parameters"] == sum(p.numel() for p in stub.model.parameters())
    assert data["scores"]["signature"].startswith("nrefs:1|")
    assert bleu_nltk([p.target.split() for p in FRESH], [p.target.split() for p in FRESH]) == 1


def test_a_split_of_which_nothing_can_be_read_is_refused():
    translator = Stub({pair.source: pair.target for pair in FRESH})
    translator.model.config = replace(translator.model.config, max_length=3)
    with pytest.raises(ValueError, match="all 3 pairs have more than 3 tokens"):
        evaluate(translator, corpus())
