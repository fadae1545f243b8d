"""The explorer's program in node, and small runs to explore."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from limits import NO_PROGRESS
from runs_on_disk import write_run

from nmtcourse.explorer import packing
from nmtlib.data.codec import Codec, Vocab
from nmtlib.data.tokenizers import WhitespaceTokenizer
from nmtlib.model.transformer import Transformer
from nmtlib.run import Run
from nmtlib.settings import Settings
from nmtlib.specials import EOS, SPECIALS, UNK

NODE = shutil.which("node")
WEB = Path(packing.__file__).with_name("web")
WORDS = Codec(WhitespaceTokenizer(), Vocab([*SPECIALS, *"abcdefghijklmnopqrstuvwxyz"]))


def node_is_new_enough() -> bool:
    """Since version 18 it has what unpacks the weights in a browser."""
    if NODE is None:
        return False
    said = subprocess.run([NODE, "--version"], capture_output=True, text=True).stdout  # v20.1.0
    return int(said.removeprefix("v").split(".")[0]) >= 18


class Engine:
    """The program of `web/` in node, with the model of one payload; `change` plants a bug."""

    def __init__(self, folder: Path, payload: Path | None = None, change: tuple = ()):
        self.payload, self.web = payload, folder / "engine"
        shutil.copytree(WEB, self.web)
        # Older versions of node take a .js file for an ES module only where this says so.
        (self.web / "package.json").write_text('{"type": "module"}', "utf-8")
        for name, old, new in [change] if change else []:
            text = (self.web / name).read_text("utf-8")
            assert text.count(old) == 1, f"{name} holds {text.count(old)} times {old!r}"
            (self.web / name).write_text(text.replace(old, new), "utf-8")

    def run(self, *jobs: dict) -> list:
        """What the engine answers to some jobs; see engine.mjs."""
        command = [str(NODE), str(Path(__file__).with_name("engine.mjs")), str(self.web)]
        asked = json.dumps({"payload": self.payload and str(self.payload), "jobs": jobs})
        done = subprocess.run(command, input=asked.encode(), capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout)


@pytest.fixture(scope="session")
def engine_of(tmp_path_factory) -> Callable[..., Engine]:
    """Makes the engine of a run; without one, an engine that knows no model."""
    if not node_is_new_enough():
        pytest.skip("needs node 18 or newer (https://nodejs.org)")

    payloads: dict[Path, Path] = {}

    def make(run: Run | None = None, change: tuple = ()) -> Engine:
        folder = tmp_path_factory.mktemp("engine")
        if run is None:
            return Engine(folder, None, change)
        if run.folder not in payloads:  # packed once: a bug is planted in the program, not in it
            payloads[run.folder] = folder / "payload.json"
            packed = json.dumps(packing.pack(run, run.folder.name))
            payloads[run.folder].write_text(packed, "utf-8")
        return Engine(folder, payloads[run.folder], change)

    return make


@pytest.fixture(scope="session")
def small_run(tmp_path_factory) -> Callable[..., Run]:
    """Makes a run whose model is untrained, but of numbers large enough to have opinions."""

    def make(source: Codec = WORDS, target: Codec = WORDS, **model: object) -> Run:
        sizes = {"d_model": 16, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 2}
        sections = {"model": {**sizes, "d_ff": 24, "max_length": 40, **model}}
        joint = {"joint": model.get("tied") == "all"}
        settings = Settings().changed({**sections, "tokenizer": joint})
        settings = settings.with_vocabularies(len(source.vocab), len(target.vocab))
        torch.manual_seed(0)
        network = Transformer(settings.model)
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.3)
            network.output.bias[[EOS, UNK]] += torch.tensor([3.0, 2.0])
        folder = tmp_path_factory.mktemp("runs") / "run"
        return write_run(folder, network, settings, source, target)

    return make


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens pages, ready, which must leave no error and ask nobody for anything."""
    troubles: list[str] = []
    pages = []

    def open_(file: Path, state: str = "", **options: Any) -> Any:
        page = browser.new_page(locale="en-GB", **options)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("console", lambda message: troubles.append(message.text))
        page.on("dialog", lambda dialog: (troubles.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda r: r.url.startswith("file:") or troubles.append(r.url))
        page.goto(f"{file.as_uri()}#{state}")
        page.wait_for_selector("html[data-ready]", timeout=1000 * NO_PROGRESS)
        pages.append(page)
        return page

    yield open_
    for page in pages:
        page.close()
    assert not troubles
