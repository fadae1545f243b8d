"""The attentions of notebook 03, from its own cells: decoding step by step has the same logits."""

import json
import math
from pathlib import Path

import pytest
import torch

from nmtlib.model import MultiHeadAttention, RotaryAttention, Transformer, TransformerConfig
from nmtlib.specials import PAD

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
CELLS = ("def paper_wavelengths", "def rotate", "class Rotary", "class ALiBi")


def classes(page):
    """What the cells of a page define that are named in `CELLS`, and `replace_self_attention`."""
    cells = json.loads((NOTEBOOKS / page).read_text("utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    names = {"torch": torch, "math": math, "MultiHeadAttention": MultiHeadAttention}
    for start in (*CELLS, "def replace_self_attention"):
        (text,) = (text for text in texts if start in text)
        lines = text[text.index(start) :].split("\n\n\n")[0]
        exec(lines, names)
    return names


@pytest.mark.parametrize("everywhere", [False, True])
@pytest.mark.parametrize("name", ["Rotary", "ALiBi"])
@pytest.mark.parametrize(
    "page", ["03_positional_encoding.ipynb", "zh/03_positional_encoding.ipynb"]
)
def test_decoding_step_by_step_equals_the_full_pass(page, name, everywhere):
    torch.manual_seed(0)
    names = classes(page)
    sizes = {"d_model": 64, "n_heads": 4, "d_ff": 32, "n_encoder_layers": 1, "dropout": 0.0}
    config = TransformerConfig(20, 20, n_decoder_layers=2, **sizes)
    model = Transformer(config, **{"attention": names[name]} if everywhere else {}).eval()
    if not everywhere:
        names["replace_self_attention"](model, names[name])
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


@pytest.mark.parametrize("start", [None, 0, 6])
@pytest.mark.parametrize("heads", [1, 4])
def test_the_class_of_the_page_and_that_of_the_core_are_one(heads, start):
    torch.manual_seed(0)
    by_hand = classes("03_positional_encoding.ipynb")["Rotary"](32, heads).double().eval()
    core = RotaryAttention(32, heads).double().eval()
    core.load_state_dict(by_hand.state_dict())
    query, sentence = torch.randn(2, 3, 32).double(), torch.randn(2, 9, 32).double()
    with torch.no_grad():
        given = core.project(sentence, sentence)
        expected = by_hand.attend(query, *given, None, start)
        torch.testing.assert_close(core.attend(query, *given, None, start), expected)
        torch.testing.assert_close(core(query, query, query), by_hand(query, query, query))
