"""A checkpoint is complete, rebuilds its model alone, and no failure destroys the one before."""

import hashlib
import json
import math
import shutil
import subprocess
import sys
from copy import deepcopy
from dataclasses import asdict, replace
from unittest import mock

import pytest
import torch
from runs_on_disk import rewrite
from safetensors import safe_open
from safetensors.torch import save_file
from tiny import PRESET, sentence_pairs

import nmtlib
from nmtlib.files import write_atomically
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.presets import load_settings
from nmtlib.run import Run
from nmtlib.settings import Settings
from nmtlib.training.checkpoint import (
    HEADER,
    average_checkpoints,
    load_model,
    load_weights,
    read_checkpoint,
    save_checkpoint,
)

LAYERS = {"n_encoder_layers": 1, "n_decoder_layers": 1}
CONFIG = TransformerConfig(11, 11, d_model=8, n_heads=2, d_ff=16, tied="all", **LAYERS)
W, B = (f"model.encoder.0.self_attention.{side}.weight" for side in ("query", "key"))


def make(seed=0, config=CONFIG):
    torch.manual_seed(seed)
    return Transformer(config).eval()


def test_a_model_is_rebuilt_from_the_file_alone(tmp_path):
    model = make()
    save_checkpoint(tmp_path / "m.safetensors", model, weights="epoch 3")
    again = load_model(tmp_path / "m.safetensors")
    assert again.config == CONFIG and not again.training
    source, target = torch.tensor([[4, 5, 2]]), torch.tensor([[1, 6]])
    assert torch.equal(model(source, target), again(source, target))
    assert again.output.weight is again.target_embedding.weight is again.source_embedding.weight
    assert read_checkpoint(tmp_path / "m.safetensors").header.weights == "epoch 3"
    assert [p.name for p in tmp_path.iterdir()] == ["m.safetensors"], "no temporary file stays"


def test_the_same_model_and_notes_give_the_same_bytes(tmp_path):
    model, path, found = make(), tmp_path / "m.safetensors", set()
    for _ in range(20):
        save_checkpoint(path, model, validation_nll=1.5, weights="epoch 3")
        found.add(hashlib.sha256(path.read_bytes()).hexdigest())
    assert len(found) == 1


def test_weights_that_lie_otherwise_in_memory_are_saved_too(tmp_path):
    model, path = make(), tmp_path / "m.safetensors"
    weight = model.output.weight.detach().clone()
    model.output.weight.data = weight.t().contiguous().t()  # as of a layer that was transposed
    assert not model.output.weight.is_contiguous()
    save_checkpoint(path, model)
    assert torch.equal(load_model(path).output.weight, weight)


def test_the_average_is_the_mean_of_the_weights(tmp_path):
    models = [make(seed) for seed in range(3)]
    paths = [tmp_path / f"{i}.safetensors" for i in range(3)]
    for model, path in zip(models, paths, strict=True):
        save_checkpoint(path, model)
    averaged = make(9)
    load_weights(averaged, average_checkpoints(paths))
    for name, parameter in averaged.named_parameters():
        mean = sum(dict(m.named_parameters())[name] for m in models) / 3
        assert torch.allclose(parameter, mean, atol=1e-6)
    with pytest.raises(ValueError, match="at least one"):
        average_checkpoints([])
    other = make(config=replace(CONFIG, d_model=16, tied="none"))
    with pytest.raises(ValueError, match="does not fit this model"):
        load_weights(make(), {f"model.{n}": p for n, p in other.named_parameters()})


def test_damaged_and_foreign_files_are_refused(tmp_path):
    path = tmp_path / "m.safetensors"
    with pytest.raises(FileNotFoundError, match="no checkpoint at"):
        load_model(path)
    save_checkpoint(path, make())
    torch.save({"weight": torch.zeros(2)}, tmp_path / "pickle")
    good, pickle = path.read_bytes(), (tmp_path / "pickle").read_bytes()
    cut = [good[:length] for length in (0, 5, 8, 200, len(good) // 2, len(good) - 1)]
    for content in (*cut, pickle, b"not tensors at all"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="damaged or not a checkpoint"):
            load_model(path)
    for metadata in (None, {"format": "pt"}, {"config": "yes"}):
        save_file({"weight": torch.zeros(2)}, path, metadata=metadata)
        with pytest.raises(ValueError, match="not a checkpoint of nmtlib: config Field required"):
            load_model(path)
    for header in ("{", "[" * 10_000, "[]", "7"):
        save_file({"weight": torch.zeros(2)}, path, metadata={HEADER: header})
        with pytest.raises(ValueError, match="m.safetensors is not a checkpoint of nmtlib"):
            load_model(path)


def test_a_file_of_an_earlier_version_is_told_in_a_sentence(tmp_path):
    header = {"config": asdict(CONFIG), "notes": {"weights": "epoch 1"}, "sha256": "0"}
    path = tmp_path / "model.safetensors"
    put(header, {"model.output.bias": torch.zeros(11)}, path)
    for read in (read_checkpoint, nmtlib.load):
        with pytest.raises(ValueError, match="model.safetensors was written by an earlier nmtlib"):
            read(path)
    (tmp_path / "settings.json").write_text(Settings().to_json(), "utf-8")
    (tmp_path / "last.safetensors").write_bytes(path.read_bytes())
    with pytest.raises(ValueError, match="was written by an earlier nmtlib, which kept"):
        nmtlib.train(tmp_path, resume=True)


def put(header, tensors, path):
    save_file(tensors, path, metadata={HEADER: json.dumps(header)})


def test_any_bit_that_changes_is_noticed(tmp_path):
    path = tmp_path / "m.safetensors"
    save_checkpoint(path, make(), validation_nll=1.5)
    good = path.read_bytes()
    for place in range(8, len(good), 97):
        path.write_bytes(good[:place] + bytes([good[place] ^ 4]) + good[place + 1 :])
        with pytest.raises(ValueError, match="m.safetensors"):
            read_checkpoint(path)


def test_what_is_not_as_it_was_written_is_refused(tmp_path):
    path = tmp_path / "m.safetensors"
    save_checkpoint(path, make(), validation_nll=1.5)
    with safe_open(path, framework="pt") as file:
        header = json.loads(file.metadata()[HEADER])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    put(header, tensors, path)
    assert read_checkpoint(path).header.validation_nll == 1.5, "its bytes may lie otherwise"
    for change in (
        lambda header, tensors: header["config"].update(n_heads=4),
        lambda header, tensors: header.update(validation_nll=1.0),
        lambda header, tensors: tensors.update({W: tensors[W].t().contiguous()}),
        lambda header, tensors: tensors.update({W: tensors[W].half()}),
        lambda header, tensors: tensors.update({W: tensors[W].flatten()}),
        lambda header, tensors: tensors.update({W: tensors[B], B: tensors[W]}),
        lambda header, tensors: tensors.pop(W),
    ):
        change(other := deepcopy(header), changed := dict(tensors))
        put(other, changed, path)
        with pytest.raises(ValueError, match="not as it was written"):
            read_checkpoint(path)


def test_weights_that_are_no_numbers_and_a_configuration_of_no_model_are_refused(tmp_path):
    model, path = make(), tmp_path / "m.safetensors"
    for value in ({"loud": 1}, {"d_ff": 10**12}, {"tied": None}):
        save_checkpoint(path, model)
        rewrite(path, lambda content, tensors, value=value: content["config"].update(value))
        with pytest.raises(ValueError, match="another version of nmtlib"):
            read_checkpoint(path)
    for value in (math.nan, math.inf):
        with torch.no_grad():
            model.output.bias[3] = value
        save_checkpoint(path, model)
        with pytest.raises(ValueError, match="the weights are not all finite numbers"):
            load_model(path)


def test_checkpoints_of_several_models_have_no_average(tmp_path):
    paths = [tmp_path / "1.safetensors", tmp_path / "2.safetensors"]
    save_checkpoint(paths[0], make())
    save_checkpoint(paths[1], make(config=replace(CONFIG, n_heads=4)))
    with pytest.raises(ValueError, match="2.safetensors holds another model: its n_heads is 4"):
        average_checkpoints(paths)


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
    """Two tiny runs that differ in their seed."""
    folder = tmp_path_factory.mktemp("runs")
    rows = ["\t".join(pair) + "\n" for pair in sentence_pairs()]
    for split, part in (("train", rows[:40]), ("validation", rows[40:50]), ("test", rows[50:])):
        (folder / f"{split}.tsv").write_text("".join(part), "utf-8")
    (folder / "own.toml").write_text(PRESET, "utf-8")
    for name, seed in (("one", 1), ("other", 7)):
        settings = load_settings(folder / "own.toml").with_assignments([f"training.seed={seed}"])
        nmtlib.train(folder / name, settings, report=lambda line: None)
    return Run(folder / "one"), Run(folder / "other")


@pytest.mark.parametrize("name", ["epoch-001", "best"])
def test_a_file_of_another_run_is_never_averaged_in(two_runs, tmp_path, name):
    mine, other = two_runs
    shutil.copytree(mine.folder, tmp_path / "run")
    shutil.copy(other.folder / f"{name}.safetensors", tmp_path / "run")
    with pytest.raises(
        ValueError,
        match=rf"{name}.safetensors belongs to another run: its training.seed is 7, not 1",
    ):
        nmtlib.train(tmp_path / "run", resume=True, report=lambda line: None)


def test_an_epoch_under_the_name_of_another_is_refused(two_runs, tmp_path):
    shutil.copytree(two_runs[0].folder, folder := tmp_path / "run")
    shutil.copy(folder / "epoch-001.safetensors", folder / "epoch-002.safetensors")
    with pytest.raises(ValueError, match="epoch-002.safetensors holds the weights of epoch 1"):
        nmtlib.train(folder, resume=True, report=lambda line: None)
    with pytest.raises(ValueError, match="epoch-002.safetensors holds the weights of epoch 1"):
        nmtlib.load(folder, checkpoint="epoch-002")


@pytest.mark.parametrize("kind", [torch.int8, torch.bool, torch.float64, torch.complex64])
def test_weights_of_another_type_are_refused(tmp_path, kind):
    tensors = {f"model.{name}": p.detach().to(kind) for name, p in make().named_parameters()}
    with pytest.raises(ValueError, match="nmtlib writes float32"):
        load_weights(make(), tensors)


def test_a_failed_write_keeps_the_old_file_and_leaves_no_part(tmp_path, monkeypatch):
    write_atomically(path := tmp_path / "file", b"old")
    for error in (OSError(28, "No space left"), KeyboardInterrupt("end")):
        monkeypatch.setattr("os.fsync", mock.Mock(side_effect=error))
        with pytest.raises(type(error)):
            write_atomically(path, b"new")
        assert path.read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_real_limit_on_file_size_is_reported_and_keeps_the_old_file(tmp_path):
    """The system itself refuses to write more than 1,000 bytes, as a full disk does."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    program = (
        "import resource, signal, sys; from nmtlib.files import write_atomically;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000));"
        "write_atomically(sys.argv[1], bytes(5000))"
    )
    command = [sys.executable, "-c", program, str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0 and "what it held before is untouched" in done.stderr
    assert path.read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["file"]
