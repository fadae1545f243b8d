"""`nmtlib explore` writes one whole HTML file, refuses what it must, and overwrites nothing."""

import json
import re
import subprocess
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from nmtcourse import main as cli
from nmtcourse.explorer.packing import learning, pack, pack_codec
from nmtcourse.explorer.page import WEB, bundle, explore
from nmtlib.data.codec import Codec, Vocab
from nmtlib.data.corpora import load_corpus
from nmtlib.data.tokenizers import WhitespaceTokenizer
from nmtlib.files import is_stamped
from nmtlib.inference.translator import Translator
from nmtlib.run import SHIPPED, Run
from nmtlib.specials import SPECIALS


@pytest.fixture
def refused(capsys) -> Callable[..., str]:
    """Run a command that must fail; returns its one line."""

    def run(*arguments: object) -> str:
        assert cli.main([str(argument) for argument in arguments]) == 1
        error = capsys.readouterr().err
        assert error.startswith("nmtlib: ") and error.count("\n") == 1
        return error

    return run


def payload_of(page: Path) -> dict:
    element = r'<script type="application/json" id="payload">(.*?)</script>'
    (found,) = re.findall(element, page.read_text("utf-8"), re.DOTALL)
    return json.loads(found)


def test_a_page_holds_the_run_and_needs_nothing_else(small_run, tmp_path):
    run = small_run()
    page = explore(run.folder, tmp_path / "x.html", links={"other": "other.html"})
    text, data = page.read_text("utf-8"), payload_of(page)
    assert data["links"] == [{"name": "other", "href": "other.html"}]
    assert data | {"links": []} == pack(run, run.folder.name) | {"notebooks": ""}
    assert is_stamped(page) and text.startswith("<!doctype html>")
    outside = re.findall(
        r"""(?:src|href)\s*=\s*["'](?!#|data:)[^"'$]*["']|\bfetch\(|@import|url\(""", text
    )
    assert outside == [], "a page asks nobody for anything"


@pytest.mark.slow
def test_every_shipped_model_has_a_page(tmp_path):
    for run in SHIPPED.iterdir():
        page = explore(run.name, tmp_path / f"{run.name}.html")
        assert payload_of(page)["name"] == run.name


def test_the_command_writes_a_page_and_replaces_only_its_own(small_run, tmp_path, capsys, refused):
    run, page = small_run(), tmp_path / "new" / "explorer.html"
    for _ in range(2):  # the second time over the first
        assert cli.main(["explore", str(run.folder), "--out", str(page)]) == 0
        assert str(page) in capsys.readouterr().out
    first = page.read_bytes()
    assert cli.main(["explore", str(run.folder), "--out", str(page)]) == 0
    assert page.read_bytes() == first, "the same run makes the same bytes"
    capsys.readouterr()
    precious = tmp_path / "thesis.html"
    precious.write_text("<!doctype html>\n<p>my thesis</p>", "utf-8")
    assert "is not overwritten" in refused("explore", run.folder, "--out", precious)
    assert precious.read_text("utf-8").endswith("my thesis</p>")
    assert "is a folder" in refused("explore", run.folder, "--out", tmp_path)


@pytest.mark.slow
def test_what_cannot_be_a_page_is_refused(small_run, tmp_path, refused):
    out = tmp_path / "x.html"
    large = small_run(d_model=256, d_ff=2048, n_encoder_layers=2)
    line = refused("explore", large.folder, "--out", out)
    given, advised = re.search(r"about ([\d.]+) MB.*--megabytes ([\d.]+)", line).groups()
    assert "more than 6 MB" in line and float(advised) > float(given) > 6
    assert (
        explore(large.folder, out, megabytes=float(advised)).stat().st_size <= float(advised) * 1e6
    )
    out.unlink()
    assert "megabytes" in refused("explore", large.folder, "--out", out, "--megabytes", 0)
    run = small_run()
    run.model_file.write_bytes(run.model_file.read_bytes()[:-100])
    refused("explore", run.folder, "--out", out)
    assert not out.exists()


PRESET = """
[corpus]
source_language = "de"
target_language = "en"
train = ["pairs.tsv"]
validation = ["validation.tsv"]
[tokenizer]
kind = "bpe"
size = 60
lowercase = true
"""
SETTINGS = """d_model=16 n_heads=2 n_encoder_layers=1 n_decoder_layers=1 d_ff=32
model.max_length=40 norm="post" positions="learned" epochs=40 training.max_tokens=64
learning_rate=2e-2 warmup=20 average=1 precision="fp32" training.device="cpu"
"""
GERMAN = ["der Hund", "die Katze", "das Kind"], ["läuft", "schläft", "singt"], ["heute", "nie"]
ENGLISH = ["the dog", "the cat", "the child"], ["runs", "sleeps", "sings"], ["today", "never"]


@pytest.mark.slow
def test_a_run_of_ones_own_translates_in_the_page_as_it_does_here(engine_of, tmp_path):
    sides = ([f"{a} {b}, {c}!" for a, b, c in product(*side)] for side in (GERMAN, ENGLISH))
    pairs = [f"{source}\t{target}\n" for source, target in zip(*sides, strict=True)]
    (tmp_path / "pairs.tsv").write_text("".join(pairs), "utf-8")
    (tmp_path / "validation.tsv").write_text("".join(pairs * 12), "utf-8")  # enough for a hint
    (tmp_path / "own.toml").write_text(PRESET, "utf-8")
    folder = tmp_path / "run"
    options = [word for assignment in SETTINGS.split() for word in ("--set", assignment)]
    assert cli.main(["train", str(tmp_path / "own.toml"), "--out", str(folder), *options]) == 0
    sources = [pair.split("\t")[0] for pair in pairs]
    jobs = [{"do": "beam", "source": source} for source in sources]
    facts, *found = engine_of(Run(folder)).run({"do": "facts"}, *jobs)
    expected = Translator.load(folder, device="cpu").search(sources)  # weights not rounded
    assert [given["best"]["ids"] for given in found] == [best[0].ids for best in expected]
    assert len({given["best"]["text"] for given in found}) > 3, "it has learnt something"
    assert facts["rounded"] and facts["languages"] == ["de", "en"] and facts["name"] == "run"
    samples = [(one["source"].lower(), one["alignment"]) for one in facts["examples"]]
    read = {source.lower() for source in sources}
    assert samples and all(source in read and links == [] for source, links in samples)
    assert pack(Run(folder), "run")["confidence"]["trained_on"] == len(pairs)


@pytest.mark.nightly
def test_the_small_training_ends_as_well_as_its_page_says(engine_of):
    for name in ("toy-de-en", "toy-en-zh"):
        data, pairs = json.loads(learning(name)), load_corpus(name).test
        job = {"do": "learnt", "learning": data, "texts": [pair.source for pair in pairs]}
        first, last = engine_of().run(job | {"moment": 0}, job | {"moment": -1})
        targets = [pair.target for pair in pairs]
        assert sum(map(str.__eq__, last, targets)) == data["right"]
        assert data["tests"] == len(pairs) and {*targets}.isdisjoint(first)
        losses = [moment["loss"] for moment in data["moments"]]
        assert len(losses) == 6 and losses == sorted(losses, reverse=True)


def test_bundled_modules_say_what_they_said_before(engine_of, tmp_path):
    engine_of()
    script = tmp_path / "bundle.mjs"
    codec = json.dumps(pack_codec(Codec(WhitespaceTokenizer(), Vocab([*SPECIALS, "a"])), []))
    call = f"console.log(module_text.readingOf({codec}).encode('a b').ids.join());"
    script.write_text(bundle(WEB / "model.js") + call, "utf-8")
    done = subprocess.run(["node", str(script)], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("4,3\n", "")
