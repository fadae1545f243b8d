"""A reader's file becomes an adapter, or an error that says what to do."""

import textwrap

import pytest
import torch

from nmtcheck import Sizes, load_adapter, run_checks
from nmtcheck.command import main

GOOD = """
    import torch
    from torch import nn
    from nmtcheck import Adapter
    from nmtcheck import ours
    from nmtlib.model.transformer import Transformer, TransformerConfig

    LAYERS = {"n_encoder_layers": 1, "n_decoder_layers": 1}
    SMALL = TransformerConfig(20, 20, d_model=16, n_heads=2, d_ff=24, **LAYERS)

    def whole():
        return ours()

    def fixed():
        return Transformer(SMALL)

    READY = Transformer(SMALL)

    def ready(trace=False):
        return READY

    def sized(sizes):
        return ours().make_model(sizes)

    class Mine(Transformer):
        def __init__(self):
            super().__init__(SMALL)

    def two(source_vocab_size, words): ...
    def number(): return 7
    def falls(): return SMALL.no_such_name
    limit = 3
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "good_model.py"
    path.write_text(textwrap.dedent(GOOD))
    return path


def test_an_adapter_is_taken_as_it_is(file):
    assert load_adapter(f"{file}:whole").name == "nmtlib"


@pytest.mark.slow
@pytest.mark.parametrize("factory", ["fixed", "ready", "Mine"])
def test_a_model_is_checked_in_its_own_size(file, factory):
    adapter = load_adapter(f"{file}:{factory}")
    assert adapter.name == "good_model" and not adapter.has("resizable") and not adapter.has("run")
    report = run_checks(adapter)
    assert report.ok and len(report.passed) >= 15, report
    first, second = (adapter.make_model(Sizes()) for _ in range(2))
    with torch.no_grad():
        first.output.bias.add_(1)
    assert not torch.equal(first.output.bias, second.output.bias), (
        "each check gets a model of its own"
    )


def test_a_factory_of_sizes_is_checked_for_more(file):
    report = run_checks(load_adapter(f"{file}:sized"), only=["model", "layers"])
    assert report.ok and "layers.dropout_rate" in {r.check.id for r in report.passed}


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("good_model.py", "names no file and factory; write it as FILE:FACTORY"),
        ("{file}:", "names no file and factory"),
        ("{file}:whle", "good_model.py has no 'whle' .did you mean whole..$"),
        ("{file}:xyz", "good_model.py has no 'xyz'; it has Adapter, Mine"),
        ("{file}:limit", "'limit' in good_model.py is int, not a function or class"),
        ("{file}:two", r"two needs source_vocab_size, words, and no value is known for words"),
        (
            "{file}:number",
            r"number\(\) of good_model.py returned int; expected an Adapter or a torch.nn.Module",
        ),
        ("{file}:falls", r"falls\(\) of good_model.py failed: AttributeError: .* \(line \d+\)"),
    ],
)
def test_what_is_wrong_is_said(file, where, said):
    with pytest.raises(ValueError, match=said):
        load_adapter(where.format(file=file))


def test_a_model_of_too_few_words_is_refused_in_one_line(tmp_path, capsys):
    (tmp_path / "net.py").write_text(
        "from patients import Stranger\n"
        "from nmtcheck import Sizes\n"
        "def make(): return Stranger(Sizes(source_vocab_size=20, target_vocab_size=7))\n"
    )
    assert main([f"{tmp_path}/net.py:make"]) == 2
    said = capsys.readouterr().err
    assert "make of net.py knows 7 ids, and the checks need 13" in said and said.count("\n") == 1


def test_a_missing_file_and_one_that_cannot_be_imported(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*none.py"):
        load_adapter(f"{tmp_path}/none.py:make")
    broken = {
        "a": ("import no_such_module_at_all", r"ModuleNotFoundError: .* \(line 1\)"),
        "b": ("def make(:", "SyntaxError"),
        "c": ("raise SystemExit(2)", "SystemExit"),
    }
    for name, (text, said) in broken.items():
        (tmp_path / f"{name}.py").write_text(text)
        with pytest.raises(ValueError, match=f"{name}.py cannot be imported: {said}"):
            load_adapter(f"{tmp_path / name}.py:make")


def test_a_file_finds_its_neighbours_and_is_read_anew_each_time(tmp_path):
    (tmp_path / "neighbour_of_mine.py").write_text("from nmtcheck import ours")
    file = tmp_path / "mine.py"
    for label in ("first", "second"):
        file.write_text(
            f"import dataclasses, neighbour_of_mine as n\n"
            f"def make(): return dataclasses.replace(n.ours(), name={label!r})\n"
        )
        assert load_adapter(f"{file}:make").name == label


PARTS = """
    from torch import nn
    from patients import Stranger

    class Encoder(nn.Module):
        def __init__(self, vocab_size, d_model):
            super().__init__()
            self.sizes = vocab_size, d_model

    class Decoder(Encoder): ...

    class Seq2Seq(Stranger):
        def __init__(self, encoder, rest: Decoder, gain: float, flag: bool, *, width=3):
            from nmtcheck import Sizes
            assert encoder.sizes[1] == rest.sizes[1] == 16 and flag is False
            super().__init__(Sizes(*(part.sizes[0] for part in (encoder, rest)), dropout=gain))
"""
FILES = {
    "shop/__init__.py": "",
    "shop/nets/__init__.py": "from .blocks import *",
    "shop/nets/blocks.py": "from patients import Stranger\nWORDS = open('words.txt').read()",
    "shop/nets/words.txt": "a b c",
    "shop/nets/net.py": """
        from ..nets.blocks import Stranger, WORDS
        from .blocks import *
        from nmtcheck import Sizes
        class Net(Stranger):
            def __init__(self, vocab_size, d_model, p_drop):
                super().__init__(Sizes(int(vocab_size), int(vocab_size), d_model, dropout=p_drop))
    """,
    "flat/helper.py": "from patients import Stranger",
    "flat/main.py": """
        import helper
        import torchtext_of_old
        from nmtcheck import Sizes
        class Net(helper.Stranger):
            def __init__(self, emb_dim): super().__init__(Sizes(d_model=emb_dim))
    """,
    "parts.py": PARTS,
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "where", ["shop/nets/net.py:Net", "shop.nets.net:Net", "flat/main.py:Net", "parts.py:Seq2Seq"]
)
def test_a_class_alone_is_reached_however_its_files_lie(where, tmp_path, capsys, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(text), "utf-8")
    monkeypatch.chdir(tmp_path)
    assert main([where, "--only", "inside", "--only", "masks"]) == 0, capsys.readouterr()
    assert "attention read in 6 of 6; masks measured" in capsys.readouterr().out
