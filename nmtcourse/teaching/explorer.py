"""Attention to look at, and what a slider moves: static in every notebook, alive where it runs."""

from __future__ import annotations

import html
import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nmtcourse.teaching.language import language_here, say
from nmtcourse.teaching.show import ROOT, Shown, kernel_with_widgets
from nmtlib.data.batching import collate
from nmtlib.errors import require, require_one_of
from nmtlib.inference.translator import Translator
from nmtlib.model.attention import record_attention
from nmtlib.specials import BOS, SPECIALS

KINDS = {
    "cross": "cross-attention",
    "encoder-self": "encoder self-attention",
    "decoder-self": "decoder self-attention",
}
DARK = (8, 81, 156)  # the colour of weight 1; weight 0 is white
SHOWN_FROM = 0.05  # smaller weights have no number, so that the large ones can be found
# Attention is full of 1/8: rounded as it is, the noise of another machine makes 0.12 of 0.13.
OFF_TIES = 1e-4
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


def attention_table(
    weights: Tensor, target_words: Sequence[str], source_words: Sequence[str], *, title: str = ""
) -> Shown:
    """Weights (T, S) as a table: a row for each target word, darker where it looks.

    The largest number of a row is bold.  The colours stand in each cell, so they need no trust and
    no script; where a site drops them (GitHub does), the numbers stay.  Pointing at a cell names
    its words and weight.  Raises ValueError where words and shape differ.
    """
    weights = torch.as_tensor(weights)
    words, shape = (len(target_words), len(source_words)), tuple(weights.shape)
    require(shape == words, "weights", f"(target words, source words) = {words}", shape)
    values = [[round(weight + OFF_TIES, 2) for weight in row] for row in weights.tolist()]
    rows = zip(target_words, values, strict=True)
    body = "".join(_html_row(word, row, source_words) for word, row in rows)
    head = '<th style="text-align:center">{}</th>'
    heads = "".join(head.format(html.escape(word)) for word in source_words)
    caption = f"<caption>{html.escape(title)}</caption>" if title else ""
    table = f"<table>{caption}<tr><th></th>{heads}</tr>{body}</table>"
    return Shown(table, _plain_table(values, target_words, source_words, title), kind="text/html")


def _html_row(word: str, row: Sequence[float], source_words: Sequence[str]) -> str:
    """One target word and what it looks at."""
    cells = ""
    for source, weight in zip(source_words, row, strict=True):
        colour = "#" + "".join(f"{round(255 + (dark - 255) * weight):02x}" for dark in DARK)
        ink = "white" if weight > 0.5 else "black"
        style = f"background-color:{colour};color:{ink};text-align:center"
        tooltip = f"{html.escape(word)} looks at {html.escape(source)}: {weight:.2f}"
        number = f"{weight:.2f}" if weight >= SHOWN_FROM else ""
        number = f"<b>{number}</b>" if number and weight == max(row) else number
        cells += f'<td style="{style}" title="{tooltip}">{number}</td>'
    return f'<tr><th style="text-align:right">{html.escape(word)}</th>{cells}</tr>'


def _plain_table(
    values: list[list[float]], target_words: Sequence[str], source_words: Sequence[str], title: str
) -> str:
    """The same table for a terminal: each target word and what it looks at, the most first."""
    lines = [title] if title else []
    for word, row in zip(target_words, values, strict=True):
        order = sorted(range(len(row)), key=lambda i: -row[i])
        looks = ", ".join(f"{source_words[i]} {row[i]:.2f}" for i in order if row[i] >= SHOWN_FROM)
        lines.append(f"{word}: {looks}")
    return "\n".join(lines)


def show_explorer() -> Shown:
    """The page that `nmtlib explore` writes, in a frame; no server and no network is needed.

    In a clone it is that of figures/; elsewhere it is written next to the notebook.
    """
    from nmtcourse.explorer.page import explore

    folder = ROOT / "figures"
    if not (folder / "explorer.html").is_file():
        folder = explore("cmn-en-zh", "explorer.html").resolve().parent
    place = Path(os.path.relpath(folder)).as_posix()
    page = PAGE.format(folder=place, language=language_here(), alt=say(PICTURE))
    return Shown(page, f"{place}/explorer.html", kind="text/html")


def explore_attention(
    translator: Translator, sentence: str, *, kind: str = "cross", layer: int = -1
) -> None:
    """Show one attention of a sentence, averaged over heads; where widgets run, with controls.

    `kind` is one of `KINDS`; layers and heads count from 0, layer -1 is the last.  Raises
    ValueError for a kind or layer that the model does not have.
    """
    from IPython.display import display

    maps = attention_maps(translator, sentence)
    require_one_of("kind", KINDS, kind)
    layers = len(maps.maps[kind])
    require(-layers <= layer < layers, "layer", f"{-layers} to {layers - 1}", layer)
    layer %= layers
    first, controls = _view(maps, kind, layer, None), None
    if kernel_with_widgets():
        controls = _explorer(translator, sentence, kind, layer, maps)
    hint = f"{RUN_IT}choose sentence, kind, layer and head."
    text, plain = f"{first.text}<p><i>{hint}</i></p>", f"{first.plain}\n{hint}"
    display(Shown(text, plain, controls, kind="text/html"))


def _view(maps: AttentionMaps, kind: str, layer: int, head: int | None) -> Shown:
    """The table of one head, or of the mean of all for None."""
    weights = maps.maps[kind][layer]  # (H, T, S)
    which = f"head {head}" if head is not None else f"mean of {len(weights)} heads"
    weights = weights.mean(dim=0) if head is None else weights[head]
    title = f"{KINDS[kind]}, layer {layer}, {which}"
    return attention_table(weights, maps.rows[kind], maps.columns[kind], title=title)


def _explorer(
    translator: Translator, sentence: str, kind: str, layer: int, maps: AttentionMaps
) -> Any:
    """The controls of `explore_attention` above their table."""
    import ipywidgets

    last = {kind: len(layers) - 1 for kind, layers in maps.maps.items()}
    wide, narrow = {"width": "95%"}, {"button_width": "auto"}
    names = [(name, key) for key, name in KINDS.items()]
    numbers = range(translator.model.config.n_heads)
    heads = [("mean of all", None), *((str(number), number) for number in numbers)]
    text = ipywidgets.Text(sentence, description="sentence", continuous_update=False, layout=wide)
    kinds = ipywidgets.Dropdown(options=names, value=kind, description="kind")
    which = ipywidgets.IntSlider(layer, 0, last[kind], description="layer")
    head = ipywidgets.ToggleButtons(options=heads, description="head", style=narrow)
    table = ipywidgets.HTML(_view(maps, kind, layer, None).text)

    def redraw(change: dict[str, Any]) -> None:
        which.max = last[kinds.value]
        try:
            maps = attention_maps(translator, text.value)
            table.value = _view(maps, kinds.value, which.value, head.value).text
        except ValueError as error:
            table.value = html.escape(str(error))

    for control in (text, kinds, which, head):
        control.observe(redraw, names="value")
    return ipywidgets.VBox([text, ipywidgets.HBox([kinds, which]), head, table])


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
    hint = f"{RUN_IT}move: {', '.join(ranges)}."
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
