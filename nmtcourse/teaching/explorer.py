"""Attention to look at, and what a slider moves: static in every notebook, alive where it runs."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nmtcourse.teaching.language import chosen_language, say
from nmtcourse.teaching.show import ROOT, Shown, kernel_with_widgets
from nmtlib.data.batching import collate
from nmtlib.inference.translator import Translator
from nmtlib.model.attention import record_attention
from nmtlib.specials import BOS, SPECIALS

RUN_IT = "In JupyterLab, run this cell to "
# An untrusted notebook loses the style and the frame, and shows the picture.
PAGE = """<style>.explorer img {{ display: none }}</style><div class="explorer">
<iframe src="{folder}/explorer.html#lang={language}" title="NMT Explorer"
style="width: 100%; height: 720px; border: 1px solid #adadad"></iframe>
<img src="{folder}/explorer.png" alt="{alt}" width="700"></div>"""
PICTURE = "The explorer: a sentence, its translation, and lines of attention between their words"


@dataclass(frozen=True)
class AttentionMaps:
    """Every weight of one sentence and its translation.

    `maps[kind][layer]` is a tensor (H, T, S); `rows[kind]` and `columns[kind]` name its T queries
    and S keys. A row of the decoder is named after the word that is said there, a column after the
    word that is read.
    """

    maps: dict[str, list[Tensor]]
    rows: dict[str, list[str]]
    columns: dict[str, list[str]]


def attention_maps(
    translator: Translator, sentence: str, translation: str | None = None
) -> AttentionMaps:
    """What each head looks at while the model reads a sentence and says its translation.

    `translation` is the model's own unless given.  Raises ValueError for an empty sentence.
    """
    if not sentence.strip():
        raise ValueError("an empty sentence has no words to attend to; give a sentence")
    if translation is None:
        translation = translator.translate([sentence])[0]
    device = next(translator.model.parameters()).device
    batch = collate([translator.example(sentence, translation)]).to(device)
    with torch.no_grad(), record_attention(translator.model) as recorded:
        translator.model(batch.source, batch.decoder_input)
    source = translator.source.vocab.decode(batch.source[0].tolist())
    generated = translator.target.vocab.decode(batch.labels[0].tolist())
    read = [SPECIALS[BOS], *generated[:-1]]
    encoder, decoder = translator.model.encoder, translator.model.decoder
    names = {
        "cross": [f"decoder.{n}.cross_attention" for n in range(len(decoder))],
        "encoder-self": [f"encoder.{n}.self_attention" for n in range(len(encoder))],
        "decoder-self": [f"decoder.{n}.self_attention" for n in range(len(decoder))],
    }
    # (H, T, S) each
    maps = {kind: [recorded[name][0][0].cpu() for name in layers] for kind, layers in names.items()}
    rows = {"cross": generated, "encoder-self": source, "decoder-self": generated}
    columns = {"cross": source, "encoder-self": source, "decoder-self": read}
    return AttentionMaps(maps, rows, columns)


def show_explorer() -> Shown:
    """The page that `nmtlib explore` writes, in a frame; no server and no network is needed.

    In a clone it is that of figures/; elsewhere it is written next to the notebook.
    """
    from nmtcourse.explorer.page import explore

    folder = ROOT / "figures"
    if not (folder / "explorer.html").is_file():
        folder = explore("cmn-en-zh", "explorer.html").resolve().parent
    place = Path(os.path.relpath(folder)).as_posix()
    page = PAGE.format(folder=place, language=chosen_language(), alt=say(PICTURE))
    return Shown(page, f"{place}/explorer.html", kind="text/html")


def slider(function: Callable[..., Any], **ranges: Any) -> None:
    """Show `function` at its default arguments; where widgets run, with sliders that call it again.

    `ranges` are those of `ipywidgets.interact`: (low, high), (low, high, step) or a list of choices
    for each argument.  What the function prints, plots or returns is shown; where no widgets run,
    a hint takes the place of the sliders.  Raises ValueError for an argument without a default.

    >>> def square(side=3):
    ...     print(f"{side} x {side} = {side * side}")
    >>> slider(square, side=(1, 9))
    3 x 3 = 9
    In JupyterLab, run this cell to move: side.
    """
    from IPython.display import display

    parameters = inspect.signature(function).parameters
    for name in ranges:
        if name not in parameters or parameters[name].default is inspect.Parameter.empty:
            needs = f"slider: {function.__name__} needs a default value for {name!r}"
            raise ValueError(f"{needs}, to show where nothing moves")
    _show_now(function())
    hint = say(f"{RUN_IT}move: {', '.join(ranges)}.")
    display(Shown(f"*{hint}*", hint, _sliders(function, ranges) if kernel_with_widgets() else None))


def _sliders(function: Callable[..., Any], ranges: dict[str, Any]) -> Any:
    """The sliders above what the function shows when one of them is moved."""
    import ipywidgets
    from IPython.display import clear_output

    # Manual, and without its button: run while the page is built, it would show its result twice.
    *controls, _, _ = ipywidgets.interactive(function, {"manual": True}, **ranges).children
    page = ipywidgets.Output()

    def move(change: dict[str, Any]) -> None:
        with page:
            clear_output(wait=True)
            _show_now(function(**{control.description: control.value for control in controls}))

    for control in controls:
        control.observe(move, names="value")
    return ipywidgets.VBox([*controls, page])


def _show_now(result: Any) -> None:
    """Display a result, and the figures that were drawn, here and not at the end of the cell."""
    import matplotlib.pyplot as plt
    from IPython.display import display

    if result is not None:
        display(result)
    if plt.get_fignums():
        plt.show()
