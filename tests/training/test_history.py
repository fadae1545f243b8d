"""The history survives a round trip, and its curves are drawn."""

import math

import pytest

from nmtcourse.curves import draw_curves
from nmtlib.training import history as history_module
from nmtlib.training.history import EpochRecord, Progress, read_history, write_history


def history(count=4):
    records = []
    for i in range(1, count + 1):
        train = {"loss": 5 / i, "nll": 4 / i, "perplexity": math.exp(4 / i), "accuracy": i / 10}
        held = {"nll": 4.5 / i, "perplexity": math.exp(4.5 / i), "accuracy": i / 11}
        figures = {f"train_{name}": value for name, value in train.items()}
        figures |= {f"validation_{name}": value for name, value in held.items()}
        times = {"updates": 10 * i, "seconds": 1.5 * i, "tokens_per_second": 1000.0}
        records.append(EpochRecord(epoch=i, learning_rate=1e-3, **times, **figures))
    return records


def test_what_is_written_is_read_back(tmp_path):
    write_history(tmp_path / "h.csv", history())
    again = read_history(tmp_path / "h.csv")
    assert [r.epoch for r in again] == [1, 2, 3, 4] and isinstance(again[0].epoch, int)
    for written, read in zip(history(), again, strict=True):
        for name in EpochRecord.__dataclass_fields__:
            assert math.isclose(getattr(written, name), getattr(read, name), rel_tol=1e-5)


def test_the_line_for_people_names_its_figures():
    line = history()[1].line(9)
    assert "epoch   2/9" in line and "validation 9.49" in line and "1,000 tokens/s" in line


def test_curves_show_both_splits_in_three_labelled_panels(tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    seen, save = [], Figure.savefig
    spy = lambda self, *a, **k: (seen.append(self), save(self, *a, **k))  # noqa: E731
    monkeypatch.setattr(Figure, "savefig", spy)
    draw_curves(tmp_path / "curves.png", history(), title="toy")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    (figure,) = seen
    labels = ["negative log-likelihood (nats per token)", "perplexity", "token accuracy"]
    assert [axes.get_ylabel() for axes in figure.axes] == labels
    for axes, key in zip(figure.axes, ("nll", "perplexity", "accuracy"), strict=True):
        assert axes.get_xlabel() == "epoch"
        train, validation, best = axes.lines
        assert list(train.get_ydata()) == [getattr(r, f"train_{key}") for r in history()]
        assert list(validation.get_ydata()) == [getattr(r, f"validation_{key}") for r in history()]
        assert list(best.get_xdata()) == [4, 4]
    labels = {label.get_text() for label in figure.axes[1].get_yticklabels(which="both")}
    assert {"10", "20"} <= labels, "a perplexity is read without powers"


@pytest.mark.slow
def test_curves_that_cannot_be_written_leave_those_before(tmp_path, monkeypatch):
    path = tmp_path / "curves.png"
    draw_curves(path, history(2))
    before = path.read_bytes()

    def full(source, target):
        raise OSError("no space left on device")

    monkeypatch.setattr("nmtlib.files.os.replace", full)
    with pytest.raises(OSError, match="what it held before is untouched"):
        draw_curves(path, history(4))
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("threads", "cores", "busy"), [(1, 8, 6.0), (3, 8, 2.0), (4, 2, 3.0)])
def test_busy_seconds_are_those_of_a_thread_that_has_a_core(monkeypatch, threads, cores, busy):
    monkeypatch.setattr(history_module, "moment", lambda: (14.0, 11.0))
    monkeypatch.setattr(history_module.os, "cpu_count", lambda: cores)
    progress = Progress()
    assert progress.count_time((4.0, 5.0), threads) == (14.0, 11.0)
    assert (progress.seconds, progress.epoch_seconds, progress.busy_seconds) == (10.0, 10.0, busy)
