"""What was met in programs of other people, and read wrongly once."""

import math

import pytest
import torch
from patients import BOS, EOS, PAD, Stranger, stranger, translate
from runs import train
from torch.nn import functional as F

from nmtcheck import Sizes, load_adapter, run_checks
from nmtcheck.checks.recorded import divided, root_alone
from nmtcheck.checks.search import fits_all
from nmtcheck.checks.translation import recorded_frame
from nmtcheck.connect.filling import Words, special_constants
from nmtcheck.measure.helpers import still
from nmtcheck.measure.labels import Learned, Rows, read_pairs


def test_a_triangle_that_torch_calls_causal_is_kept_without_dropout():
    query = torch.randn(1, 2, 4, 8)
    with still():
        found = F.scaled_dot_product_attention(query, query, query, None, 0.5, True)
    expected = F.scaled_dot_product_attention(query, query, query, is_causal=True)
    torch.testing.assert_close(found, expected)


def test_a_module_is_imported_as_its_package_imports_it(tmp_path):
    package = tmp_path / "kit" / "models"
    package.mkdir(parents=True)
    (tmp_path / "kit" / "__init__.py").write_text("from kit.models import Mine\n")
    (package / "__init__.py").write_text("from kit.models.mine import Mine\n")
    text = "import torch\nclass Mine(torch.nn.Module):\n    pass\ndef make():\n    return Mine()\n"
    (package / "mine.py").write_text(text)
    adapter = load_adapter(f"{package / 'mine.py'}:make")
    assert type(adapter.make_model(None)).__name__ == "Mine"


def test_the_ids_that_a_file_names_are_taken(tmp_path):
    file = tmp_path / "named.py"
    file.write_text(
        "from torch import nn\nPAD_IDX, BOS_IDX, EOS_IDX = 1, 2, 3\n"
        "class Mine(nn.Module):\n    def __init__(self, src_vocab_size: int):\n"
        "        super().__init__()\n"
    )
    adapter = load_adapter(f"{file}:Mine")
    assert (adapter.pad, adapter.bos, adapter.eos) == (1, 2, 3)
    assert "your file names: BOS 2, EOS 3, PAD 1" in adapter.assumed


def test_constants_that_disagree_are_not_taken():
    assert special_constants({"PAD": 0, "PAD_ID": 0, "EOS": 2}) == {"pad": 0, "eos": 2}
    assert special_constants({"PAD": 0, "TRG_PAD_IDX": 1}) == {}
    assert special_constants({"PAD": 1, "EOS": 1}) == {}, "two ids are one"


def test_a_vocabulary_answers_with_its_special_ids():
    words = Words(13, pad=1, bos=2, eos=3, unk=0)
    assert (words.pad(), words.pad_index, words.eos(), len(words)) == (1, 1, 3, 13)
    with pytest.raises(AttributeError, match="no 'colour'"):
        _ = words.colour


def test_sizes_that_are_attributes_of_a_class_are_filled(tmp_path):
    file = tmp_path / "sized.py"
    file.write_text(
        "from torch import nn\nclass CFG:\n    d_model, seed = 32, 1\n"
        "class Mine(nn.Module):\n    def __init__(self, n_pieces, c=CFG):\n"
        "        super().__init__()\n        self.table = nn.Embedding(n_pieces, c.d_model)\n"
    )
    made = load_adapter(f"{file}:Mine").make_model(Sizes())
    assert tuple(made.table.weight.shape) == (13, 16)


class Turned(Stranger):
    """Time comes first in front of the last linear map: torch adds its bias later."""

    def decode(self, target, memory, seen):
        x, past = self.embed(1, target), torch.ones(2 * (target.size(1),)).bool().tril()
        for block in self.decoder:
            x = block(x, past, memory, seen)
        return self.last(self.ends[1](x).transpose(0, 1)).transpose(0, 1)


def test_a_bias_that_is_added_behind_a_product_is_one_of_the_logits():
    adapter = stranger(translate=translate, make_model=Turned)
    (result,) = run_checks(adapter, only="search.model").results
    assert result.verdict == "passed", result.measured


def test_a_square_table_of_ids_has_time_where_the_target_has_it():
    source = torch.tensor([[5, 6, 7, EOS], [8, 9, 5, EOS], [7, 5, EOS, PAD], [9, EOS, PAD, PAD]])
    target = torch.tensor([[BOS, 6, 5, 8, EOS], [BOS, 5, 9, EOS, PAD]])
    target = torch.cat([target, target.roll(1, 0)])
    labels = target[:, 1:]
    real = (labels != PAD).t().flatten()
    place = real.nonzero()[:, 0]  # time first
    ones = torch.ones(len(place))
    rows = Rows(place, (16,), labels.t().flatten()[real], ones, ones, 0.0)
    pairs = read_pairs(rows, [source.t(), target[:, :-1].t()])
    assert pairs.kind == "right" and torch.equal(pairs.source, source)


def test_one_exponent_has_to_explain_all_results():
    short, long = (5,), (5, 6, 7, 8)
    found = {short: -2.0, long: -4.0}
    assert fits_all([(long, found)], 1) and fits_all([(short, found)], 1)
    assert not fits_all([(long, found), (short, {short: -2.0, long: -2.1})], 1)
    assert fits_all([(short, {short: -2.0, long: -1.9})], -1), "multiplied by the length"


@pytest.mark.parametrize(("words", "kind"), [(7, "last batch"), (9, "source"), (12, "mean")])
def test_what_a_sum_is_divided_by_is_named(words, kind):
    """Two batches with 5 and 7 labels, and sources with 9 words between them."""

    def rows(count):
        ones = torch.ones(count)
        return Rows(torch.arange(count), (2, 5), ones.long(), ones / words, ones, 0.0)

    def pair(*sources):
        width = max(map(len, sources))
        table = torch.tensor([[*s, *[PAD] * (width - len(s))] for s in sources])
        return Learned(table, torch.zeros(2, 5).long(), {}, "right")

    pairs = [pair([5, 6, 7], [8]), pair([9, 5], [6, 7, 8])]
    assert divided([rows(5), rows(7)], pairs)[0] == kind


@pytest.mark.slow
@pytest.mark.parametrize(("end", "verdict"), [((EOS,), "passed"), ((), "failed")])
def test_a_source_is_framed_as_in_the_recorded_training(end, verdict):
    def without(model, words, longest):
        return translate(model, words, longest, end=end)

    (result,) = run_checks(
        stranger(run=train, translate=without), only="decoding.source_ids"
    ).results
    assert result.verdict == verdict, result.measured
    assert "your training" in result.measured


def test_sources_that_begin_with_tags_have_no_frame_that_is_known(monkeypatch):
    rows = [[3 + n % 2, 8 + n % 4, 12 - n % 3, EOS] for n in range(24)]
    learned = [[Learned(torch.tensor(rows), torch.zeros(24, 2).long(), {}, "right")]]
    monkeypatch.setattr("nmtcheck.checks.translation.lessons", lambda adapter: learned)
    ends = [([7, EOS], [])] * 24
    monkeypatch.setattr("nmtcheck.checks.translation.endings", lambda told: ends)
    assert recorded_frame(stranger(run=train)) is None
    learned[0][0] = learned[0][0]._replace(source=torch.tensor([[1, *row[1:]] for row in rows]))
    assert recorded_frame(stranger(run=train)) == ([BOS], [EOS])


def test_rates_are_those_of_the_root_alone_or_not():
    assert root_alone([0.1 / math.sqrt(n) for n in range(1, 40)])
    assert not root_alone([0.1 * min(n**-0.5, n * 12**-1.5) for n in range(1, 40)])
