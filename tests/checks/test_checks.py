"""Our own parts pass every check, and for every check there is a mistake that it finds.

Where no check and no room of the core has changed, some of the mistakes are made at a commit.
"""

import copy
import math
import re
import time
from dataclasses import replace

import mistakes
import peer_torch as foreign
import pytest
import torch
from nightly import some
from patients import stranger
from runs import FOUND, run
from runs import train as run_whole
from some_checks import ONLY
from torch import nn
from torch.nn import functional as F

from nmtcheck import CHECKS, Adapter, Result, Sizes, check, ours, run_checks
from nmtcheck.checks import metrics
from nmtcheck.checks.metrics import HYPOTHESES, REFERENCES
from nmtcheck.registry import CAUSES
from nmtcheck.report.relations import RELATIONS, reproduction
from nmtlib.model.attention import MultiHeadAttention

OURS = ours()
TORCH = foreign.torch_transformer()


def attend(
    query,
    key,
    value,
    mask,
    dropout,
    *,
    divisor=None,
    axis=-1,
    fill=None,
    on_scores=False,
    masked=True,
):
    """Attention by the formula, with room for every mistake."""
    scores = query @ key.transpose(-2, -1) / (divisor or math.sqrt(query.size(-1)))
    scores = F.dropout(scores, dropout) if on_scores else scores
    if mask is not None and masked:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min if fill is None else fill)
    weights = scores.softmax(axis)
    return (weights if on_scores else F.dropout(weights, dropout)) @ value, weights


def attention(**mistake):
    return replace(OURS, attention=lambda *given: attend(*given, **mistake))


class Wrapped(nn.Module):
    """A module with another forward."""

    def __init__(self, inner, forward):
        super().__init__()
        self.inner, self.run = inner, forward

    def forward(self, *given, **options):
        return self.run(self.inner, *given, **options)


class MixingHeads(MultiHeadAttention):
    def split(self, x):
        return x.reshape(x.size(0), self.n_heads, x.size(1), -1)


class Table(nn.Module):
    """Positions from any table (length, D), which may be no buffer, count twice, or forget its
    start.
    """

    def __init__(self, table, *, times=1, buffer=True, trained=False, forgetful=False):
        super().__init__()
        if trained:
            self.table = nn.Parameter(table)
        elif buffer:
            self.register_buffer("table", table)
        else:
            self.table = table
        self.times, self.forgetful = times, forgetful

    def forward(self, x, start=0):
        start = 0 if self.forgetful else start
        return x + self.times * self.table[start : start + x.size(1)]


def sine(d_model, length):
    return OURS.positions(d_model, length).table.clone()


def positions(table=sine, **mistake):
    return replace(OURS, positions=lambda d_model, length: Table(table(d_model, length), **mistake))


def model(change):
    """nmtlib with a change made to each new model."""

    def make_model(sizes):
        made = OURS.make_model(sizes)
        change(made)
        return made

    return replace(OURS, make_model=make_model)


def logits(run):
    """nmtlib with other logits: run(model, source, target)."""
    return replace(OURS, logits=run)


def layer(forward):
    """nmtlib with another encoder layer: forward(layer, x, mask)."""
    return replace(OURS, encoder_layer=lambda sizes: Wrapped(OURS.encoder_layer(sizes), forward))


def set_dropout(made):
    made.encoder[0].feed_forward.dropout.p = 0.5


def unregistered(made):
    made.extra = [torch.randn(1)]  # a plain list: in no state dict


def shifted(**parts):
    return replace(OURS, **parts)


def no_padding(source):
    return torch.ones_like(source, dtype=torch.bool)[:, None, None]


class BadLoop(foreign.Loop):
    """torch's loop with one mistake in its update."""

    mistake = ""

    def update(self, micro_batches):
        batches = [foreign.make_batch(pairs) for pairs in micro_batches]
        self.model.train()
        if self.mistake != "not cleared":
            self.optimizer.zero_grad()
        for source, target, labels in batches:
            foreign.loss(self.model(source, target), labels, 0.1).backward()
        if self.mistake == "by value":
            nn.utils.clip_grad_value_(self.model.parameters(), self.clip / 100)
        self.optimizer.step()
        for _ in batches if self.mistake == "rate for each" else [None]:
            self.scheduler.step()


def train(mistake):
    def run(made, updates, clip):
        loop = BadLoop(made, clip)
        loop.mistake = mistake
        for update in updates:
            loop.update(update)

    return replace(TORCH, train=run)


def fit_keeping_the_last(made, training, validation, epochs):
    _, history = foreign.fit(made, training, validation, epochs)
    loop = foreign.Loop(made, clip=1.0)
    for _ in range(20):
        loop.update([training])
    return made, [*history, foreign.validate(made, validation)]


def mean_of_means(made, batches, training):
    """The losses of batches, averaged."""
    return sum(OURS.epoch(made, [batch], training) for batch in batches) / len(batches)


def translate_in_train_mode(made, words, longest):
    """The most probable words, dropout included."""
    said, source = [1], torch.tensor([[int(word[1:]) for word in words] + [2]])
    for _ in range(longest):
        said.append(int(made.train()(source, torch.tensor([said]))[0, -1].argmax()))
    return said[1:]


def validate_smoothed(made, pairs):
    made.eval()
    source, target, labels = foreign.make_batch(pairs)
    return math.exp(foreign.loss(made(source, target), labels, 0.3).detach())


def validate_in_train_mode(made, pairs):
    source, target, labels = foreign.make_batch(pairs)
    return math.exp(foreign.loss(made(source, target), labels, 0.0).detach())


def validate_with_backward(made, pairs):
    source, target, labels = foreign.make_batch(pairs)
    loss = foreign.loss(made.eval()(source, target), labels, 0.0)
    loss.backward()
    return math.exp(loss.detach())


def forgetful_step(made, tokens, state):
    fresh = OURS.start(made, state[0])
    return OURS.step(made, tokens, fresh)[0], state


def without_bos(search):
    """A search that starts with UNK."""

    def run(made, source, *options):
        foreign.BOS, kept = 3, foreign.BOS
        try:
            return search(made, source, *options)
        finally:
            foreign.BOS = kept

    return run


def beam(change):
    """torch's model with a change made to the hypotheses of each sentence."""
    return replace(
        TORCH, beam=lambda *given: [change(found) for found in foreign.beam_search(*given)]
    )


def hasty_beam(made, source, width, penalty, longest):
    """The hypotheses that a greedy search would have said, as a beam that stops with the first one
    that ends.
    """
    return [[(ids, None)] for ids in foreign.greedy(made, source, longest)]


def first_of_each(made, source, width, penalty, longest):
    return foreign.beam_search(made, source, width, -penalty, longest)


def all_padded(pairs, most_tokens):
    return [
        tuple(F.pad(table, (0, 12 - table.size(1))) for table in foreign.make_batch([pair]))
        for pair in pairs
    ]


def mixed_pairs(pairs, most_tokens):
    targets = [target for _, target in pairs]
    return OURS.make_batches(
        list(zip([s for s, _ in pairs], targets[1:] + targets[:1], strict=True)), most_tokens
    )


def double_shift(pairs):
    source, target, labels = OURS.make_batch(pairs)
    return source, target[:, :-1], labels[:, 1:]


def letters(hypotheses, references, language="en"):
    return metrics.corpus_bleu(*([" ".join(text) for text in x] for x in (hypotheses, references)))


def words(hypotheses, references, language):
    return metrics.corpus_bleu(hypotheses, references)


def other_heads(made):
    twin = OURS.make_model(
        Sizes(n_heads=4, d_model=24, d_ff=20, n_layers=1, dropout=0.3, max_length=50)
    )
    twin.load_state_dict(made.state_dict())
    return twin


def sentence_means(logits, labels, smoothing):
    each = [
        OURS.loss(a[None], b[None], smoothing)
        for a, b in zip(logits, labels, strict=True)
        if b.any()
    ]
    return torch.stack(each).mean()


BROKEN = {
    "attention.rows_sum_to_one": attention(axis=-2),
    "attention.scale": attention(divisor=1.0),
    "attention.mask": attention(masked=False),
    "attention.mask_half": attention(fill=-1e12),
    "attention.masked_row": attention(fill=-math.inf),
    "attention.reference": replace(
        OURS, attention=lambda q, k, v, *rest: attend(q, k, 2 * v, *rest)
    ),
    "attention.dropout": attention(on_scores=True),
    "multi_head.tokens_apart": replace(OURS, multi_head=MixingHeads),
    "multi_head.key_value": replace(
        OURS,
        multi_head=lambda *sizes: Wrapped(
            OURS.multi_head(*sizes), lambda m, q, k, v, mask: m(q, v, k, mask)
        ),
    ),
    "multi_head.loop": replace(
        OURS, multi_head=lambda d_model, n_heads: OURS.multi_head(d_model, n_heads // 2)
    ),
    "embedding.scale": replace(
        OURS, embedding=lambda size, d_model: nn.Embedding(size, d_model, padding_idx=0)
    ),
    "embedding.pad_gradient": replace(OURS, embedding=nn.Embedding),
    "positions.shift_is_rotation": positions(lambda d_model, length: torch.randn(length, d_model)),
    "positions.follow_the_model": positions(buffer=False),
    "positions.source_order": model(lambda made: setattr(made, "source_positions", nn.Identity())),
    "positions.target_order": model(
        lambda made: setattr(made, "target_positions", Table(torch.zeros(60, 16)))
    ),
    "masks.future_in_training": logits(lambda m, s, t: m(s, t.roll(-1, 1))),
    "masks.future_in_evaluation": logits(lambda m, s, t: m(s, t if m.training else t.roll(-1, 1))),
    "masks.more_padding": logits(lambda m, s, t: m.decode(t, m.encode(s), no_padding(s))),
    "inside.sums": stranger("softmax over queries"),
    "inside.heads": stranger("heads joined by a view"),
    "inside.future": stranger("off by one"),
    "layers.own_norms": stranger("one norm"),
    "layers.whole_input": stranger("slices of heads"),
    "embedding.sides": stranger("decoder not scaled"),
    "layers.one_parameter": stranger("tied by data"),
    "layers.registered": stranger("plain list"),
    "layers.one_stream": stranger("residual behind the norm"),
    "positions.relative": stranger("half turned"),
    "inside.padding": stranger("no memory mask"),
    "inside.residual": stranger("no residual"),
    "inside.activation": stranger("no activation"),
    "inside.scale": stranger("no scale"),
    "positions.balance": stranger("small embeddings"),
    "masks.padded_queries": logits(
        lambda m, s, t: m(s, t).masked_fill((t == 0)[..., None], math.nan)
    ),
    "layers.gradient": model(lambda made: setattr(made, "unused", nn.Linear(3, 4))),
    "layers.separate_weights": model(lambda made: made.encoder.__setitem__(1, made.encoder[0])),
    "layers.no_dropout": model(set_dropout),
    "layers.dropout_rate": model(set_dropout),
    "layers.dropout_once": model(
        lambda made: setattr(made, "dropout", nn.Sequential(made.dropout, nn.Dropout(0.3)))
    ),
    "layers.cross_attention": logits(lambda m, s, t: m(torch.full_like(s, 4), t)),
    "model.shape": logits(lambda m, s, t: m(s, t).transpose(0, 1)),
    "model.batch_invariance": logits(lambda m, s, t: m(s, t) - m(s, t).mean(0)),
    "model.overfit": logits(lambda m, s, t: m(torch.full_like(s, 4), torch.full_like(t, 1))),
    "model.eval_repeats": logits(lambda m, s, t: F.dropout(m(s, t), 0.5)),
    "model.double": logits(lambda m, s, t: m(s, t).float()),
    "model.state_dict": replace(
        model(unregistered), logits=lambda m, s, t: m(s, t) + m.extra[0] * s.size(1)
    ),
    "model.tied": replace(
        OURS, tied=lambda: [nn.Parameter(torch.ones(3, 2)), nn.Parameter(torch.ones(3, 2))]
    ),
    "model.parameter_count": replace(
        OURS,
        count_parameters=lambda m: sum(
            p.numel() for part in m.modules() for p in part.parameters()
        ),
    ),
    "model.checkpoint": replace(OURS, reload=other_heads),
    "model.attention_maps": replace(
        OURS, attention_maps=lambda *given: OURS.attention_maps(*given)[::-1]
    ),
    "loss.pad_ignored": replace(
        OURS, loss=lambda x, y, e: F.cross_entropy(x.flatten(0, 1), y.flatten())
    ),
    "loss.batching": replace(OURS, loss=sentence_means),
    "loss.smoothing_pad": replace(OURS, loss=foreign.loss),
    "schedule.first_rate": replace(OURS, schedule=lambda update: 0.01 * min((update - 1) / 4, 1)),
    "training.schedule_per_update": train("rate for each"),
    "training.accumulation": train("sum of means"),
    "training.best_kept": replace(TORCH, fit=fit_keeping_the_last),
    "validation.mean": replace(OURS, epoch=mean_of_means),
    "decoding.eval_mode": replace(OURS, translate=translate_in_train_mode),
    "validation.perplexity": replace(TORCH, validate=validate_smoothed),
    "validation.eval_mode": replace(TORCH, validate=validate_in_train_mode),
    "validation.trains_nothing": replace(TORCH, validate=validate_with_backward),
    "decoding.cache": replace(OURS, start=lambda m, s: (s, m.start(s)), step=forgetful_step),
    "decoding.greedy": replace(
        TORCH, greedy=lambda m, s, n: [ids[:1] for ids in foreign.greedy(m, s, n)]
    ),
    "decoding.start_symbol": replace(TORCH, greedy=without_bos(foreign.greedy)),
    "decoding.no_reference": replace(OURS, hypotheses=lambda m, s, r: OURS.greedy(m, s, len(r[0]))),
    "beam.scores": beam(lambda found: [(ids, score - 1) for ids, score in found]),
    "beam.does_not_stop_early": replace(TORCH, beam=hasty_beam),
    "beam.length_penalty": replace(TORCH, beam=first_of_each),
    "data.shift": replace(OURS, make_batch=double_shift),
    "data.pairs": replace(OURS, make_batches=mixed_pairs),
    "data.padding": replace(OURS, make_batches=all_padded),
    "data.vocabulary": replace(
        OURS, vocabulary=lambda *splits: set(" ".join(sum(splits, [])).split())
    ),
    "data.marks": replace(
        OURS, encode_text=lambda tokens, s: OURS.encode_text(tokens, s.replace("@@", ""))
    ),
    "metrics.bleu": replace(OURS, bleu=letters),
    "metrics.word_bleu": replace(OURS, word_bleu=letters),
    "metrics.bleu_chinese": replace(OURS, bleu=words),
}

BROKEN |= mistakes.MISTAKES | {name: run(mistake) for mistake, name in FOUND.items()}
# A check may have several: each is found.
EVERY = [(name, run(mistake)) for mistake, name in FOUND.items()]
EVERY += [
    ("run.weights", mistakes.train(lambda *given: mistakes.right(*given) / 7)),
    (
        "decoding.greedy",
        replace(TORCH, greedy=lambda m, s, n: [[*i, 2, 0] for i in foreign.greedy(m, s, n)]),
    ),
]


def test_every_check_has_its_mistake():
    without, unknown = CHECKS.keys() - BROKEN.keys(), BROKEN.keys() - CHECKS.keys()
    assert not without, f"add to BROKEN an adapter with a mistake that each finds: {without}"
    assert not unknown, f"BROKEN names checks that are not there: {unknown}"


def test_every_check_has_its_entry_and_every_entry_its_check():
    assert list(CAUSES) == list(CHECKS), "the table lists the checks in the order of their running"


@pytest.mark.parametrize("name", some(CHECKS, by=lambda name: CHECKS[name].subject))
def test_a_check_finds_its_mistake(name):
    (result,) = run_checks(BROKEN[name], only=name).results
    assert result.verdict in ("failed", "error"), result.measured
    # torch itself refuses -1e12 in float16.
    assert result.verdict == "failed" or name == "attention.mask_half"
    assert result.measured and result.cause


@pytest.mark.slow
@pytest.mark.parametrize(("name", "adapter"), EVERY, ids=[*FOUND, "a factor", "more than EOS"])
def test_each_of_several_mistakes_is_found(name, adapter):
    (result,) = run_checks(adapter, only=name).results
    assert result.verdict == "failed", result.measured


def test_a_script_that_exits_is_recorded():
    def run():
        run_whole("PAD counts")
        raise SystemExit

    (result,) = run_checks(Adapter(run=run), only="run.labels").results
    assert result.verdict == "failed", result.measured


def test_what_was_not_seen_is_no_pass_and_what_is_odd_is_told(monkeypatch):
    monkeypatch.setattr("nmtcheck.measure.tape.MOST", 20)
    (kept,) = run_checks(run("no copy"), only="run.kept").results
    assert kept.verdict == "skipped", kept.measured
    (rates,) = run_checks(run("restarts"), only="run.rates").results
    assert rates.verdict == "passed" and "again 1 times, first at update 13" in rates.measured


OTHERS = {id for id, check in CHECKS.items() if check.needs == ("run",)} | {"positions.relative"}


@pytest.mark.slow
def test_our_own_parts_pass_every_check_and_quickly():
    started = time.process_time()
    report = run_checks(ours())
    assert {r.check.id for r in report.results} - {r.check.id for r in report.passed} == OTHERS
    assert time.process_time() - started < 20, str(report)


@pytest.mark.slow
@pytest.mark.parametrize("only", ONLY)
def test_our_own_parts_pass_in_another_design_but_for_what_it_does_not_have(only):
    report = run_checks(ours(norm="post", positions="learned", tied="all"), seed=3, only=only)
    assert not report.failed, str(report)
    learned = {"positions.shift_is_rotation", "positions.table"} | OTHERS
    asked = {result.check.id for result in report.results}
    assert {r.check.id for r in report.skipped} - {"training.best_kept"} == learned & asked


def holds(printed):
    """Whether what three lines print is what they expect."""
    found, expected = printed.split(" expected: ")
    if expected.startswith("0.0 everywhere"):
        return set(re.findall(r"\d\.\d", found)) == {"0.0"}
    if expected.startswith(("0", "more than 0")):
        value = float(re.search(r"[-\d.]+(e-?\d+)?", found).group())
        return (abs(value) < 1e-4) == expected.startswith("0")
    return expected.strip("()") in found


@pytest.mark.parametrize("name", [n for n, about in RELATIONS.items() if "show" in about])
def test_three_lines_show_a_finding_again(name, capsys):
    for adapter, right in ((OURS, True), (BROKEN[name], False)):
        lines = reproduction(Result(CHECKS[name], "failed", ""), "", 0)
        assert len(lines) <= 3
        exec("\n".join(lines), {"adapter": adapter})
        said = capsys.readouterr().out.strip()
        assert holds(said) == right, said


def test_checks_say_what_they_are():
    """Each states its property, its cause, its notebook and its parts."""
    for name, known in CHECKS.items():
        assert known.id == name and known.subject + "." == name[: len(known.subject) + 1]
        assert known.property.endswith(".") and known.cause.endswith(".") and known.needs
        assert known.notebook[:2].isdigit()


def test_a_check_needs_an_id_of_its_own_a_docstring_and_known_parts():
    about = {"cause": "None.", "notebook": "00_tour"}
    with pytest.raises(ValueError, match="two checks with the id 'attention.scale'"):
        check("attention.scale", "attention")(test_checks_say_what_they_are)
    with pytest.raises(ValueError, match="needs a docstring"):
        check("attention.new", "attention", **about)(lambda adapter, seed: "")
    with pytest.raises(ValueError, match="no part 'attentoin'"):
        check("attention.new", "attentoin", **about)(test_checks_say_what_they_are)
    with pytest.raises(ValueError, match="no entry in causes.toml"):
        check("attention.new", "attention")(test_checks_say_what_they_are)
    assert "attention.new" not in CHECKS


def test_a_reader_can_add_a_check():
    @check("mine.seed", "loss", cause="Chance.", notebook="00_tour")
    def seeded(adapter, seed):
        """The seed is even."""
        return f"seed {seed}"

    try:
        (result,) = run_checks(OURS, only="mine", seed=2).results
        assert (result.verdict, result.measured) == ("passed", "seed 2")
        assert (result.check.property, result.check.cause) == ("The seed is even.", "Chance.")
    finally:
        CHECKS.pop("mine.seed")


def test_a_report_knows_what_an_implementation_lacks():
    report = run_checks(Adapter())
    assert not report.passed and not report.failed and not report.ok
    assert len(report.skipped) == len(CHECKS)
    assert "make_model" in next(r.measured for r in report.skipped if r.check.id == "model.shape")


@pytest.mark.parametrize("spread", ["of torch", "over all but the label"])
def test_other_ways_to_smooth_are_no_mistake(spread):
    def loss(logits, labels, smoothing):
        if spread == "of torch":
            return foreign.loss(logits, labels, smoothing)
        share = torch.full_like(logits, smoothing / (logits.size(-1) - 2))
        share[..., 0] = 0
        share.scatter_(-1, labels[..., None], 1 - smoothing)
        return -(share * logits.log_softmax(-1)).sum(-1)[labels != 0].mean()

    adapter = replace(OURS, loss=loss, pad_unsmoothed=spread != "of torch")
    assert not run_checks(adapter, only="loss").failed


def test_our_bleu_is_that_of_nltk():
    from nltk.translate.bleu_score import corpus_bleu

    tokens = [[text.split() for text in side] for side in (HYPOTHESES, REFERENCES)]
    found = metrics.corpus_bleu(HYPOTHESES, REFERENCES)
    assert found == pytest.approx(corpus_bleu([[r] for r in tokens[1]], tokens[0]))
    assert metrics.corpus_bleu(REFERENCES, REFERENCES) == pytest.approx(1.0)


def test_checks_do_not_change_what_they_are_given():
    adapter = copy.copy(OURS)
    run_checks(adapter, only=["model.shape", "model.overfit"])
    assert adapter == OURS


@pytest.mark.parametrize("said", mistakes.CONVENTIONS)
def test_another_convention_is_no_mistake(said):
    name, adapter = mistakes.CONVENTIONS[said]
    (result,) = run_checks(adapter, only=name).results
    assert result.verdict in ("passed", "skipped") and said in result.measured, result.measured
