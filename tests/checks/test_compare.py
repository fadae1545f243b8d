"""The weights of one model carried into another, and the first tensor that differs."""

from dataclasses import replace

import pytest
from nightly import some
from patients import stranger
from peer_torch import torch_transformer

from nmtcheck import ours
from nmtcheck.command import main
from nmtcheck.compare import compare


@pytest.mark.nightly
def test_two_implementations_of_one_design_are_the_same():
    found = compare(ours(), stranger())
    assert found.same and "all tensors are the same" in str(found), found
    assert "standard deviation" in found.initial[0], "they begin differently, and that is said"


SETTINGS = [
    ("no scale", "scores of the encoder's self-attention of layer 1", "divided by 2 and by 1"),
    ("small embeddings", "vectors of embedding 1", "multiplied by 4 and by 1"),
    ("decoder not scaled", "vectors of embedding 2", "multiplied by 4 and by 1"),
    ("exponents of all columns", "vectors of embedding 1", "positions"),
    ("no memory mask", "weights of cross-attention of layer 1", "PAD has the weight 0 in"),
    ("off by one", "weights of the decoder's self-attention of layer 1", "hides 120 of 300"),
    ("heads joined by a view", "encoder's self-attention of layer 1", "in another order"),
    ("no activation", "map 2", "activation"),
]


@pytest.mark.parametrize(("mistake", "tensor", "reason"), some(SETTINGS, every=4))
def test_the_first_tensor_that_differs_is_named_with_its_setting(mistake, tensor, reason):
    first = compare(stranger(), replace(stranger(mistake), name="other")).first
    assert tensor in first[0] and reason in first[1], first


def test_the_place_of_the_norm_is_a_setting():
    post = compare(replace(ours("post"), name="post"), ours())
    assert post.first[1] == "place of the norm: nmtlib normalises before this map, post does not"


def test_fused_maps_and_fused_attention_are_carried_too():
    found = compare(ours(), torch_transformer())
    assert not found.missing and "positions" in found.first[1], found


def test_the_command_compares_and_says_what_cannot_be_carried(capsys, tmp_path):
    text = "from patients import stranger\ndef sliced(): return stranger('slices of heads')"
    (tmp_path / "a.py").write_text(text)
    assert main(["compare", "nmtlib", f"{tmp_path}/a.py:sliced"]) == 1
    assert "cannot be carried: the weights of the queries" in capsys.readouterr().out
    assert main(["compare", "nmtlib", "nowhere.py:make"]) == 2
