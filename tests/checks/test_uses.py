"""What depends on how a model is called is not called proved where nobody has seen a call."""

import textwrap

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from nmtcheck import Adapter, load_adapter, run_checks
from nmtcheck.connect.calls import called
from nmtcheck.measure.tape import recording

MODEL = """
import math
import torch
from torch import nn

def attend(q, k, v, mask):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    return scores.softmax(-1) @ v

class Attention(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(d_model, d_model) for _ in range(3))
    def forward(self, x, y, mask):
        return attend(self.q(x), self.k(y), self.v(y), mask)

class Net(nn.Module):
    def __init__(self, src_vocab_size, tgt_vocab_size, d_model, max_len=40):
        super().__init__()
        self.src = nn.Embedding(src_vocab_size, d_model)
        self.tgt = nn.Embedding(tgt_vocab_size, d_model)
        self.places = nn.Embedding(max_len, d_model)
        self.encoder, self.decoder, self.cross = (Attention(d_model) for _ in range(3))
        self.out = nn.Linear(d_model, tgt_vocab_size)
    def place(self, ids):
        return self.places(torch.arange(ids.size(1)))
    def forward(self, src, tgt, src_mask=None, tgt_mask=None):
        x = self.src(src) + self.place(src)
        x = x + self.encoder(x, x, src_mask)
        y = self.tgt(tgt) + self.place(tgt)
        y = y + self.decoder(y, y, tgt_mask)
        return self.out(y + self.cross(y, x, src_mask))
"""
WITH_MASKS = """
def train(batches):
    net = Net(100, 100, 16).to("cpu")
    for source, target, seen, past in batches:
        net(source, target, seen, tgt_mask=past).sum().backward()
"""
WITHOUT = """
def train(batches):
    net = Net(100, 100, 16)
    for source, target in batches:
        net(source, target, None).sum().backward()
"""
MASKS = ["inside"]


def report_of(tmp_path, text):
    file = tmp_path / "net.py"
    file.write_text(MODEL + text)
    return run_checks(load_adapter(f"{file}:Net", pad=0), only=MASKS)


def test_masks_that_training_gives_are_given(tmp_path):
    report = report_of(tmp_path, WITH_MASKS)
    assert "names=('src_mask', 'tgt_mask')" in report.note
    assert not [r for r in report.failed if r.check.id in ("inside.future", "inside.padding")]


@pytest.mark.slow
def test_masks_that_training_does_not_give_are_missing(tmp_path):
    report = report_of(tmp_path, WITHOUT)
    (future,) = (r for r in report.failed if r.check.id == "inside.future")
    assert future.proved and "no finding about masks" not in report.note


def test_what_masks_nobody_shows_is_a_guess_that_says_so(tmp_path):
    report = report_of(tmp_path, "")
    (future,) = (r for r in report.failed if r.check.id == "inside.future")
    assert not future.proved
    assert "Or training gives src_mask, tgt_mask, which was left out here." in future.cause
    assert "no finding about masks is proved" in report.note


def test_a_mask_of_a_form_that_nobody_knows_proves_nothing(tmp_path):
    """A model whose required mask has an own class: whatever is tried hides nothing."""
    text = MODEL.replace("src_mask=None, tgt_mask=None", "src_mask, tgt_mask")
    (tmp_path / "net.py").write_text(text.replace("if mask is not None", "if mask is Ellipsis"))
    report = run_checks(load_adapter(f"{tmp_path}/net.py:Net", pad=0), only=MASKS)
    wrong = [r for r in report.failed if r.check.id in ("inside.future", "inside.padding")]
    assert len(wrong) == 2 and not any(r.proved for r in wrong)
    assert all("in another form than was tried" in r.cause for r in wrong)


@pytest.mark.slow
def test_an_adapter_says_what_is_given(tmp_path):
    (tmp_path / "net.py").write_text(MODEL)
    adapter = load_adapter(f"{tmp_path}/net.py:Net", pad=0, given=("src_mask", "tgt_mask"))
    report = run_checks(adapter, only=MASKS)
    assert not [r for r in report.failed if r.check.id == "inside.future"]
    report = run_checks(load_adapter(f"{tmp_path}/net.py:Net", pad=0, given=()), only=MASKS)
    assert [r.proved for r in report.failed if r.check.id == "inside.future"] == [True]


@pytest.mark.parametrize("init", [True, False])
def test_a_file_of_a_package_is_imported_as_python_does(init, tmp_path):
    """`model/model.py` found itself where it meant its package."""
    folder = tmp_path / "repository" / f"nmt{init}"
    folder.mkdir(parents=True)
    if init:
        (folder / "__init__.py").write_text("")
    (folder / "layers.py").write_text("WIDTH = 3\n")
    (folder.parent / "helpers.py").write_text("HEADS = 2\n")
    (folder / f"nmt{init}.py").write_text(
        textwrap.dedent(
            f"""
            from nmt{init}.layers import WIDTH
            from helpers import HEADS
            from torch import nn
            def make():
                return nn.Linear(WIDTH, HEADS)
            """
        )
    )
    adapter = load_adapter(f"{folder}/nmt{init}.py:make")
    assert adapter.make_model(None).weight.shape == (2, 3)


class Reads(nn.Module):
    """A model that returns the loss of its labels."""

    def __init__(self, classes_second):
        super().__init__()
        self.table, self.classes_second = nn.Embedding(13, 13), classes_second

    def forward(self, source, target, labels):
        logits = self.table(target) + self.table(source).mean(1, keepdim=True)
        if self.classes_second:
            return F.cross_entropy(logits.transpose(1, 2), labels)
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def test_logits_are_read_where_the_classes_stand_second():
    torch.manual_seed(0)
    source, target = torch.randint(4, 13, (3, 5)), torch.randint(4, 13, (3, 4))
    plain, second = Reads(False), Reads(True)
    second.load_state_dict(plain.state_dict())
    read = called(labels="labels")
    assert torch.equal(read(plain, source, target), read(second, source, target))


@pytest.mark.parametrize("classes_second", [False, True])
def test_a_loss_is_read_where_the_classes_stand_second(classes_second):
    torch.manual_seed(0)
    model, ids = nn.Embedding(13, 13), torch.randint(4, 13, (3, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with recording() as run:
        for _ in range(2):
            logits = model(ids[:, :-1])
            table = logits.transpose(1, 2) if classes_second else logits.flatten(0, 1)
            labels = ids[:, 1:] if classes_second else ids[:, 1:].flatten()
            loss = F.cross_entropy(table, labels, label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    rows = run.updates[0].passes[0].rows
    assert rows is not None and rows.label.tolist() == ids[:, 1:].flatten().tolist()
    assert float(rows.weight.sum()) == pytest.approx(1, abs=1e-4) and rows.off < 0.02


def test_an_adapter_without_masks_is_sure():
    assert Adapter().unsure == ()
