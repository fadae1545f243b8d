"""Take a trained run elsewhere, with the same weights: plain safetensors, Hugging Face,
CTranslate2, ONNX.

Each format is one function that fills an empty folder; `export` adds what all of them share: the
tokenizers with their vocabularies, and a README.md whose code loads the model and translates.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn import functional as F

from nmtcourse.outputs import NEW_FOLDER
from nmtcourse.recipes.ctranslate2 import to_ctranslate2
from nmtcourse.recipes.export_readme import readme
from nmtcourse.recipes.hugging_face import to_hugging_face
from nmtcourse.recipes.optional import need
from nmtlib.data.tokenizers import BPETokenizer
from nmtlib.errors import require_one_of
from nmtlib.files import new_folder, write_atomically
from nmtlib.inference.translator import Translator
from nmtlib.model.choices import require_expressible
from nmtlib.model.embeddings import TokenEmbedding
from nmtlib.run import find_run
from nmtlib.specials import UNK

# Those of CTranslate2.
QUANTIZATIONS = ("int8", "int8_float32", "int16", "float16", "bfloat16", "float32")


def export(
    run: str | Path, to: str, out: str | Path | None = None, *, quantization: str | None = None
) -> Path:
    """Write the model of a run in the format `to`, one of `FORMATS`, into a new folder.

    That is `out`, or a folder in the run named after the format, of a shipped model NAME-FORMAT
    where the program runs; it is returned.  `quantization` is for CTranslate2 alone.  Raises
    FileExistsError for a folder that is not empty, ModuleNotFoundError where the package of the
    format is not installed, ValueError for another format or a model that the format cannot
    express, OSError naming the folder where the disk is full.
    """
    require_one_of("format", FORMATS, to)
    if quantization is not None and (to != "ctranslate2" or quantization not in QUANTIZATIONS):
        raise ValueError(
            f"quantization {quantization!r} is not for {to}: ctranslate2 alone knows "
            f"{', '.join(QUANTIZATIONS)}"
        )
    source = find_run(run)
    folder = source.folder
    if out is None:
        out = Path(f"{folder.resolve().name}-{to}") if source.ships else folder / to
    out = Path(out)
    NEW_FOLDER.prepare(out)
    translator = Translator.load(run, device="cpu")
    require_expressible(translator.model.config, to)
    with new_folder(out) as part:
        options = {"quantization": quantization} if quantization else {}
        FORMATS[to](translator, part, **options)
        write_codecs(translator, part)
        write_atomically(part / "README.md", readme(to, translator.model))
    return out


def write_codecs(translator: Translator, folder: Path) -> None:
    """Both codecs; of BPE also the file that the `tokenizers` library reads without nmtlib."""
    for side, codec in (("source", translator.source), ("target", translator.target)):
        write_atomically(folder / f"{side}.json", codec.to_json())
        if isinstance(codec.tokenizer, BPETokenizer):
            write_atomically(folder / f"{side}-tokenizer.json", codec.tokenizer.model)


def to_safetensors(translator: Translator, folder: Path) -> None:
    """model.safetensors, with the names of the model's parameters, and config.json."""
    model = translator.model
    weights = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    config = json.dumps(asdict(model.config), indent=2)
    header = {"format": "pt", "config": config}
    write_atomically(folder / "model.safetensors", save(weights, metadata=header))
    write_atomically(folder / "config.json", config + "\n")


def to_onnx(translator: Translator, folder: Path) -> None:
    """model.onnx: source ids (B, S) and target ids (B, T), both int64, -> logits (B, T, V); B, S
    and T are free.
    """
    need("onnx")
    need("onnxscript")
    model = copy.deepcopy(translator.model)
    model.source_embedding = ScaledLookup(model.source_embedding)
    model.target_embedding = ScaledLookup(model.target_embedding)
    batch, longest = torch.export.Dim("batch"), model.config.max_length
    shapes = (
        {0: batch, 1: torch.export.Dim("source_length", max=longest)},
        {0: batch, 1: torch.export.Dim("target_length", max=longest)},
    )
    source, target = torch.full((2, 5), UNK), torch.full((2, 3), UNK)
    with torch.no_grad():
        program = torch.onnx.export(
            model,
            (source, target),
            dynamo=True,
            dynamic_shapes=shapes,
            verbose=False,
            input_names=["source", "target"],
            output_names=["logits"],
        )
    write_atomically(folder / "model.onnx", program.model_proto.SerializeToString())


class ScaledLookup(nn.Module):
    """A `TokenEmbedding` without its check of the ids, which no graph for any ids could make."""

    def __init__(self, embedding: TokenEmbedding):
        super().__init__()
        self.weight, self.scale = embedding.weight, embedding.scale

    def forward(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self.weight) * self.scale  # (B, S, D)


FORMATS: dict[str, Callable[..., None]] = {
    "safetensors": to_safetensors,
    "marian": partial(to_hugging_face, family="marian", architecture="MarianMTModel"),
    "pegasus": partial(
        to_hugging_face, family="pegasus", architecture="PegasusForConditionalGeneration"
    ),
    "ctranslate2": to_ctranslate2,
    "onnx": to_onnx,
}
