"""The explorer's model and searches, run by node, do what PyTorch does: logits, ids, counts."""

import copy
import math
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from nightly import some
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from nmtcourse.toy import load_toy
from nmtlib.inference.search import beam_search, greedy_search
from nmtlib.inference.translator import Translator
from nmtlib.model import transformer as transformer_module
from nmtlib.model.attention import Mask, MultiHeadAttention, record_attention
from nmtlib.model.transformer import Transformer
from nmtlib.run import Run, find_run
from nmtlib.specials import BOS, EOS, PAD, UNK
from nmtlib.training.checkpoint import load_model

MODELS = ("toy-de-en", "toy-en-zh")
CLOSE = {"atol": 1e-4, "rtol": 0}
KINDS = {
    "encoder-self": "encoder.{}.self_attention",
    "decoder-self": "decoder.{}.self_attention",
    "cross": "decoder.{}.cross_attention",
}


@pytest.fixture(scope="module", params=some(MODELS))
def shipped(request, engine_of):
    """A shipped model in Python and in node, and the ids of its test sentences, EOS included."""
    translator = Translator.load(request.param, device="cpu")
    test = load_toy(request.param, train=0, challenge=0).test
    sources = [[*translator.source.encode(pair.source), EOS] for pair in test]
    engine = engine_of(find_run(request.param))
    return SimpleNamespace(engine=engine, translator=translator, test=test, sources=sources)


def said(translator: Translator, sources: list[list[int]]) -> list[list[int]]:
    """Decoder inputs: BOS and the greedy translation."""
    return [[BOS, *greedy_search(translator.model, torch.tensor([ids]))[0]] for ids in sources]


# The model


@torch.no_grad()
def run_python(model: Transformer, source: list[int], target: list[int], mask: Mask = None):
    """Logits (T, V) and the maps (H, T, S) of each kind and layer, from the real model."""
    ids, read = torch.tensor([source]), torch.tensor([target])
    mask = (ids != PAD)[:, None, None] if mask is None else mask
    with record_attention(model) as found:
        logits = model.decode(read, model.encode(ids, mask), mask)[0]
    layers = {"encoder-self": len(model.encoder)}
    maps = {
        kind: [found[name.format(n)][0][0] for n in range(layers.get(kind, len(model.decoder)))]
        for kind, name in KINDS.items()
    }
    return logits, maps


def assert_same_trace(trace: dict, logits: torch.Tensor, maps: dict) -> None:
    torch.testing.assert_close(torch.tensor(trace["logits"]), logits, **CLOSE)
    for kind, layers in maps.items():
        for layer, weights in enumerate(layers):
            given = torch.tensor(trace["maps"][kind][layer]).view_as(weights)
            torch.testing.assert_close(given, weights, **CLOSE)


@pytest.mark.slow
def test_logits_and_maps_are_those_of_pytorch(shipped):
    sources = shipped.sources[:20]
    targets = said(shipped.translator, sources)
    jobs = [
        {"do": do, "source": source, "target": target}
        for source, target in zip(sources, targets, strict=True)
        for do in ("trace", "steps")
    ]
    found = iter(shipped.engine.run(*jobs))
    for source, target in zip(sources, targets, strict=True):
        logits, maps = run_python(shipped.translator.model, source, target)
        assert_same_trace(next(found), logits, maps)
        torch.testing.assert_close(torch.tensor(next(found)), logits, **CLOSE)  # with the cache


@torch.no_grad()
def test_the_inside_of_a_layer_is_what_its_module_gets_and_gives(shipped):
    model, source = shipped.translator.model, shipped.sources[5]
    (target,) = said(shipped.translator, [source])
    for side, layers in (("encoder", model.encoder), ("decoder", model.decoder)):
        ends = SimpleNamespace()
        hook = layers[1].register_forward_hook(lambda *call, to=ends: vars(to).update(call=call))
        _, maps = run_python(model, source, target)
        hook.remove()
        asked = {"side": side, "layer": 1, "row": 2, "source": source, "target": target}
        (way,) = shipped.engine.run({"do": "inside", **asked})
        _, (given, *_), left = ends.call
        for rows, vector in ((given, way["enters"]), (left, way["steps"][-1]["sum"])):
            torch.testing.assert_close(torch.tensor(vector), rows[0, 2], **CLOSE)
        weights = torch.tensor(way["steps"][0]["weights"])
        torch.testing.assert_close(weights, maps[f"{side}-self"][1][:, 2], **CLOSE)


@pytest.mark.slow
@pytest.mark.parametrize("every", some([20, 1]))
def test_each_test_sentence_gets_the_same_ids(shipped, every):
    sources = shipped.sources[::every]
    model, expected, jobs = shipped.translator.model, [], []
    for beam, do in ((1, "greedyIds"), (5, "beamIds")):
        ids = {}
        for batch in Translator.batches(sources, 4096):
            rows = [torch.tensor(sources[i]) for i in batch]
            source = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
            ids |= zip(
                batch, (best[0].ids for best in beam_search(model, source, beam)), strict=True
            )
        expected += [ids[i] for i in range(len(sources))]
        jobs += [{"do": do, "source": source, "options": {"beam": beam}} for source in sources]
    assert len(sources) == 1000 / every and shipped.engine.run(*jobs) == expected


def test_the_searches_find_the_same_with_other_beams_penalties_and_limits(shipped):
    model, source = shipped.translator.model, shipped.sources[5]
    tensor = torch.tensor([source])
    asked = [(2, 0.0, None), (3, 3.0, None), (4, -2.0, 4), (8, 1.0, None), (1, 1.0, 2)]
    jobs = []
    for beam, penalty, most in asked:
        options = {"beam": beam, "lengthPenalty": penalty} | ({"maxLength": most} if most else {})
        jobs.append({"do": "beam", "source": source, "options": options})
    for (beam, penalty, most), given in zip(asked, shipped.engine.run(*jobs), strict=True):
        options = {"n_best": beam, "length_penalty": penalty, "max_length": most}
        (expected,) = beam_search(model, tensor, beam, **options)
        # With n_best the package searches on until all n are certain, the page until the best is.
        assert given["best"]["ids"] == expected[0].ids
        assert given["best"]["score"] == pytest.approx(expected[0].score, abs=1e-4)
        assert given["best"]["logProb"] == pytest.approx(expected[0].log_prob, abs=1e-4)
    greedy, beam = shipped.engine.run(
        {"do": "greedy", "source": source, "options": {"maxLength": 3}},
        {"do": "beam", "source": source, "options": {"beam": 1, "maxLength": 3}},
    )
    assert greedy["ids"] == beam["best"]["ids"] == greedy_search(model, tensor, max_length=3)[0]
    assert sum(greedy["logProbs"]) == pytest.approx(beam["best"]["logProb"], abs=1e-5)


def test_the_steps_of_a_beam_are_a_tree_that_leads_to_the_translation(shipped):
    source = shipped.sources[7]
    (found,) = shipped.engine.run({"do": "beam", "source": source, "options": {"beam": 4}})
    before, every = {0: {"id": 0, "logProb": 0.0}}, {}
    for step in found["steps"]:
        states = [node["state"] for node in step]
        assert 1 <= states.count("kept") <= 4 and states.count("pruned") <= 4
        kept = {node["id"]: node for node in step if node["state"] == "kept"}
        worst = min(node["logProb"] for node in kept.values())
        for node in step:
            parent = before[node["parent"]]
            summed = parent["logProb"] + node["tokenLogProb"]
            assert node["logProb"] == pytest.approx(summed, abs=1e-5)
            if node["state"] == "pruned" and node["tokenId"] != EOS:
                assert node["logProb"] <= worst
        assert all(node["tokenId"] == EOS for node in step if node["state"] == "finished")
        before, every = kept, every | {node["id"]: node for node in step}
    node, words = every[found["best"]["node"]], []
    while node["parent"]:
        node = every[node["parent"]]
        words.insert(0, node["tokenId"])
    assert words == found["best"]["ids"] and len(words) > 3
    scores = [hypothesis["score"] for hypothesis in found["finished"]]
    assert scores == sorted(scores, reverse=True)
    assert {node["state"] for node in every.values()} == {"kept", "pruned", "finished"}


# The switches


def silence_head(module: MultiHeadAttention, head: int) -> None:
    """The head says zeros to the output projection."""
    size = module.output.in_features // module.n_heads

    def hook(_, inputs):
        heads = inputs[0].clone()
        heads[..., head * size : (head + 1) * size] = 0
        return (heads,)

    module.output.register_forward_pre_hook(hook)


def without(model: Transformer, switches: dict) -> Transformer:
    """A copy of the model with the same parts taken away, by other means than the page's."""
    changed = copy.deepcopy(model)
    for name in switches.get("heads", {}):
        kind, layer, head = name.split(".")
        silence_head(changed.get_submodule(KINDS[kind].format(layer)), int(head))
    if switches.get("positions") is False:
        changed.source_positions.table.detach().zero_()
        changed.target_positions.table.detach().zero_()
    if switches.get("scale") is False:
        for module in changed.modules():
            if isinstance(module, MultiHeadAttention):
                factor = math.sqrt(module.query.out_features / module.n_heads)
                module.query.weight.data *= factor
                module.query.bias.data *= factor
    return changed


def everything(ids: torch.Tensor, pad: int = PAD) -> torch.Tensor:
    """A mask that hides nothing."""
    return torch.ones_like(ids).bool()[:, None, None]


@contextmanager
def masks(switches: dict):
    """While it lasts, models are made to see what their masks hide."""
    with pytest.MonkeyPatch.context() as patch:
        if switches.get("causal") is False:
            patch.setattr(transformer_module, "target_mask", everything)
        if switches.get("padding") is False:
            patch.setattr(transformer_module, "padding_mask", everything)
        yield


SWITCHES = [
    {"heads": {"encoder-self.0.3": False, "decoder-self.1.0": False, "cross.0.1": False}},
    {"causal": False},
    {"padding": False, "padTo": 24},
    {"padding": True, "padTo": 24},
    {"scale": False, "positions": False, "causal": False, "padding": False, "padTo": 20},
]


@torch.no_grad()
def greedy_without_cache(model: Transformer, source: list[int]) -> list[int]:
    """Decode anew at each step: without a causal mask, what was computed before no longer holds."""
    ids = torch.tensor([source])
    mask = transformer_module.padding_mask(ids, PAD)
    memory, words, longest = model.encode(ids, mask), [BOS], 2 * sum(i != PAD for i in source) + 10
    while words[-1] != EOS:
        logits = model.decode(torch.tensor([words]), memory, mask)[0, -1]
        logits[[PAD, BOS, UNK]] = -math.inf
        words.append(int(logits.argmax()) if len(words) < longest else EOS)
    return words[1:-1]


@pytest.mark.parametrize("switches", some(SWITCHES, every=3))
def test_a_switch_does_what_the_same_change_in_python_does(shipped, switches):
    sources = shipped.sources[:3]
    targets = said(shipped.translator, sources)
    changed, options = without(shipped.translator.model, switches), {"switches": switches}
    *traces, greedy, beam = shipped.engine.run(
        *(
            {"do": "trace", "source": source, "target": target, **options}
            for source, target in zip(sources, targets, strict=True)
        ),
        {"do": "greedyIds", "source": sources[0], "options": options},
        {"do": "beamIds", "source": sources[0], "options": options | {"beam": 3}},
    )
    moved = 0.0
    for source, target, trace in zip(sources, targets, traces, strict=True):
        padded = source + [PAD] * (switches.get("padTo", 0) - len(source))
        with masks(switches):
            mask = transformer_module.padding_mask(torch.tensor([padded]), PAD)
            logits, maps = run_python(changed, padded, target, mask)
        assert_same_trace(trace, logits, maps)
        assert trace["columns"]["cross"] == shipped.translator.source.vocab.decode(padded)
        plain, _ = run_python(shipped.translator.model, source, target)
        moved = max(moved, float((logits - plain).abs().max()))
    assert (moved > 1e-2) == (switches != {"padding": True, "padTo": 24}), "the change is felt"
    padded = sources[0] + [PAD] * (switches.get("padTo", 0) - len(sources[0]))
    with masks(switches):
        assert greedy == greedy_without_cache(changed, padded)
        if switches.get("causal", True):
            assert beam == beam_search(changed, torch.tensor([padded]), 3)[0][0].ids


# Other models


SHAPES = [
    {"norm": "post", "positions": "learned", "tied": "target", "n_heads": 4},
    {"norm": "pre", "tied": "all", "n_encoder_layers": 3, "n_decoder_layers": 1, "d_ff": 10},
]


@torch.no_grad()
def log_prob(model: Transformer, source: list[int], ids: list[int]) -> float:
    """Of a whole translation with its EOS, read at once."""
    logits, _ = run_python(model, source, [BOS, *ids])
    logp = logits.log_softmax(dim=-1)
    return float(logp.gather(1, torch.tensor([*ids, EOS])[:, None]).sum())


def in_half_precision(run: Run) -> Transformer:
    """The model of a run with the weights that a page holds."""
    model = load_model(run.weights_file())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.half())
    return model


def drawn() -> tuple[list[list[int]], list[int]]:
    """Random sources of several lengths with their EOS, and a target to read beside each."""
    generator = torch.Generator().manual_seed(0)
    lengths = [1, 2, 5, 9, 8, 8]
    draw = [torch.randint(4, 30, (n,), generator=generator).tolist() for n in (*lengths, 6)]
    return [[*ids, EOS] for ids in draw[:-1]], [BOS, *draw[-1]]


PENALTIES = (0.6, 3.0)


class Expected:
    """What a model answers about the drawn sources in PyTorch, computed once for many engines."""

    def __init__(self, model: Transformer):
        self.sources, self.target = drawn()
        padded = [source + [PAD] * (12 - len(source)) for source in self.sources]
        self.traces = [run_python(model, source, self.target) for source in padded]
        batches = [torch.tensor([source]) for source in self.sources]
        self.greedy = [greedy_search(model, batch)[0] for batch in batches]
        self.best = [
            [beam_search(model, batch, 3, length_penalty=p)[0][0] for p in PENALTIES]
            for batch in batches
        ]
        self.log_prob = cache(lambda source, ids: log_prob(model, [*source], [*ids]))


def assert_agrees(engine: Any, expected: Expected) -> None:
    """The page's model is this one: logits, maps, cache, both searches."""
    jobs: list[dict] = []
    for source in expected.sources:
        about = {"source": source, "target": expected.target}
        jobs.append({"do": "trace", **about, "switches": {"padTo": 12}})
        jobs.append({"do": "steps", **about})
        jobs.append({"do": "greedyIds", "source": source})
        for penalty in PENALTIES:
            options = {"beam": 3, "lengthPenalty": penalty}
            jobs.append({"do": "beam", "source": source, "options": options})
    found = iter(engine.run(*jobs))
    for source, trace, greedy, searches in zip(
        expected.sources, expected.traces, expected.greedy, expected.best, strict=True
    ):
        assert_same_trace(next(found), *trace)
        torch.testing.assert_close(torch.tensor(next(found)), trace[0], **CLOSE)
        assert next(found) == greedy
        for best in searches:
            given = next(found)
            assert given["best"]["ids"] == best.ids
            assert given["best"]["score"] == pytest.approx(best.score, abs=1e-4)
            for other in given["finished"]:
                right = expected.log_prob((*source,), (*other["ids"],))
                assert other["logProb"] == pytest.approx(right, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("shape", some(SHAPES))
def test_a_model_of_another_shape_is_the_same_model(shape, engine_of, small_run):
    run = small_run(**shape)
    engine = engine_of(run)
    model = in_half_precision(run)
    assert_agrees(engine, Expected(model))
    sides = ("source", "target")
    *tables, facts = engine.run(
        *({"do": "positions", "length": 40, "side": side} for side in sides), {"do": "facts"}
    )
    for table, side in zip(tables, sides, strict=True):
        expected = getattr(model, f"{side}_positions").table.flatten()
        torch.testing.assert_close(torch.tensor(table), expected, **CLOSE)
    assert facts["rounded"], "float32 weights were rounded, and the page says so"


# What is counted


@torch.no_grad()
def test_multiplications_are_those_that_pytorch_counts(shipped):
    model = shipped.translator.model
    for cached, S, T in ((True, 5, 1), (False, 9, 12)):
        source, ids = torch.full((1, S), UNK), torch.full((1, T), UNK)
        state, memory = model.start(source), model.encode(source)
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            for t in range(T):
                if cached:
                    model.step(ids[:, t], state)
                else:
                    model.decode(ids[:, : t + 1], memory, None)
        sizes = {"source": S, "target": T, "cached": cached}
        (counted,) = shipped.engine.run({"do": "multiplications", "sizes": sizes})
        assert counted == counter.get_total_flops() // 2  # multiplying and adding count as two


# Planted bugs: what the tests above must not let through


BUGS = {
    "the scale is dropped": ("model.js", "1 : 1 / Math.sqrt(K);", "1 : 1;"),
    "a word sees the next": ("model.js", "(t, s) => s <= t;", "(t, s) => s <= t + 1;"),
    "a word does not see itself": ("model.js", "(t, s) => s <= t;", "(t, s) => s < t || !t;"),
    "PADs are seen": ("model.js", "ids[s] !== PAD", "true"),
    "the last norm is forgotten": ("model.js", 'this.#lastNorm("decoder_norm", rows)', "rows"),
    "the encoder's too": ("model.js", 'this.#lastNorm("encoder_norm", x)', "x"),
    "embeddings are not scaled": ("model.js", "Math.sqrt(D);", "1;"),
    "each step is at position 0": ("model.js", "[token], state.ids.length,", "[token], 0,"),
    "the cache forgets its values": ("model.js", "[...layer.values, ...value]", "value"),
    "sin and cos change places": ("tensor.js", "return d % 2 ?", "return d % 2 === 0 ?"),
    "no epsilon": ("tensor.js", "EPSILON = 1e-5", "EPSILON = 0.1"),
    "bytes change places": ("unpack.js", "& 0x7f) << 8) | low[i]", "& 0x7f) << 8) | high[i]"),
    "the sign is lost": ("unpack.js", "-(2 ** 112)", "2 ** 112"),
    "the cache is not reordered": ("search.js", "step(parent.state,", "step(open[0].state,"),
    "no length penalty": ("search.js", "((5 + length) / 6) ** penalty", "1"),
    "EOS is not forced": ("search.js", "if (length < limit) return", "if (length) return"),
    "UNK may be said": ("search.js", "[PAD, BOS, UNK]; //", "[PAD, BOS]; //"),
    "a late EOS counts": ("search.js", "if (ends && rank < this.width)", "if (ends)"),
    "it stops too early": ("search.js", "score >= reachable", "score > -Infinity"),
}


@pytest.fixture(scope="module")
def sharp(small_run):
    """An untrained model, small and with opinions: its run, and what PyTorch says of it."""
    run = small_run()
    return SimpleNamespace(run=run, expected=Expected(in_half_precision(run)))


@pytest.mark.nightly
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(bug, engine_of, sharp):
    with pytest.raises(AssertionError):
        assert_agrees(engine_of(sharp.run, BUGS[bug]), sharp.expected)
