"""An exported model is the same model, and the code of its README runs."""

import errno
import functools
import json
import os
import re
import tempfile
import unittest.mock
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from runs_on_disk import describe_anew, write_run
from torch.nn import functional as F

from nmtcourse.recipes.export import FORMATS, export
from nmtlib.data.batching import collate, make_example, pad
from nmtlib.data.codec import Codec, Vocab
from nmtlib.data.tokenizers import BPETokenizer, WhitespaceTokenizer
from nmtlib.inference.translator import Translator
from nmtlib.model.transformer import Transformer
from nmtlib.run import SHIPPED
from nmtlib.settings import DecodingSettings, Settings, TokenizerSettings
from nmtlib.specials import BOS, EOS, PAD, SPECIALS, UNK
from nmtlib.training.checkpoint import load_weights

WORDS = [f"w{i}" for i in range(30)]
NUMBERS = [[(7 * i + 3 * j * j + i * j) % 30 for j in range(1 + i % 9)] for i in range(40)]
SENTENCES = [" ".join(f"w{number}" for number in row) for row in NUMBERS]
MODEL = {"d_model": 32, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 2, "d_ff": 48}
MODEL["max_length"] = 40
LIMIT = 20  # words
UPDATES = 140
SUPPRESSED = [[SPECIALS[i]] for i in (PAD, BOS, UNK)]
DESIGNS = {
    "marian": [{"norm": "post", "tied": tied} for tied in ("none", "target", "all")],
    "pegasus": [{"norm": "pre", "tied": "all"}],
    "ctranslate2": [
        {"norm": "post", "tied": "none", "positions": "learned"},
        {"norm": "pre", "tied": "target", "positions": "sinusoidal"},
        {"norm": "pre", "tied": "all", "positions": "learned"},
    ],
    "onnx": [{"norm": "post", "tied": "target", "positions": "learned"}],
}
NEEDED = {  # what each format is written and read with
    "safetensors": (),
    "marian": ("transformers",),
    "pegasus": ("transformers",),
    "onnx": ("onnx", "onnxruntime", "onnxscript"),
    "ctranslate2": ("ctranslate2",),
}


def needs(to):
    """The marks of a test that exports to a format."""
    return [pytest.mark.extras(*NEEDED[to])] if NEEDED[to] else []


def formats(*names):
    """Each format as a parameter, marked with what it needs."""
    return [pytest.param(name, marks=needs(name)) for name in names]


def cases(*names):
    """Each format with each of its designs."""
    designs = [(name, design) for name in names for design in DESIGNS[name]]
    ids = ["-".join([name, *design.values()]) for name, design in designs]
    cases = [pytest.param(*case, marks=needs(case[0])) for case in designs]
    return pytest.mark.parametrize(("to", "design"), cases, ids=ids)


def make_run(folder, *, sharpen=None, **design):
    """A run folder with a small untrained model, which `sharpen` may change."""
    folder.mkdir(parents=True)
    joint, sizes = design.get("tied") == "all", replace(Settings().model, **MODEL, **design)
    decoding = DecodingSettings(beam=5, length_penalty=0.0)
    settings = Settings(tokenizer=TokenizerSettings(joint=joint), model=sizes, decoding=decoding)
    target = WORDS if joint else WORDS[:23]
    torch.manual_seed(5)
    vocabularies = (len(SPECIALS) + len(words) for words in (WORDS, target))
    model = Transformer(settings.with_vocabularies(*vocabularies).model)
    if sharpen:
        sharpen(model)
    codecs = [Codec(WhitespaceTokenizer(), Vocab([*SPECIALS, *words])) for words in (WORDS, target)]
    return write_run(folder, model, settings, *codecs).folder


def shake(model):
    """Move all weights, biases and norms too, so that none of them could be left out unseen."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))


def teach_copying(model):
    """Half learned: each sentence has a translation of its own, and hardly one is certain."""
    random, known = torch.Generator().manual_seed(2), model.config.target_vocab_size
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    for _ in range(UPDATES):
        length = int(torch.randint(1, 10, (), generator=random))
        words = torch.randint(4, 4 + len(WORDS), (48, length), generator=random).tolist()
        batch = collate([make_example(row, [w for w in row if w < known]) for row in words])
        logits = model(batch.source, batch.decoder_input)
        F.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), ignore_index=PAD).backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        model.output.bias[EOS] -= 1.0  # in doubt it would say little
        # CTranslate2 shares the probability of what is never said among the other words: let there
        # be none.
        model.output.bias[[PAD, BOS, UNK]] -= 20


@pytest.fixture
def exported(to, design, tmp_path):
    """The translator of a run with shaken weights, and the folder of its export."""
    run = make_run(tmp_path / "run", sharpen=shake, **design)
    return Translator.load(run, device="cpu"), export(run, to, tmp_path / "out")


@functools.cache
def translating(to, **design):
    """The same of a run that translates, made once for greedy and beam search."""
    folder = Path(tempfile.mkdtemp())
    run = make_run(folder / "run", sharpen=teach_copying, **design)
    return Translator.load(run, device="cpu"), export(run, to, folder / "out")


def ids(translator):
    """The sentences as one padded batch, and target prefixes of several lengths."""
    source = pad([[*translator.source.encode(s), EOS] for s in SENTENCES])
    torch.manual_seed(1)
    target = torch.randint(4, len(translator.target.vocab), (len(SENTENCES), 6))
    target[:, 0] = BOS
    target[::3, 4:] = PAD
    return source, target


def hugging_face(folder):
    import transformers

    transformers.logging.set_verbosity_error()
    return transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()


def hugging_face_logits(folder, source, target):
    inputs = {"input_ids": source, "attention_mask": (source != PAD).long()}
    with torch.no_grad():
        return hugging_face(folder)(**inputs, decoder_input_ids=target).logits


def check_alike(found, expected):
    """The same translations but for the greatest length, where each program has its own rule."""
    sizes = {len(text.split()) for text in expected}
    assert len(set(expected)) > 30 and len(sizes) > 3, "equal outputs would prove little"
    both = zip(found, expected, strict=True)
    whole = [pair for pair in both if max(len(text.split()) for text in pair) < LIMIT]
    assert len(whole) > 24 and all(one == two for one, two in whole)


@cases("marian", "pegasus", "onnx")
def test_logits_are_equal(exported, to):
    translator, folder = exported
    source, target = ids(translator)
    with torch.no_grad():
        expected = translator.model(source, target)
    if to == "onnx":
        import onnxruntime

        session = onnxruntime.InferenceSession(folder / "model.onnx")
        (found,) = session.run(["logits"], {"source": source.numpy(), "target": target.numpy()})
        one = {"source": source[:1, :3].numpy(), "target": target[:1, :1].numpy()}
        (logits,) = session.run(["logits"], one)
        assert logits.shape == (1, 1, expected.size(2)), "every size is free, 1 too"
    else:
        found = hugging_face_logits(folder, source, target)
    real = target != PAD
    assert expected[real].std() > 1
    assert torch.allclose(torch.as_tensor(found)[real], expected[real], atol=1e-4)


@cases("marian", "pegasus")
def test_hugging_face_keeps_the_model_when_it_saves_it_again(exported, tmp_path):
    import transformers

    translator, folder = exported
    _, report = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, output_loading_info=True)
    assert not report["unexpected_keys"] and not report["mismatched_keys"]
    assert all("embed_positions" in key for key in report["missing_keys"]), "computed tables alone"
    hugging_face(folder).save_pretrained(tmp_path / "again")
    folders = folder, tmp_path / "again"
    assert torch.equal(*(hugging_face_logits(each, *ids(translator)) for each in folders))


@cases("marian", "pegasus")
@pytest.mark.parametrize("beam", [1, 5])
def test_hugging_face_translates_alike(to, design, beam):
    translator, folder = translating(to, **design)
    source, _ = ids(translator)
    how = {"num_beams": beam, "max_new_tokens": LIMIT + 1, "do_sample": False}
    said = hugging_face(folder).generate(source, attention_mask=(source != PAD).long(), **how)
    expected = translator.translate(SENTENCES, beam=beam, length_penalty=0.0, max_length=LIMIT)
    check_alike([translator.target.decode(row) for row in said.tolist()], expected)


@pytest.mark.extras("transformers")
def test_hugging_face_never_says_a_special(tmp_path):
    def love_specials(model):
        shake(model)
        with torch.no_grad():
            model.output.bias[[PAD, BOS, UNK]] += 50

    run = make_run(tmp_path / "run", norm="post", tied="all", sharpen=love_specials)
    model, source = hugging_face(export(run, "marian")), torch.tensor([[4, 5, EOS]])
    said = model.generate(source, num_beams=1, max_new_tokens=8)[0, 1:].tolist()
    assert len(said) > 1 and not {PAD, BOS, UNK} & set(said)


@cases("ctranslate2")
@pytest.mark.parametrize("beam", [1, 5])
def test_ctranslate2_translates_alike(to, design, beam):
    import ctranslate2

    translator, folder = translating(to, **design)
    found = ctranslate2.Translator(str(folder)).translate_batch(
        [s.split() for s in SENTENCES],
        beam_size=beam,
        suppress_sequences=SUPPRESSED,
        max_decoding_length=LIMIT,
        min_decoding_length=0,
        length_penalty=1e-6,  # with 0 it would stop once the best hypothesis of a step ends
    )
    expected = translator.translate(SENTENCES, beam=beam, length_penalty=0.0, max_length=LIMIT)
    check_alike([" ".join(result.hypotheses[0]) for result in found], expected)


@pytest.mark.extras("ctranslate2")
def test_a_quantized_model_is_smaller_and_still_translates(tmp_path):
    import ctranslate2

    run = make_run(tmp_path / "run")
    whole = export(run, "ctranslate2")
    small = export(run, "ctranslate2", tmp_path / "small", quantization="int8")
    assert whole == run / "ctranslate2"
    assert (small / "model.bin").stat().st_size < 0.5 * (whole / "model.bin").stat().st_size
    found = ctranslate2.Translator(str(small)).translate_batch(
        [["w1", "w2"]], suppress_sequences=SUPPRESSED, max_decoding_length=LIMIT
    )
    assert set(found[0].hypotheses[0]) <= set(WORDS)


def test_the_plain_file_rebuilds_the_model(tmp_path):
    from safetensors.torch import load_file

    from nmtlib.model.transformer import TransformerConfig

    run = make_run(tmp_path / "run", tied="target")
    folder = export(run, "safetensors")
    config = TransformerConfig(**json.loads((folder / "config.json").read_text("utf-8")))
    weights, rebuilt = load_file(folder / "model.safetensors"), Transformer(config)
    load_weights(rebuilt, {f"model.{name}": tensor for name, tensor in weights.items()})
    model = Translator.load(run).model
    both = zip(model.parameters(), rebuilt.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in both)
    text = (folder / "README.md").read_text("utf-8")
    listed = dict(re.findall(r"^\| `(.+)` \| (\(.*\)) \|$", text, re.MULTILINE))
    names = {name: re.sub(r"^(\w+)\.\d+\.", r"\1.N.", name) for name in weights}
    assert {names[n]: str(tuple(t.shape)) for n, t in weights.items()} == listed


@pytest.mark.parametrize("to", formats(*FORMATS))
def test_the_code_of_the_readme_runs_and_translates(to, tmp_path, monkeypatch, capsys):
    norm = "post" if to == "marian" else "pre"
    run = make_run(tmp_path / "run", norm=norm, tied="all", sharpen=teach_copying)
    monkeypatch.chdir(export(run, to))
    (code,) = re.findall(r"```python\n(.*?)```", Path("README.md").read_text("utf-8"), re.DOTALL)
    names = {}
    exec(code.replace('"…"', '"w3 w4 w5"'), names)
    if to == "safetensors":
        assert {*names["weights"]} == {*dict(Translator.load(run).model.named_parameters())}
    else:
        expected = Translator.load(run).translate(["w3 w4 w5"], beam=1 if to == "onnx" else 5)[0]
        assert capsys.readouterr().out.splitlines()[-1] == expected


@pytest.mark.parametrize("to", formats("marian", "onnx"))
def test_the_code_of_the_readme_stops_where_the_model_does_not(to, tmp_path, monkeypatch, capsys):
    def never_stop(model):
        shake(model)
        with torch.no_grad():
            model.output.bias[EOS] -= 1e4

    run = make_run(tmp_path / "run", norm="post", tied="all", sharpen=never_stop)
    monkeypatch.chdir(export(run, to))
    (code,) = re.findall(r"```python\n(.*?)```", Path("README.md").read_text("utf-8"), re.DOTALL)
    sentence = " ".join(WORDS[:20])  # twice its length is more than the position table has
    exec(code.replace('"…"', repr(sentence)), {})
    said = capsys.readouterr().out.splitlines()[-1]
    if to == "onnx":
        assert said == Translator.load(run).translate([sentence], beam=1)[0]
    assert MODEL["max_length"] - 2 <= len(said.split()) < MODEL["max_length"]


def test_the_tokenizers_travel_along(tmp_path):
    import tokenizers

    run = make_run(tmp_path / "run")
    bpe = BPETokenizer.train(["w0 w1 w2 w3 w0 w1"] * 3, 27)
    codec = Codec(bpe, Vocab([*bpe.tokens, *WORDS[: 34 - len(bpe.tokens)]]))
    describe_anew(run / "model.safetensors", source=codec)
    folder = export(run, "safetensors")
    translator = Translator.load(run)
    assert Codec.load(folder / "source.json") == translator.source == codec
    assert Codec.load(folder / "target.json") == translator.target
    foreign = tokenizers.Tokenizer.from_file(str(folder / "source-tokenizer.json"))
    assert foreign.encode("w2 w3").ids == codec.encode("w2 w3")
    assert not (folder / "target-tokenizer.json").exists()


def test_what_cannot_be_expressed_is_refused_and_leaves_nothing(tmp_path):
    run = make_run(tmp_path / "run", norm="post", positions="learned")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match=r"positions='learned', only .*safetensors or onnx or ctr"):
        export(run, "marian")
    assert sorted(tmp_path.rglob("*")) == before
    for to, quantization in (("word", None), ("onnx", "int8"), ("ctranslate2", "int3")):
        with pytest.raises(ValueError, match="must be one of|ctranslate2 alone"):
            export(run, to, tmp_path / "out", quantization=quantization)
        assert not (tmp_path / "out").exists()


def test_a_shipped_model_is_left_as_it_is_however_it_is_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = os.path.relpath(SHIPPED / "toy-de-en")
    assert export(given, "safetensors") == Path("toy-de-en-safetensors")
    assert (tmp_path / "toy-de-en-safetensors" / "README.md").is_file()


def test_nothing_is_overwritten(tmp_path):
    run, out = make_run(tmp_path / "run"), tmp_path / "out"
    out.mkdir()
    export(run, "safetensors", out)  # an empty folder is welcome
    (out / "model.safetensors").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for taken in (out, tmp_path / "file"):
        with pytest.raises(FileExistsError, match="nothing is overwritten"):
            export(run, "safetensors", taken)
    assert (out / "model.safetensors").read_text() == (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("to", "package"),
    [
        ("ctranslate2", "ctranslate2"),
        ("onnx", "onnx"),
        # onnx itself would be named first
        pytest.param("onnx", "onnxscript", marks=pytest.mark.extras("onnx")),
    ],
)
def test_a_missing_package_is_named(tmp_path, monkeypatch, to, package):
    import importlib

    def absent(name, *args):
        if name == package:
            raise ModuleNotFoundError(name, name=name)
        return original(name, *args)

    original = importlib.import_module
    monkeypatch.setattr(importlib, "import_module", absent)
    run = make_run(tmp_path / "run")
    with pytest.raises(ModuleNotFoundError, match=f"pip install {package}$"):
        export(run, to)
    assert not (run / to).exists()


def test_a_full_disk_is_told_with_the_folder(tmp_path, monkeypatch):
    full = unittest.mock.Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
    monkeypatch.setitem(FORMATS, "safetensors", full)
    with pytest.raises(OSError, match=re.escape(str(tmp_path / "out"))):
        export("toy-de-en", "safetensors", tmp_path / "out")
    assert [*tmp_path.iterdir()] == []
