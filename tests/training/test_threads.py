"""What other threads do changes no training and no map: nothing is borrowed from the process."""

import threading
from contextlib import contextmanager

import pytest
import torch
from tiny import PRESET, sentence_pairs

import nmtlib
from nmtlib.model.attention import MultiHeadAttention, record_attention
from nmtlib.model.embeddings import DrawingFrom, drawing_from, dropout
from nmtlib.presets import load_settings
from nmtlib.training.checkpoint import read_checkpoint


@contextmanager
def thread_beside(work):
    """Another thread that repeats `work` until the block ends."""
    ended = threading.Event()

    def repeat():
        while not ended.is_set():
            work()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    rows = ["\t".join(pair) + "\n" for pair in sentence_pairs()]
    for split, part in (("train", rows[:40]), ("validation", rows[40:50]), ("test", rows[50:])):
        (folder / f"{split}.tsv").write_text("".join(part), "utf-8")
    (folder / "own.toml").write_text(PRESET, "utf-8")
    return folder / "own.toml"


def weights(preset, folder, *assignments):
    """The tensors that a training saves."""
    settings = load_settings(preset).with_assignments([*assignments])
    nmtlib.train(folder, settings, report=lambda line: None)
    names = ("state", "model", "epoch-001", "epoch-002")
    files = {name: read_checkpoint(folder / f"{name}.safetensors").tensors for name in names}
    return {f"{name}.{key}": t for name, tensors in files.items() for key, t in tensors.items()}


def assert_same(one, other):
    assert one.keys() == other.keys()
    assert not [name for name in one if not torch.equal(one[name], other[name])]


@pytest.mark.parametrize("checkpointed", ["false", "true"])
def test_a_thread_that_draws_changes_no_bit_of_a_training(preset, tmp_path, checkpointed):
    option = f"training.checkpoint_activations={checkpointed}"
    alone = weights(preset, tmp_path / "alone", option)

    def draw():
        torch.rand(10)
        torch.manual_seed(5)

    with thread_beside(draw):
        assert_same(weights(preset, tmp_path / "beside", option), alone)


@pytest.mark.slow
def test_two_trainings_in_two_threads_are_those_of_one(preset, tmp_path):
    alone = {seed: weights(preset, tmp_path / str(seed), f"seed={seed}") for seed in (1, 7)}
    found = {}

    def train(seed):
        found[seed] = weights(preset, tmp_path / f"thread-{seed}", f"seed={seed}")

    threads = [threading.Thread(target=train, args=[seed]) for seed in alone]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in alone:
        assert_same(found[seed], alone[seed])


@pytest.mark.parametrize("p", [0.1, 0.001, 0.9999])
def test_a_generator_gives_what_torchs_own_would_have_given(p):
    x = torch.randn(30, 41)
    torch.manual_seed(3)
    usual = dropout(x, p)
    state = torch.get_rng_state()
    with drawing_from(torch.Generator().manual_seed(3)):
        assert torch.equal(dropout(x, p), usual)
    torch.manual_seed(3)
    layer = torch.nn.Linear(5, 6)
    torch.set_rng_state(state)
    with DrawingFrom(torch.Generator().manual_seed(3)):
        assert torch.equal(torch.nn.Linear(5, 6).weight, layer.weight)
    assert torch.equal(torch.get_rng_state(), state), "torch's own generator is as it was"


def test_a_recording_sees_no_call_of_another_thread():
    attention = MultiHeadAttention(8, 2)
    x, other = torch.randn(1, 3, 8), torch.randn(4, 6, 8)
    with thread_beside(lambda: attention(other, other, other)):
        for _ in range(50):
            with record_attention(attention) as maps:
                attention(x, x, x)
            assert [tuple(weights.shape) for weights in maps[""]] == [(1, 2, 3, 3)]


def test_a_map_is_that_of_its_sentence_while_another_thread_translates():
    translator = nmtlib.load("toy-de-en")
    expected = translator.attention("der Hund schläft .", "the dog sleeps .")
    with thread_beside(lambda: translator.translate(["die Frau liest ein Buch ."] * 3)):
        for _ in range(10):
            found = translator.attention("der Hund schläft .", "the dog sleeps .")
            torch.testing.assert_close(found.weights, expected.weights)
