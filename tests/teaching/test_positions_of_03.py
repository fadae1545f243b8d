"""The positions of notebooks 03 and 03b, from their own cells: decoding has the same logits."""

import json
import math
from pathlib import Path

import pytest
import torch

from nmtlib.model import MultiHeadAttention, RotaryAttention, Transformer, TransformerConfig
from nmtlib.specials import PAD

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
DEEPER = ["deeper/03b_positions.ipynb", "zh/03b_positions.ipynb"]


def defined(page, *starts):
    """What the cells of a page define that begin with these words."""
    cells = json.loads((NOTEBOOKS / page).read_text("utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    names = {"torch": torch, "math": math, "MultiHeadAttention": MultiHeadAttention}
    for start in starts:
        (text,) = (text for text in texts if start in text)
        exec(text[text.index(start) :].split("\n\n\n")[0], names)
    return names


@pytest.mark.parametrize("everywhere", [False, True])
@pytest.mark.parametrize("page", DEEPER)
def test_decoding_step_by_step_equals_the_full_pass(page, everywhere):
    torch.manual_seed(0)
    alibi = defined(page, "class ALiBi")["ALiBi"]
    sizes = {"d_model": 64, "n_heads": 4, "d_ff": 32, "n_encoder_layers": 1, "dropout": 0.0}
    config = TransformerConfig(20, 20, n_decoder_layers=2, **sizes)
    model = Transformer(config, **{"attention": alibi} if everywhere else {}).eval()
    if not everywhere:
        for layer in (*model.encoder, *model.decoder):
            layer.self_attention = alibi(64, n_heads=4).eval()
    for weights in model.parameters():
        weights.data.add_(0.1 * torch.randn_like(weights))
    source, target = torch.randint(4, 20, (3, 7)), torch.randint(4, 20, (3, 9))
    source[1, 5:] = PAD
    with torch.no_grad():
        logits, state = model(source, target), model.start(source)
        state.reorder(torch.tensor([0, 1, 2]))
        for position in range(target.size(1)):
            step = model.step(target[:, position], state)
            torch.testing.assert_close(step, logits[:, position], atol=1e-5, rtol=1e-5)
        # Two hypotheses a sentence: the queries of the attention to the memory are no positions.
        state = model.start(source)
        for position in range(target.size(1)):
            step = model.step(target[:, position].repeat_interleave(2), state)
            expected = logits[:, position].repeat_interleave(2, dim=0)
            torch.testing.assert_close(step, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("start", [0, 6])
@pytest.mark.parametrize(
    "page", ["03_positional_encoding.ipynb", "zh/03_positional_encoding.ipynb"]
)
def test_the_page_turns_vectors_as_the_core_does(page, start):
    names = defined(page, "def paper_wavelengths", "def rotate(")
    torch.manual_seed(0)
    vectors = torch.randn(3, 4, 9, 8).double()  # (B, H, S, d_k)
    turned = names["rotate"](vectors, names["paper_wavelengths"](8), start)
    expected = RotaryAttention(32, 4).double().turn(vectors, start)
    torch.testing.assert_close(turned, expected, atol=1e-6, rtol=1e-6)
