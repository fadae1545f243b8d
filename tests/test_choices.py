"""Every choice of a model in every consumer: the logits of the model itself, or a refusal by name.

The logits that all others must have are those of a full pass in float64, one sentence at a time.
"""

import json
import shutil
import subprocess
from dataclasses import fields
from functools import partial
from pathlib import Path

import pytest
import torch
from nightly import some
from runs_on_disk import write_run
from torch import Tensor

from nmtcheck import ours, run_checks
from nmtcourse.explorer.packing import pack
from nmtcourse.explorer.page import WEB, explore
from nmtcourse.recipes.export import FORMATS as EXPORTS
from nmtcourse.recipes.export import export
from nmtcourse.teaching.twin import torch_twin, twin_logits
from nmtlib.data.batching import collate, make_example, pad
from nmtlib.data.codec import Codec, Vocab
from nmtlib.data.tokenizers import WhitespaceTokenizer
from nmtlib.inference.search import beam_search, greedy_search
from nmtlib.model.attention import record_attention
from nmtlib.model.choices import CHOICES, CONSUMERS, FORMATS, require_expressible
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.run import Run
from nmtlib.settings import Settings, TrainingSettings
from nmtlib.specials import BOS, EOS, SPECIALS
from nmtlib.training.checkpoint import load_model, save_checkpoint
from nmtlib.training.trainer import Trainer

WORDS = [f"w{number}" for number in range(26)]
SIZES = {"d_model": 16, "n_heads": 2, "n_encoder_layers": 2, "n_decoder_layers": 2, "d_ff": 24}
CODEC = Codec(WhitespaceTokenizer(), Vocab([*SPECIALS, *WORDS]))
SOURCES = [[4, 9, 7, 4, 12, 29, EOS], [5, 8, EOS], [21, 6, 6, 11, EOS]]
TARGETS = [[BOS, 4, 19, 5, 5], [BOS, 8, 9, 22, 11, 4, 7, 28], [BOS, 6, 13]]
ENGINE = Path(__file__).parent / "explorer" / "engine.mjs"
CLOSE = {"atol": 1e-4, "rtol": 1e-4}


def make_model(design: dict[str, str]) -> Transformer:
    """A model with numbers large enough to matter, each of which half precision can hold."""
    torch.manual_seed(3)
    words = len(CODEC.vocab)
    config = TransformerConfig(words, words, **SIZES, max_length=24, dropout=0.0, **design)
    model = Transformer(config)
    with torch.no_grad():
        for weights in model.parameters():
            weights.add_(torch.randn_like(weights), alpha=0.3).copy_(weights.half())
    return model.eval()


def expected_logits(model: Transformer) -> list[Tensor]:
    """Of each pair alone, (T, V)."""
    exact = Transformer(model.config).double().eval()
    exact.load_state_dict(model.state_dict())
    with torch.no_grad():
        pairs = zip(SOURCES, TARGETS, strict=True)
        logits = [exact(torch.tensor([s]), torch.tensor([t]))[0].float() for s, t in pairs]
    assert min(each.std() for each in logits) > 0.5, "logits near zero would agree with any others"
    return logits


def assert_same(found: list, expected: list[Tensor]) -> None:
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(torch.as_tensor(mine)[: len(theirs)], theirs, **CLOSE)


def make_run(model: Transformer, folder: Path) -> Path:
    settings = Settings().changed({"tokenizer": {"joint": True}})
    return write_run(folder / "run", model, settings, CODEC, CODEC).folder


def batch() -> tuple[Tensor, Tensor]:
    return pad(SOURCES), pad(TARGETS)


# One function a consumer: it must have these logits.


def check_training(model: Transformer, expected: list[Tensor], folder: Path) -> None:
    """In train mode with gradients, also where activations are computed again; and saved."""
    for again in (False, True):
        model.checkpoint_activations = again
        logits = model.train()(*batch())
        logits.sum().backward()
        assert_same(logits.detach(), expected)
    save_checkpoint(folder / "x.safetensors", model)
    with torch.no_grad():
        assert_same(load_model(folder / "x.safetensors")(*batch()), expected)
    examples = [make_example(s[:-1], t[1:]) for s, t in zip(SOURCES, TARGETS, strict=True)]
    settings = TrainingSettings(precision="fp32", device="cpu", max_tokens=64)
    trainer = Trainer(model, examples, examples, settings, report=lambda line: None)
    before = trainer.validate().nll
    for _ in range(5):
        trainer.model.train()
        trainer.update([collate(examples)])
    assert trainer.validate().nll < before, "and it learns"


def check_steps(model: Transformer, expected: list[Tensor], folder: Path) -> None:
    """One token a step, all sentences at once, the hypotheses moved about in between."""
    source, target = batch()
    with torch.no_grad():
        state = model.start(source)
        steps = []
        for position in range(target.size(1)):
            steps.append(model.step(target[:, position], state))
            order = torch.tensor([2, 0, 1])
            state.reorder(order)
            state.select_sentences(order)
            source, target, steps = source[order], target[order], [s[order] for s in steps]
        logits = torch.stack(steps, dim=1)
    places = [target.tolist().index(row) for row in batch()[1].tolist()]  # where each is now
    assert_same([logits[place] for place in places], expected)


def check_search(model: Transformer, expected: list[Tensor], folder: Path) -> None:
    """The log-probability of each hypothesis is that of a full pass over its sentence alone."""
    best = beam_search(model, batch()[0], 3, n_best=3, max_length=9)
    for source, hypotheses in zip(SOURCES, best, strict=True):
        for hypothesis in hypotheses:
            target = torch.tensor([[BOS, *hypothesis.ids]])
            with torch.no_grad():
                logp = model(torch.tensor([source]), target)[0].log_softmax(-1)
            labels = [*hypothesis.ids, EOS]
            total = sum(float(row[label]) for row, label in zip(logp, labels, strict=True))
            assert hypothesis.log_prob == pytest.approx(total, abs=1e-3)
    alone = [greedy_search(model, torch.tensor([source]), max_length=9)[0] for source in SOURCES]
    assert greedy_search(model, batch()[0], max_length=9) == alone


def check_recording(model: Transformer, expected: list[Tensor], folder: Path) -> None:
    """The weights that are recorded are those that make the output."""
    with torch.no_grad(), record_attention(model) as maps:
        assert_same(model(*batch()), expected)
    attention = model.decoder[0].self_attention
    (weights,) = maps["decoder.0.self_attention"]  # (B, H, T, T)
    seen: list[tuple[Tensor, Tensor]] = []
    hook = attention.register_forward_hook(lambda m, args, out: seen.append((args[2], out)))
    with torch.no_grad():
        model(*batch())
        hook.remove()
        ((x, output),) = seen
        heads = weights @ attention.split(attention.value(x))
        made = attention.output(heads.transpose(1, 2).flatten(2))
    torch.testing.assert_close(made, output, **CLOSE)


def check_nmtcheck(model: Transformer, expected: list[Tensor], folder: Path) -> None:
    """Its checks of steps and of the inside of attentions find the model sound."""
    design = {name: getattr(model.config, name) for name in CHOICES}
    report = run_checks(ours(**design), only=["search.model", "inside", "positions"])
    assert report.ok, str(report)
    assert any(result.verdict == "passed" for result in report.results)


def check_safetensors(model: Transformer, expected: list[Tensor], folder: Path) -> None:
    from safetensors.torch import load_file

    out = export(make_run(model, folder), "safetensors", folder / "out")
    config = TransformerConfig(**json.loads((out / "config.json").read_text("utf-8")))
    rebuilt = Transformer(config).eval()
    weights = load_file(out / "model.safetensors")
    with torch.no_grad():
        for name, parameter in rebuilt.named_parameters():
            parameter.copy_(weights[name])
        assert_same(rebuilt(*batch()), expected)


def check_onnx(model: Transformer, expected: list[Tensor], folder: Path) -> None:
    import onnxruntime

    out = export(make_run(model, folder), "onnx", folder / "out")
    session = onnxruntime.InferenceSession(out / "model.onnx")
    source, target = (ids.numpy() for ids in batch())
    (logits,) = session.run(["logits"], {"source": source, "target": target})
    assert_same(logits, expected)
    for length in range(1, target.shape[1] + 1):  # its reader generates so: a longer prefix a step
        prefix = {"source": source, "target": target[:, :length]}
        (logits,) = session.run(["logits"], prefix)
        assert_same(logits, [rows[:length] for rows in expected])


def check_hugging_face(
    model: Transformer, expected: list[Tensor], folder: Path, *, to: str
) -> None:
    import transformers

    out = export(make_run(model, folder), to, folder / "out")
    transformers.logging.set_verbosity_error()
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(out).eval()
    source, target = batch()
    inputs = {"input_ids": source, "attention_mask": (source != 0).long()}
    with torch.no_grad():
        assert_same(theirs(**inputs, decoder_input_ids=target).logits, expected)
        past, steps = None, []
        for position in range(target.size(1)):  # with its cache
            step = {"decoder_input_ids": target[:, position : position + 1]}
            given = theirs(**inputs, **step, past_key_values=past, use_cache=True)
            past = given.past_key_values
            steps.append(given.logits[:, 0])
    assert_same(torch.stack(steps, dim=1), expected)


def check_ctranslate2(model: Transformer, expected: list[Tensor], folder: Path) -> None:
    """It tells log-probabilities of given targets, and no logits."""
    import ctranslate2

    out = export(make_run(model, folder), "ctranslate2", folder / "out")
    sources = [CODEC.vocab.decode(ids[:-1]) for ids in SOURCES]
    targets = [CODEC.vocab.decode(ids[1:]) for ids in TARGETS]
    scores = ctranslate2.Translator(str(out)).score_batch(sources, targets)
    for logits, ids, score in zip(expected, TARGETS, scores, strict=True):
        labels = torch.tensor([*ids[1:], EOS])
        logp = logits.log_softmax(-1).gather(-1, labels[:, None])[:, 0]
        torch.testing.assert_close(torch.tensor(score.log_probs), logp, **CLOSE)


def check_twin(model: Transformer, expected: list[Tensor], folder: Path) -> None:
    model.double()
    with torch.no_grad():
        for source, target, logits in zip(SOURCES, TARGETS, expected, strict=True):
            pair = collate([make_example(source[:-1], target[1:])])
            found = twin_logits(model, torch_twin(model).eval(), pair)
            torch.testing.assert_close(found[0, : len(logits)].float(), logits, **CLOSE)


def check_explorer(model: Transformer, expected: list[Tensor], folder: Path) -> None:
    run, payload, web = make_run(model, folder), folder / "payload.json", folder / "web"
    payload.write_text(json.dumps(pack(Run(run), "run")), "utf-8")
    shutil.copytree(WEB, web)
    (web / "package.json").write_text('{"type": "module"}', "utf-8")
    pairs = [{"source": s, "target": t} for s, t in zip(SOURCES, TARGETS, strict=True)]
    jobs = [{"do": do, **pair} for do in ("logits", "steps") for pair in pairs]
    asked = json.dumps({"payload": str(payload), "jobs": jobs}).encode()
    done = subprocess.run(["node", ENGINE, web], input=asked, capture_output=True, check=True)
    found = [torch.tensor(rows).view(-1, len(CODEC.vocab)) for rows in json.loads(done.stdout)]
    assert_same(found, expected * 2)


CHECKS = {
    "training": check_training,
    "step-by-step decoding": check_steps,
    "batched search": check_search,
    "record_attention": check_recording,
    "nmtcheck": check_nmtcheck,
    "safetensors": check_safetensors,
    "onnx": check_onnx,
    "ctranslate2": check_ctranslate2,
    "marian": partial(check_hugging_face, to="marian"),
    "pegasus": partial(check_hugging_face, to="pegasus"),
    "nn.Transformer": check_twin,
    "explorer": check_explorer,
}
NEEDED = {
    "onnx": ("onnx", "onnxruntime", "onnxscript"),
    "ctranslate2": ("ctranslate2",),
    "marian": ("transformers",),
    "pegasus": ("transformers",),
}


def design_with(consumer: str, choice: str, value: str) -> dict[str, str]:
    """A model with one value, and for all else with what the consumer can express."""
    return {name: CONSUMERS[consumer][name][0] for name in CHOICES} | {choice: value}


CELLS = [
    (consumer, choice, value)
    for consumer in CONSUMERS
    for choice, values in CHOICES.items()
    for value in values
]
ABLE = [cell for cell in CELLS if cell[2] in CONSUMERS[cell[0]][cell[1]]]
REFUSED = [cell for cell in CELLS if cell not in ABLE]
OFTEN = ("positions", "norm", "tied")  # how weights begin waits for the night


def group_of(cell: tuple[str, str, str]) -> object:
    """At a commit one cell of each group runs: those that are quick and can be mistaken."""
    consumer, choice, value = cell
    slow = consumer in ("nmtcheck", "onnx") and value != "rotary"
    return "the night's" if slow or choice not in OFTEN else cell


def able_cells() -> list:
    """The cells that must have the same logits, with the marks of what they need."""
    cells = some(ABLE, by=lambda *cell: group_of(cell[0]))
    marks = {to: [pytest.mark.extras(*needed)] for to, needed in NEEDED.items()}
    return [
        pytest.param(*cell.values, marks=[*cell.marks, *marks.get(cell.values[0], [])])
        for cell in cells
    ]


@pytest.mark.parametrize(("consumer", "choice", "value"), able_cells())
def test_a_choice_has_the_same_logits(consumer, choice, value, tmp_path):
    if consumer == "explorer" and not shutil.which("node"):
        pytest.skip("needs node (https://nodejs.org)")
    model = make_model(design_with(consumer, choice, value))
    CHECKS[consumer](model, expected_logits(model), tmp_path)


@pytest.mark.parametrize(("consumer", "choice", "value"), REFUSED)
def test_or_a_refusal_that_names_it_and_leaves_nothing(consumer, choice, value, tmp_path):
    model = make_model(design_with(consumer, choice, value))
    run = make_run(model, tmp_path)
    named = f"{consumer} cannot hold a model with {choice}='{value}'"
    with pytest.raises(ValueError, match=named):
        if consumer in FORMATS:
            export(run, consumer, tmp_path / "out")
        elif consumer == "nn.Transformer":
            torch_twin(model)
        else:
            explore(run, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_the_table_has_every_choice_and_every_consumer():
    texts = {field.name for field in fields(TransformerConfig) if field.type == "str"}
    assert CHOICES.keys() == texts, "a choice of the configuration that the table lacks"
    assert CHECKS.keys() == CONSUMERS.keys()
    assert EXPORTS.keys() == set(FORMATS) <= CONSUMERS.keys()
    for able in CONSUMERS.values():
        assert able.keys() == CHOICES.keys()
        assert all(set(values) <= set(CHOICES[name]) for name, values in able.items())
    assert {"onnx", "explorer"} < {cell[0] for cell in ABLE}
    assert ("ctranslate2", "positions", "rotary") in REFUSED
    require_expressible(TransformerConfig(), "explorer")
