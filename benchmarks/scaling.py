"""Time and memory of a training step against length, batch size and depth: measured, predicted.

    python benchmarks/scaling.py [--rounds 9] [--threads 2] [--output FILE] [--quick]

Memory is predicted by `nmtcourse.teaching.cost.training_memory`, without any constant that was
measured.  For the time, four constants are fitted to every second point, the seconds of an
operation of a matrix product (`training_flops`), of an attention weight, of a parameter (Adam) and
of the start of a step; the points between them, which are held out, tell how good the prediction
is.  Steps of all points are interleaved and the median counts, so that a change of the machine's
speed meets all of them.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shared import timing_parser, write_result  # before torch, as it imports nmtlib first
from timing import make_step, seconds

# isort: split
import torch

from nmtcourse.teaching.cost import TrainingMemory, peak_memory, training_flops, training_memory
from nmtlib.data.batching import Batch
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.training.hardware import describe_machine

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROOT = Path(__file__).parents[1]
CONFIG = TransformerConfig(
    6000,
    6000,
    d_model=256,
    n_heads=4,
    n_encoder_layers=3,
    n_decoder_layers=3,
    d_ff=1024,
    norm="pre",
)
SWEEPS = {
    "length": [8, 12, 16, 24, 32, 48, 64, 96, 128],
    "sentences": [4, 8, 16, 24, 32, 48, 64, 96],
    "layers": [1, 2, 3, 4, 5, 6],
}
LABELS = {
    "length": "length of source and target (tokens)",
    "sentences": "sentences in the batch",
    "layers": "encoder layers, and as many in the decoder",
}
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Point:
    """One size of a step: `sentences` of `length` tokens on each side, and the model's depth."""

    length: int = 24
    sentences: int = 32
    layers: int = 3
    precision: str = "float32"

    @property
    def config(self) -> TransformerConfig:
        return replace(CONFIG, n_encoder_layers=self.layers, n_decoder_layers=self.layers)

    def terms(self) -> list[float]:
        """What the four constants are multiplied with."""
        operations = training_flops(self.config, self.sentences, self.length, self.length)
        # A pair of layers has three attentions: two on themselves, one of decoder on encoder.
        weights = 3 * self.layers * self.sentences * CONFIG.n_heads * self.length**2
        return [1.0, operations, weights, self.memory().weights / 4]

    def memory(self) -> TrainingMemory:
        sizes = self.sentences, self.length, self.length
        return training_memory(self.config, *sizes, precision=PRECISIONS[self.precision])

    def batch(self) -> Batch:
        ids = torch.randint(4, CONFIG.source_vocab_size, (2, self.sentences, self.length + 1))
        return Batch(ids[0, :, 1:], ids[1])


def sweep(name: str, precision: str) -> list[Point]:
    """The points along one axis."""
    # Long sentences come in small batches.
    sentences = {"sentences": 16} if name == "length" else {}
    return [Point(precision=precision, **sentences | {name: value}) for value in SWEEPS[name]]


def measure_all(points: list[Point], rounds: int) -> dict[Point, tuple[float, int]]:
    """Median seconds and the peak in bytes of a step at each point."""
    torch.manual_seed(0)
    models = {p.layers: Transformer(p.config) for p in points}
    steps = {
        (p.layers, p.precision): make_step(models[p.layers], PRECISIONS[p.precision])
        for p in points
    }
    batches = {p: p.batch() for p in points}
    cpu = torch.device("cpu")
    peaks = {}
    for p in points:
        step = steps[p.layers, p.precision]
        step(batches[p])  # makes Adam's moments, which stay
        lasting = 3 * sum(w.nbytes for w in models[p.layers].parameters())
        peaks[p] = lasting + peak_memory(lambda step=step, p=p: step(batches[p]), cpu)
    times: dict[Point, list[float]] = {p: [] for p in points}
    for _ in range(rounds):
        for p in points:
            times[p].append(seconds(lambda p=p: steps[p.layers, p.precision](batches[p])))
    return {p: (statistics.median(times[p]), peaks[p]) for p in points}


def fit(points: list[Point], times: list[float]) -> list[float]:
    """The constants, none below zero, with the smallest mean square of the *relative* errors."""
    rows = torch.tensor([p.terms() for p in points], dtype=torch.float64)
    # Predicted / measured, which should be 1.
    rows = rows / torch.tensor(times, dtype=torch.float64)[:, None]
    scale = rows.mean(dim=0)
    used = list(range(rows.size(1)))
    while True:
        ones = torch.ones(len(rows), 1).double()
        found = torch.linalg.lstsq(rows[:, used] / scale[used], ones).solution[:, 0]
        if found.min() >= 0:
            break
        # A cost below zero means that the others explain more than there is.
        used.pop(int(found.argmin()))
    constants = torch.zeros(rows.size(1), dtype=torch.float64)
    constants[used] = found / scale[used]
    return constants.tolist()


def predict(constants: list[float], point: Point) -> float:
    """Seconds of a step."""
    return sum(c * t for c, t in zip(constants, point.terms(), strict=True))


def errors(ratios: list[float]) -> dict[str, float]:
    """Median and largest distance of predicted / measured from 1."""
    distances = [abs(r - 1) for r in ratios]
    return {"median": round(statistics.median(distances), 4), "largest": round(max(distances), 4)}


def report(measured: dict[Point, tuple[float, int]]) -> dict[str, Any]:
    """Constants, errors and all points of each precision."""
    result = {}
    for precision in PRECISIONS:
        axes = {name: [p for p in sweep(name, precision) if p in measured] for name in SWEEPS}
        fitted = {p for points in axes.values() for p in points[::2]}
        constants = fit(list(fitted), [measured[p][0] for p in fitted])
        held_out = {p for points in axes.values() for p in points} - fitted
        start, operation, weight, parameter = (float(f"{c:.4g}") for c in constants)
        result[precision] = {
            "seconds": {
                "start": start,
                "an_operation": operation,
                "an_attention_weight": weight,
                "a_parameter": parameter,
            },
            "time_error_fitted": errors([predict(constants, p) / measured[p][0] for p in fitted]),
            "time_error_held_out": errors(
                [predict(constants, p) / measured[p][0] for p in held_out]
            ),
            "memory_error": errors([p.memory().peak / measured[p][1] for p in fitted | held_out]),
            "points": {
                name: [
                    {
                        "length": p.length,
                        "sentences": p.sentences,
                        "layers": p.layers,
                        "fitted": p in fitted,
                        "seconds": round(measured[p][0], 5),
                        "predicted_seconds": round(predict(constants, p), 5),
                        "peak_bytes": measured[p][1],
                        "predicted_peak_bytes": p.memory().peak,
                    }
                    for p in points
                ]
                for name, points in axes.items()
            },
        }
    return result


def draw(path: Path, found: dict[str, Any]) -> None:
    """Measured points and predicted curves: time above, memory below, one column for each axis."""
    from matplotlib.figure import Figure  # not pyplot: no window system, no global state

    figure = Figure(figsize=(12, 6.6), layout="constrained")
    panels = figure.subplots(2, len(SWEEPS))
    for precision, color in (("float32", "#0072B2"), ("bfloat16", "#D55E00")):
        for column, name in enumerate(SWEEPS):
            time, memory = panels[:, column]
            draw_one(time, memory, found[precision], precision, name, color)
            time.set(ylabel="seconds a step", ylim=(0, None))
            memory.set(xlabel=LABELS[name], ylabel="peak memory (MiB)", ylim=(0, None))
    for axes in figure.axes:
        axes.grid(alpha=0.3)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle("One training step on a CPU")
    figure.savefig(path, dpi=100)


def draw_one(
    time: Axes, memory: Axes, found: dict[str, Any], precision: str, name: str, color: str
) -> None:
    """The curves and points of one precision along one axis."""
    constants, points = list(found["seconds"].values()), found["points"][name]
    values = range(points[0][name], points[-1][name] + 1)
    curve = [replace(sweep(name, precision)[0], **{name: value}) for value in values]
    predicted = [predict(constants, p) for p in curve]
    time.plot(values, predicted, color=color, label=f"{precision}, predicted")
    memory.plot(values, [p.memory().peak / 2**20 for p in curve], color=color)
    kinds = {
        True: ("measured, used to fit the time", color),
        False: ("measured, held out", "white"),
    }
    for fitted, (kind, face) in kinds.items():
        some = [p for p in points if p["fitted"] == fitted]
        places = [p[name] for p in some]
        style = {"color": color, "markerfacecolor": face, "markersize": 5}
        label = f"{precision}, {kind}"
        time.plot(places, [p["seconds"] for p in some], "o", **style, label=label)
        memory.plot(places, [p["peak_bytes"] / 2**20 for p in some], "o", **style)


def main() -> None:
    parser = timing_parser(__doc__, "scaling")
    add = parser.add_argument
    add("--rounds", type=int, default=9, help="timed steps of each point")
    add("--quick", action="store_true", help="small steps only, to see that it works")
    add("--figure", type=Path, default=ROOT / "figures" / "scaling.png")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    every = (p for precision in PRECISIONS for name in SWEEPS for p in sweep(name, precision))
    points = list(dict.fromkeys(every))
    if options.quick:
        points = [p for p in points if p.length * p.sentences * p.layers < 1800]
    given = f"--rounds {options.rounds} --threads {options.threads}"
    result = {
        "command": f"python benchmarks/scaling.py {given}{' --quick' if options.quick else ''}",
        **report(measure_all(points, options.rounds)),
        "machine": describe_machine(),
    }
    write_result(options.output, result)
    draw(options.figure, result)
    summary = {
        precision: {k: v for k, v in result[precision].items() if k != "points"}
        for precision in PRECISIONS
    }
    print(json.dumps(summary, indent=2))


if __name__ == "__main__":
    main()
