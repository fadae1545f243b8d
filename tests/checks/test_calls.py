"""Models that are called otherwise get their logits, and so a verdict without an alarm."""

import pytest
import torch
from torch import nn

from nmtcheck import Adapter, called, ours, run_checks
from nmtcheck.connect.standins import Batch, Field, Vocabulary

OURS = ours()


class Style(nn.Module):
    """nmtlib's model, called in another way."""

    def __init__(self, sizes, style):
        super().__init__()
        self.inner, self.style = OURS.make_model(sizes), style

    def forward(self, source, target, lengths=None):
        if self.style == "time first":
            return self.inner(source.t(), target.t()).transpose(0, 1)
        if self.style == "fixed":
            assert source.size(1) == target.size(1) == 12, "exactly 12 positions"
        if self.style == "shifts":
            target = target[:, :-1]
        if self.style == "lengths":
            hidden = torch.arange(source.size(1)) >= lengths[:, None]
            return self.inner(source.masked_fill(hidden, 0), target), "state"
        return self.inner(source, target)


OPTIONS = {
    "time first": {"time_major": True},
    "fixed": {"fixed": 12},
    "shifts": {"shifts": True},
    "lengths": {"lengths": True},
}


@pytest.mark.parametrize("style", OPTIONS)
def test_a_model_that_is_called_otherwise_raises_no_alarm(style):
    adapter = Adapter(make_model=lambda s: Style(s, style), logits=called(**OPTIONS[style]))
    report = run_checks(adapter, only=["masks", "layers", "model.shape", "model.batch_invariance"])
    assert report.ok and len(report.passed) >= 10, str(report)


class InStages(nn.Module):
    """nmtlib's model as two functions: the logits are made by a third part."""

    def __init__(self, sizes):
        super().__init__()
        self.inner = OURS.make_model(sizes)
        self.project = self.inner.output
        self.inner.output = nn.Identity()

    def encode(self, src, src_mask):
        return self.inner.encode(src)

    def decode(self, e_outputs, src_mask, trg, trg_mask):
        assert src_mask.any() and trg_mask.any()
        return self.inner.decode(trg, e_outputs, src_mask)


class HalfWritten(InStages):
    """The same, with a forward that is not written yet."""

    def forward(self, batch):
        raise NotImplementedError("use encode and decode")


class Flat(nn.Module):
    """nmtlib's model, whose logits have one axis for sentences and positions."""

    def __init__(self, sizes):
        super().__init__()
        self.inner = OURS.make_model(sizes)

    def forward(self, source, target):
        return self.inner(source, target).flatten(0, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "option"), [(InStages, "staged"), (HalfWritten, "staged"), (Flat, "pad")]
)
def test_the_way_in_which_a_model_is_called_is_found_out(model, option):
    report = run_checks(Adapter(make_model=model), only=["masks", "model.shape", "inside"])
    assert f"called with {option}=" in report.note or f", {option}=" in report.note, report.note
    assert report.ok and len(report.passed) >= 9, str(report)


def test_a_fixed_length_that_is_too_short_says_so():
    adapter = Adapter(make_model=lambda s: Style(s, "fixed"), logits=called(fixed=3))
    (result,) = run_checks(adapter, only="model.shape").results
    assert result.verdict == "error" and "at most 3 positions" in result.measured


def test_a_vocabulary_speaks_as_old_and_as_new_libraries_do():
    words = Vocabulary(9, pad=1, bos=2, eos=3, unk=0, specials=("<pad>", "<sos>", "</s>", "<unk>"))
    assert words.itos[:5] == ["<unk>", "<pad>", "<sos>", "</s>", "w4"] and len(words) == 9
    assert (
        words(["<s>", "w5", "never"]) == words.lookup_indices(["<bos>", "w5", "<unk>"]) == [2, 5, 0]
    )
    assert words.get_stoi()["<eos>"] == 3 and words.lookup_tokens([4, 3]) == ["w4", "</s>"]
    field = Field(words)
    assert (field.init_token, field.eos_token, field.pad_token) == ("<sos>", "</s>", "<pad>")


def test_a_batch_has_the_names_in_use():
    batch = Batch(torch.tensor([[4, 5]]), torch.tensor([[1, 6, 2]]))
    source, target = batch.time_major()
    assert source.shape == (2, 1) and torch.equal(target.t(), batch.trg) and batch.tgt is batch.trg
    assert batch.decoder_input.tolist() == [[1, 6]] and batch.labels.tolist() == [[6, 2]]
