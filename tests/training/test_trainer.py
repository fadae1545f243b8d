"""Training learns, repeats bit for bit, survives a kill, and does not depend on the batching."""

import itertools
import math
import os
import re
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace

import pytest
import torch
from limits import NO_PROGRESS

from nmtlib.data.batching import Batch, collate, make_example
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.run import Run
from nmtlib.settings import TrainingSettings
from nmtlib.training.checkpoint import (
    average_checkpoints,
    load_model,
    load_weights,
    read_checkpoint,
)
from nmtlib.training.history import read_history
from nmtlib.training.loss import Totals, label_smoothed_loss
from nmtlib.training.trainer import SEEDS, Recipe, Trainer

LAYERS = {"n_encoder_layers": 1, "n_decoder_layers": 1}
CONFIG = TransformerConfig(20, 20, d_model=16, n_heads=2, d_ff=32, dropout=0.1, **LAYERS)
SETTINGS = TrainingSettings(
    epochs=3, max_tokens=64, learning_rate=5e-3, warmup=5, average=2, precision="fp32", device="cpu"
)


def copying(count=60, seed=0):
    """A language in which a translation repeats its source."""
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(2, 8, (count,), generator=generator).tolist()
    rows = [torch.randint(4, 20, (size,), generator=generator).tolist() for size in sizes]
    return [make_example(row, row) for row in rows]


def make_trainer(folder, settings=SETTINGS, config=CONFIG, train=None, after_epoch=None, **options):
    folder.mkdir(exist_ok=True)
    torch.manual_seed(settings.seed % SEEDS)
    data = train or copying(), copying(20, seed=1)
    how = {"after_epoch": after_epoch, "report": lambda line: None}
    return Trainer(Transformer(config), *data, settings, folder, Recipe(**options), **how)


def weights_of(model):
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def weights(trainer):
    return weights_of(trainer.model)


def same(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[n], second[n]) for n in first)


def same_files(*paths):
    first, second = (read_checkpoint(path).tensors for path in paths)
    return same(first, second)


@pytest.mark.slow
def test_a_run_learns_and_leaves_everything_behind(tmp_path):
    trainer = make_trainer(tmp_path, replace(SETTINGS, epochs=12, average=3))
    history = trainer.fit()
    assert [r.epoch for r in history] == list(range(1, 13))
    assert history[-1].validation_nll < 0.9 * history[0].validation_nll
    assert history[-1].validation_accuracy > history[0].validation_accuracy
    assert history == trainer.progress.history
    updates = read_history(tmp_path / "history.csv")[-1].updates
    assert updates == trainer.progress.updates == 12 * trainer.batches_per_epoch
    names = ("best", "epoch-010", "epoch-011", "epoch-012", "state", "model")
    files = {"history.csv", *(f"{name}.safetensors" for name in names)}
    assert {path.name for path in tmp_path.iterdir()} == files
    best = min(history, key=lambda r: r.validation_nll)
    chosen, kept = (
        read_checkpoint(tmp_path / f"{n}.safetensors").header for n in ("best", "model")
    )
    assert chosen.weights == f"epoch {best.epoch}"
    assert kept.validation_nll <= best.validation_nll
    found = trainer.totals_of(load_model(tmp_path / "model.safetensors"), trainer.validation)
    assert found.nll_per_token == pytest.approx(kept.validation_nll, abs=1e-6)


@pytest.mark.parametrize("stop_after", [1, 7, 11])
def test_a_stopped_run_resumes_bit_for_bit_within_an_epoch_too(tmp_path, stop_after, monkeypatch):
    whole = make_trainer(tmp_path / "whole")
    whole.fit()
    stopped = make_trainer(tmp_path / "stopped")
    monkeypatch.setattr(Trainer, "wants_to_stop", lambda self: self.progress.updates >= stop_after)
    stopped.fit()
    monkeypatch.undo()
    assert stopped.progress.updates - stop_after in (0, 1), "an epoch's end is not interrupted"
    resumed = make_trainer(tmp_path / "stopped")
    resumed.resume()
    resumed.fit()
    assert same(weights(whole), weights(resumed))
    for one, two in zip(whole.progress.history, resumed.progress.history, strict=True):
        for name in ("train_loss", "train_accuracy", "validation_nll"):
            assert getattr(one, name) == pytest.approx(getattr(two, name), abs=1e-12)
    for name in ("best", "model"):
        assert same_files(*(tmp_path / r / f"{name}.safetensors" for r in ("whole", "stopped")))


PROGRAM = """
    import sys, pathlib
    sys.path[:0] = [{tests!r}, {tests!r} + "/.."]
    import torch; torch.set_num_threads(1)
    from test_trainer import KilledWithinAnEpoch, SETTINGS, make_trainer, replace
    settings = replace(SETTINGS, epochs=int(sys.argv[2]), save_updates=2)
    trainer = make_trainer(pathlib.Path(sys.argv[1]), settings)
    if "resume" in sys.argv: trainer.resume()
    if "kill" in sys.argv: trainer.loss = KilledWithinAnEpoch(trainer)
    trainer.report = lambda line: print(line, flush=True)
    trainer.fit()
"""


class KilledWithinAnEpoch:
    """A loss that kills its process in the middle of epoch 4."""

    def __init__(self, trainer):
        self.trainer, self.loss = trainer, trainer.loss

    def __call__(self, *arguments, **options):
        progress = self.trainer.progress
        if (progress.epoch, progress.batches) == (3, 5):
            os.kill(os.getpid(), signal.SIGKILL)
        return self.loss(*arguments, **options)


def start(folder, epochs, *more):
    program = textwrap.dedent(PROGRAM.format(tests=os.path.dirname(__file__)))
    command = [sys.executable, "-c", program, str(folder), str(epochs), *more]
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(command, text=True, **pipes)


@pytest.mark.nightly
def test_a_killed_run_resumes_to_bit_identical_weights(tmp_path):
    epochs = 5
    killed = start(tmp_path / "killed", epochs, "kill")
    killed.communicate(timeout=NO_PROGRESS)
    assert killed.returncode == -signal.SIGKILL
    before = read_checkpoint(tmp_path / "killed" / "state.safetensors").header.state.progress
    assert before.epoch == 3 and before.batches > 0
    resumed = start(tmp_path / "killed", epochs, "resume")
    make_trainer(tmp_path / "whole", replace(SETTINGS, epochs=epochs, save_updates=2)).fit()
    assert resumed.wait() == 0, resumed.stderr.read()
    for name in ("state", "best", "model"):
        assert same_files(*(tmp_path / r / f"{name}.safetensors" for r in ("killed", "whole"))), (
            name
        )


@pytest.mark.nightly
def test_ctrl_c_ends_cleanly_and_loses_nothing(tmp_path):
    run = start(tmp_path / "run", 10_000)
    for line in run.stdout:
        if re.match(r"epoch +2/", line):
            break
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=NO_PROGRESS)
    assert run.returncode == 0 and "--resume goes on from here" in out and not err
    assert read_checkpoint(tmp_path / "run" / "state.safetensors").header.state.progress.epoch >= 2
    assert (tmp_path / "run" / "model.safetensors").is_file()


def test_a_time_limit_ends_cleanly(tmp_path, monkeypatch):
    monkeypatch.setattr("nmtlib.training.trainer.time.monotonic", itertools.count().__next__)
    trainer, said = make_trainer(tmp_path, replace(SETTINGS, epochs=10_000)), []
    trainer.report = said.append
    trainer.fit(minutes=1)
    assert 0 < trainer.progress.epoch < 10_000
    assert (tmp_path / "state.safetensors").is_file() and any(
        "--resume goes" in line for line in said
    )


def one_update(tmp_path, batches, **changes):
    """Weights after one update without dropout on batches of the given sentence numbers."""
    settings, data = replace(SETTINGS, grad_clip=1e9, **changes), copying(12)
    trainer = make_trainer(tmp_path, settings, replace(CONFIG, dropout=0.0), train=data)
    trainer.model.double()
    trainer.update([collate([data[i] for i in batch]) for batch in batches])
    return weights(trainer)


def test_accumulation_makes_the_update_of_one_large_batch(tmp_path):
    whole = one_update(tmp_path, [range(12)])
    for spread in ([range(6), range(6, 12)], [range(1), range(1, 12)], [[i] for i in range(12)]):
        parts = one_update(tmp_path, spread)
        assert all(torch.allclose(whole[name], parts[name], atol=1e-9) for name in whole)


def test_the_last_batches_of_an_epoch_make_an_update_though_they_are_few(tmp_path):
    trainer = make_trainer(tmp_path, replace(SETTINGS, accumulate=4))
    before = weights(trainer)
    trainer.update([collate(copying(4))])
    assert not same(before, weights(trainer))


def test_the_perplexity_of_an_epoch_is_that_of_its_loss_in_nats(tmp_path):
    trainer = make_trainer(tmp_path, replace(SETTINGS, epochs=1))
    (record,) = trainer.fit()
    assert record.validation_perplexity == pytest.approx(math.exp(record.validation_nll))


@pytest.mark.parametrize("spread", [[range(12)], [range(1), range(1, 12)]])
def test_before_clipping_a_gradient_is_that_of_the_mean_loss(tmp_path, monkeypatch, spread):
    """Adam and clipping hide the scale of a gradient, so weights after an update do not tell it."""
    data = copying(12)
    trainer = make_trainer(tmp_path, config=replace(CONFIG, dropout=0.0), train=data)
    model, seen, whole = trainer.model.double(), [], collate(data)
    table = model(whole.source, whole.decoder_input)
    label_smoothed_loss(table, whole.labels, SETTINGS.label_smoothing).backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()

    def clip(parameters, norm):
        seen.extend(p.grad.clone() for p in parameters)

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", clip)
    trainer.update([collate([data[i] for i in numbers]) for numbers in spread])
    assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(seen, expected, strict=True))


def test_each_epoch_can_have_its_own_examples_and_the_schedule_counts_those_of_the_first(tmp_path):
    epochs = [copying(60), copying(90, seed=5), copying(30, seed=6)]
    trainer = make_trainer(tmp_path, examples=lambda epoch: epochs[epoch])
    plain = make_trainer(tmp_path / "plain")
    assert trainer.batches_per_epoch == plain.batches_per_epoch
    seen, updates = [], []
    trainer.after_epoch = lambda trainer: seen.append(list(trainer.loader.examples))
    history = trainer.fit()
    updates = [record.updates for record in history]
    assert seen == epochs and updates[0] == plain.batches_per_epoch
    assert updates[1] - updates[0] > updates[0] > updates[2] - updates[1]
    assert all(math.isfinite(trainer.learning_rate(n)) for n in range(1, updates[-1] + 100))


def test_the_caller_sees_every_saved_epoch_and_the_time_that_it_takes_does_not_count(
    tmp_path, monkeypatch
):
    clock, seen = [0.0], []

    def tick():
        clock[0] += 0.001
        return clock[0]

    def look(trainer):
        seen.append(trainer.progress.epoch)
        assert trainer.epoch_files()[-1].stem == f"epoch-{trainer.progress.epoch:03d}"
        clock[0] += 3600

    monkeypatch.setattr("nmtlib.training.trainer.time.monotonic", tick)
    trainer = make_trainer(tmp_path, after_epoch=look)
    trainer.fit(minutes=1)
    assert seen == [1, 2, 3] and 0 < trainer.progress.seconds < 60 < clock[0]


def test_patience_stops_early_and_keeps_the_best(tmp_path, monkeypatch):
    nlls = iter([3.0, 2.0, 2.5, 2.6, 1.0, 1.0])
    monkeypatch.setattr(Trainer, "validate", lambda self: Totals(9.0, next(nlls), 0.5, 1.0))
    trainer = make_trainer(tmp_path, replace(SETTINGS, epochs=6, patience=2))
    assert len(trainer.fit()) == 4
    assert read_checkpoint(tmp_path / "best.safetensors").header.weights == "epoch 2"


def test_validation_uses_no_dropout_changes_nothing_and_returns_to_training(tmp_path):
    trainer = make_trainer(tmp_path, config=replace(CONFIG, dropout=0.5))
    before = weights(trainer)
    trainer.model.train()
    assert trainer.validate() == trainer.validate()
    assert trainer.model.training and same(before, weights(trainer))
    assert all(p.grad is None for p in trainer.model.parameters())


def test_the_learning_rate_follows_the_schedule_by_update(tmp_path):
    noam = replace(SETTINGS, schedule="noam", learning_rate=2.0, accumulate=2)
    trainer = make_trainer(tmp_path, noam)
    last = trainer.fit()[-1].updates
    assert last == 3 * -(-trainer.batches_per_epoch // 2), "two batches make an update"
    expected = 2 * 16**-0.5 * min(last**-0.5, last * 5**-1.5)
    assert trainer.optimizer.param_groups[0]["lr"] == pytest.approx(expected)


def test_a_loss_that_is_not_finite_stops_the_run_and_spares_the_checkpoint(tmp_path):
    trainer = make_trainer(tmp_path)
    trainer.run_epoch()
    with torch.no_grad():
        trainer.model.output.bias.fill_(float("nan"))
    with pytest.raises(FloatingPointError, match="became nan by update .*lower learning_rate"):
        trainer.fit()
    saved = read_checkpoint(tmp_path / "state.safetensors").tensors
    assert all(tensor.isfinite().all() for tensor in saved.values())


def test_bfloat16_trains_and_leaves_float32_weights(tmp_path):
    settings = replace(SETTINGS, precision="bf16", checkpoint_activations=True)
    trainer = make_trainer(tmp_path, settings)
    assert trainer.model.checkpoint_activations
    history = trainer.fit()
    assert history[-1].train_nll < history[0].train_nll
    assert all(p.dtype == torch.float32 for p in trainer.model.parameters())


def test_nothing_to_train_on_and_a_model_without_state_are_refused(tmp_path):
    for sides in (([], copying(2)), (copying(2), [])):
        with pytest.raises(ValueError, match="training needs sentences"):
            Trainer(Transformer(CONFIG), *sides, SETTINGS, tmp_path)
    trainer = make_trainer(tmp_path)
    with pytest.raises(FileNotFoundError, match="no checkpoint at"):
        trainer.resume()
    trainer.fit()
    (tmp_path / "state.safetensors").write_bytes((tmp_path / "best.safetensors").read_bytes())
    with pytest.raises(ValueError, match="does not hold the state of a run"):
        make_trainer(tmp_path).resume()


def test_the_average_of_the_last_epochs_is_kept_where_it_validates_better(tmp_path, monkeypatch):
    trainer = make_trainer(tmp_path, replace(SETTINGS, average=3))
    trainer.fit()
    expected = average_checkpoints([tmp_path / f"epoch-00{n}.safetensors" for n in (1, 2, 3)])
    measured = []

    def better(self, model, examples):
        measured.append(weights_of(model))
        return Totals(nll=0.5, labels=1.0)

    monkeypatch.setattr(Trainer, "totals_of", better)
    trainer.choose_model()
    kept = load_model(tmp_path / "model.safetensors")
    header = read_checkpoint(tmp_path / "model.safetensors").header
    assert header.weights == "average of the last 3 epochs"
    for found in (weights_of(kept), measured[0]):
        assert all(torch.allclose(found[name], expected[f"model.{name}"]) for name in found)
    assert not same(weights_of(kept), weights(trainer))


def test_a_new_training_never_touches_an_older_one(tmp_path):
    make_trainer(tmp_path, replace(SETTINGS, epochs=5, average=3)).fit()
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    second = make_trainer(tmp_path, replace(SETTINGS, epochs=2, average=3))
    for train in (second.fit, second.run_epoch):
        with pytest.raises(FileExistsError, match="holds .*nothing is overwritten"):
            train()
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_whatever_an_older_training_has_left_is_enough_to_refuse_a_new_one(tmp_path):
    for name in ("state.safetensors", "model.safetensors", "epoch-005.safetensors", "history.csv"):
        (tmp_path / name).write_bytes(b"weeks of work")
        with pytest.raises((FileExistsError, ValueError), match="overwrit"):
            make_trainer(tmp_path).fit()
        assert [p.name for p in tmp_path.iterdir()] == [name]
        (tmp_path / name).unlink()


def test_a_folder_that_is_not_there_is_made(tmp_path):
    trainer = make_trainer(tmp_path)
    trainer.run = Run(tmp_path / "runs" / "first")
    trainer.run_epoch()
    assert trainer.run.state_file.is_file() and trainer.run.best_file.is_file()


@pytest.mark.parametrize(("keep", "kept"), [("best", "epoch 3"), ("average", "average")])
def test_an_average_that_is_asked_for_is_kept_though_it_validates_worse(
    tmp_path, monkeypatch, keep, kept
):
    trainer = make_trainer(tmp_path, replace(SETTINGS, average=3, keep=keep))
    told = []
    trainer.report = told.append
    history = trainer.fit()
    assert min(history, key=lambda r: r.validation_nll).epoch == 3
    files = [tmp_path / f"epoch-00{n}.safetensors" for n in (1, 2, 3)]
    worse = Transformer(trainer.model.config)
    load_weights(worse, average_checkpoints(files))
    assert trainer.totals_of(worse, trainer.validation).nll_per_token > history[-1].validation_nll
    assert kept in told[-1]


def test_the_last_epoch_alone_is_an_average_too(tmp_path, monkeypatch):
    trainer, told = make_trainer(tmp_path, replace(SETTINGS, average=1, keep="average")), []
    trainer.report = told.append
    nll = iter([2.0, 1.0, 3.0])
    measured = trainer.validate
    monkeypatch.setattr(trainer, "validate", lambda: measured()._replace(nll=next(nll)))
    trainer.fit()
    assert told[-1].startswith("kept: epoch 3")
    assert same_files(trainer.run.model_file, tmp_path / "epoch-003.safetensors")


def test_fit_goes_on_where_the_same_trainer_stopped(tmp_path, monkeypatch):
    whole, trainer = make_trainer(tmp_path / "whole"), make_trainer(tmp_path / "run")
    whole.fit()
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "wants_to_stop", lambda self: self.progress.updates >= 4)
        trainer.fit()
    assert not trainer.progress.epoch == 3
    trainer.fit()
    assert same(weights(whole), weights(trainer))


def test_a_trainer_needs_no_fit_before_its_epochs_and_no_limit_outlives_one(tmp_path):
    trainer = make_trainer(tmp_path, replace(SETTINGS, epochs=10_000))
    assert trainer.run_epoch() and trainer.progress.epoch == 1
    trainer.fit(minutes=1e-9)
    stopped = trainer.progress.epoch
    trainer.progress.batches or trainer.run_epoch()
    assert trainer.run_epoch() and trainer.progress.epoch > stopped


@pytest.mark.parametrize("lost", [(), ("epoch-001", "best", "history")])
def test_an_epoch_killed_between_two_files_is_completed_when_resumed(tmp_path, lost):
    trainer = make_trainer(tmp_path, replace(SETTINGS, epochs=1))
    trainer.run_epoch()
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    assert len(before) == 4, "last is written first"
    for path in tmp_path.iterdir():
        if path.stem in lost:
            path.unlink()
    resumed = make_trainer(tmp_path, replace(SETTINGS, epochs=1))
    resumed.resume()
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
    assert resumed.fit() == trainer.progress.history


def test_only_epochs_of_this_training_are_averaged(tmp_path):
    trainer = make_trainer(tmp_path, replace(SETTINGS, average=3))
    trainer.run_epoch()
    (tmp_path / "epoch-009.safetensors").write_bytes(b"from elsewhere")
    trainer.fit()
    assert [p.stem for p in trainer.epoch_files()] == ["epoch-001", "epoch-002", "epoch-003"]


def test_a_run_that_diverges_says_so_also_where_its_perplexity_overflows(tmp_path):
    rates = {"learning_rate": 1e3, "schedule": "constant", "warmup": 1}
    with pytest.raises(FloatingPointError, match="lower learning_rate"):
        make_trainer(tmp_path, replace(SETTINGS, **rates)).fit()


def test_any_seed_trains(tmp_path):
    runs = []
    for seed in (2**40, -3, 2**200 + 9):
        trainer = make_trainer(tmp_path / str(seed), replace(SETTINGS, seed=seed, epochs=1))
        trainer.fit()
        runs.append(weights(trainer))
    assert not any(same(runs[0], other) for other in runs[1:])


def test_every_batch_travels_to_the_device(tmp_path, monkeypatch):
    sent = []
    monkeypatch.setattr(Batch, "to", lambda batch, device: sent.append(device) or batch)
    trainer = make_trainer(tmp_path, replace(SETTINGS, epochs=1))
    trainer.fit()
    assert sent[: trainer.batches_per_epoch] == [trainer.device] * trainer.batches_per_epoch


def test_an_update_reads_each_batch_that_it_accumulates(tmp_path):
    config, settings = replace(CONFIG, dropout=0.0), replace(SETTINGS, epochs=1, accumulate=99)
    # not Adam, which makes a whole step of the rounding of a gradient that is zero
    plain = {"optimizer": lambda model: torch.optim.SGD(model.parameters())}
    trainer = make_trainer(tmp_path / "epoch", settings, config, **plain)
    assert trainer.batches_per_epoch > 2
    trainer.run_epoch()
    whole = make_trainer(tmp_path / "whole", settings, config, **plain)
    whole.update([collate(copying())])
    torch.testing.assert_close(weights(trainer), weights(whole))
