"""Time and memory of one training step against length, batch size and depth: measured, and
predicted from the sizes.

python benchmarks/scaling.py [--rounds 9] [--threads 2] [--output FILE] [--figure FILE] [--quick]

Memory is predicted by `nmtlib.teaching.cost.training_memory`, without any constant that was
measured.  For the time, four constants are fitted to every second point, the seconds of an
operation of a matrix product (`training_flops`), of an attention weight, of a parameter (Adam) and
of the start of a step; the points between them, which are held out, tell how good the prediction
is.  Steps of all points are interleaved and the median counts, so that a change of the machine's
speed meets all of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from timing import make_step, seconds  # before torch, as it imports nmtlib first

# isort: split
import torch

from nmtlib.data.batching import Batch
from nmtlib.machine import describe_machine
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.teaching.cost import TrainingMemory, peak_memory, training_flops, training_memory

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
    """One size of a step: a batch of `sentences`, `length` tokens on each side, and the depth of
    the model.
    """

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
        # Each pair of layers has three attentions: two on themselves and one of the decoder on the
        # encoder.
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
    sentences = (
        {"sentences": 16} if name == "length" else {}
    )  # long sentences come in small batches
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
    """The constants that make the mean square of the *relative* errors smallest, none of them below
    zero.
    """
    rows = torch.tensor([p.terms() for p in points], dtype=torch.float64)
    rows = (
        rows / torch.tensor(times, dtype=torch.float64)[:, None]
    )  # predicted / measured, which should be 1
    scale = rows.mean(dim=0)
    used = list(range(rows.size(1)))
    while True:
        found = torch.linalg.lstsq(
            rows[:, used] / scale[used], torch.ones(len(rows), 1).double()
        ).solution[:, 0]
        if found.min() >= 0:
            break
        used.pop(
            int(found.argmin())
        )  # a cost below zero means that the others explain more than there is
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
        constants = list(found[precision]["seconds"].values())
        for column, name in enumerate(SWEEPS):
            points = found[precision]["points"][name]
            values = range(points[0][name], points[-1][name] + 1)
            curve = [replace(sweep(name, precision)[0], **{name: value}) for value in values]
            time, memory = panels[0, column], panels[1, column]
            time.plot(
                values,
                [predict(constants, p) for p in curve],
                color=color,
                label=f"{precision}, predicted",
            )
            memory.plot(values, [p.memory().peak / 2**20 for p in curve], color=color)
            for fitted, face in ((True, color), (False, "white")):
                some = [p for p in points if p["fitted"] == fitted]
                style = {
                    "color": color,
                    "markerfacecolor": face,
                    "marker": "o",
                    "markersize": 5,
                    "linestyle": "none",
                }
                kind = "measured, used to fit the time" if fitted else "measured, held out"
                time.plot(
                    [p[name] for p in some],
                    [p["seconds"] for p in some],
                    **style,
                    label=f"{precision}, {kind}",
                )
                memory.plot(
                    [p[name] for p in some], [p["peak_bytes"] / 2**20 for p in some], **style
                )
            time.set(ylabel="seconds a step", ylim=(0, None))
            memory.set(xlabel=LABELS[name], ylabel="peak memory (MiB)", ylim=(0, None))
    for axes in figure.axes:
        axes.grid(alpha=0.3)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle("One training step on a CPU")
    figure.savefig(path, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9, help="timed steps of each point")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument(
        "--quick", action="store_true", help="small steps only, to see that it works"
    )
    parser.add_argument(
        "--output", type=Path, default=ROOT / "benchmarks" / "results" / "scaling.json"
    )
    parser.add_argument("--figure", type=Path, default=ROOT / "figures" / "scaling.png")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    points = list(
        dict.fromkeys(
            p for precision in PRECISIONS for name in SWEEPS for p in sweep(name, precision)
        )
    )
    if options.quick:
        points = [p for p in points if p.length * p.sentences * p.layers < 1800]
    result = {
        "command": f"python benchmarks/scaling.py --rounds {options.rounds} --threads {options.threads}"
        f"{' --quick' if options.quick else ''}",
        **report(measure_all(points, options.rounds)),
        "machine": describe_machine(),
    }
    options.output.write_text(json.dumps(result, indent=2) + "\n")
    draw(options.figure, result)
    summary = {
        precision: {k: v for k, v in result[precision].items() if k != "points"}
        for precision in PRECISIONS
    }
    print(json.dumps(summary, indent=2))


if __name__ == "__main__":
    main()
