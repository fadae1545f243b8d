"""What the scripts in benchmarks/ make of their measurements, and that a stopped one goes on."""

import json
from dataclasses import replace
from pathlib import Path

import ablation
import pytest
import readme
import seeds
import shared
import tables
import tables_speed
import time_to_bleu

from nmtcourse.recipes.ensemble import Ensemble
from nmtlib.data.codec import build_codecs
from nmtlib.data.corpora import load
from nmtlib.inference.evaluate import Scores, evaluate
from nmtlib.inference.translator import Translator
from nmtlib.model.transformer import Transformer
from nmtlib.presets import load_settings
from nmtlib.settings import Settings
from nmtlib.training.checkpoint import average_checkpoints, load_model, load_weights
from nmtlib.training.history import read_history
from nmtlib.training.trainer import Trainer

ROOT = Path(__file__).parents[1]
TINY = [
    "d_model=16",
    "n_heads=1",
    "d_ff=16",
    "n_encoder_layers=1",
    "n_decoder_layers=1",
    "training.max_tokens=1024",
    "training.precision=fp32",
    "training.average=2",
]


# Time to BLEU


def points(*scores, key="bleu"):
    return [
        {"epoch": i, "seconds": 10.0 * i, key: score} for i, score in enumerate(scores, start=1)
    ]


def test_a_mark_is_reached_by_the_first_point_that_is_not_below_it():
    found = time_to_bleu.first_reached(points(20, 30, 28, 36.6, 36.6), [20, 30, 30.5, 36.52, 40])
    assert found == {"20": 10, "30": 20, "30.5": 40, "36.52": 40, "40": None}


def test_minutes_are_open_where_an_epoch_was_not_scored_so():
    averaged = {"points": points(20, 30, None, 42, key="bleu_average")}
    late = {"points": points(None, 35, 40, 42, key="bleu_average")}

    def minutes(marks, *seeds):
        return [tables_speed.minutes_to(mark, seeds, "bleu_average") for mark in marks]

    assert minutes(("20", "35", "43"), averaged) == ["0.2", "0.7", "–"]
    assert minutes(("30", "42", "43"), averaged, late) == ["≤ 0.3", "0.7", "–"]


def test_the_files_are_named_after_preset_and_device():
    options = time_to_bleu.read_options(["--preset", "my/own.toml", "--device", "cuda"])
    assert (
        options.out == Path("runs/time-to-bleu-own-cuda")
        and options.output.name == "time-to-bleu-own-cuda.json"
    )
    assert (
        time_to_bleu.read_options([]).output
        == ROOT / "benchmarks" / "results" / "time-to-bleu-multi30k-de-en.json"
    )


@pytest.fixture(scope="module")
def corpus():
    whole = load("toy-de-en")
    return replace(
        whole, train=whole.train[:300], validation=whole.validation[:20], test=whole.test[:20]
    )


def fingerprint(model):
    """A figure that tells weights apart."""
    return round(sum(float(p.detach().double().abs().sum()) for p in model.parameters()), 2)


@pytest.fixture
def fake_bleu(corpus, monkeypatch):
    """The scripts on a small corpus, with a figure of the weights for BLEU, which is 0 after so
    little training.
    """

    def score(translator, corpus, **search):
        bleu = fingerprint(translator.model) + (0 if search.get("beam") == 1 else 1000)
        return Scores(20, bleu, "signature", 0.0, 0.0, "")

    for script, reads in (("time_to_bleu", "load_corpus"), ("ablation", "load_corpus")):
        monkeypatch.setattr(f"{script}.{reads}", lambda settings: corpus)
        monkeypatch.setattr(f"{script}.score_validation", score)
    monkeypatch.setattr("nmtlib.experiment.load_corpus", lambda settings: corpus)
    monkeypatch.setattr("nmtlib.experiment.draw_curves", lambda *_, **__: None)
    monkeypatch.setattr(ablation, "SEARCHES", [(1, 1.0)])


@pytest.mark.parametrize("lowercase", [False, True])
def test_validation_is_scored_as_evaluate_scores_it(corpus, monkeypatch, lowercase):
    source, target = build_codecs(corpus, "whitespace")
    settings = Settings().with_value("tokenizer.lowercase", lowercase)
    model = Transformer(settings.with_vocabularies(len(source.vocab), len(target.vocab)).model)
    translator = Translator(model, source, target, settings)
    answers = [p.target.title() if i % 2 else p.target for i, p in enumerate(corpus.validation)]
    monkeypatch.setattr(Translator, "translate", lambda self, sentences, **search: answers)
    found = time_to_bleu.score_validation(translator, corpus, beam=1)
    assert found == evaluate(translator, corpus, "validation", beam=1)[0].scores
    assert found.bleu == pytest.approx(100) if lowercase else 5 < found.bleu < 90


def time_to_bleu_json(folder, *more):
    settings = [part for value in (*TINY, "epochs=3") for part in ("--set", value)]
    places = ["--out", str(folder / "run"), "--output", str(folder / "found.json")]
    time_to_bleu.main(
        ["--preset", "toy-de-en", "--device", "cpu", "--average", *settings, *places, *more]
    )
    return json.loads((folder / "found.json").read_text("utf-8"))


@pytest.mark.slow
def test_every_epoch_is_scored_with_its_weights_and_with_the_average_of_the_last(
    tmp_path, fake_bleu
):
    found = time_to_bleu_json(tmp_path)
    folder = tmp_path / "run"
    history = read_history(folder / "history.csv")
    assert [(p["epoch"], p["updates"]) for p in found["points"]] == [
        (r.epoch, r.updates) for r in history
    ]
    assert [p["seconds"] for p in found["points"]] == pytest.approx(
        [r.seconds for r in history], abs=0.01
    )
    assert [p["averaged_epochs"] for p in found["points"]] == [1, 2, 2]
    last = [folder / f"epoch-00{n}.safetensors" for n in (2, 3)]
    assert [p["bleu"] for p in found["points"][1:]] == [
        fingerprint(load_model(path)) for path in last
    ]
    averaged = load_model(last[0])
    load_weights(averaged, average_checkpoints(last))
    assert found["points"][2]["bleu_average"] == fingerprint(averaged) != found["points"][2]["bleu"]
    assert not any("bleu_beam" in point for point in found["points"])
    assert (
        found["seed"] == 1
        and found["machine"]["torch"]
        and found["command"].startswith("python benchmarks/")
    )
    assert Translator.load(folder).translate(["der Hund schläft ."])  # it is a run as any other


@pytest.mark.slow
def test_a_killed_measurement_goes_on_and_scores_what_it_missed(tmp_path, fake_bleu, monkeypatch):
    whole = time_to_bleu_json(tmp_path / "whole")
    add = time_to_bleu.Board.add

    def killed(self, trainer):
        if trainer.progress.epoch == 2:
            raise KeyboardInterrupt  # while it scores the second epoch
        add(self, trainer)

    monkeypatch.setattr(time_to_bleu.Board, "add", killed)
    with pytest.raises(KeyboardInterrupt):
        time_to_bleu_json(tmp_path / "killed")
    monkeypatch.setattr(time_to_bleu.Board, "add", add)
    found = time_to_bleu_json(tmp_path / "killed")
    assert [(p["epoch"], p["bleu"]) for p in found["points"]] == [
        (p["epoch"], p["bleu"]) for p in whole["points"]
    ]
    with pytest.raises(ValueError, match="trained with other settings; choose another --out"):
        time_to_bleu_json(tmp_path / "killed", "--seed", "2")


@pytest.mark.slow
def test_the_presets_own_search_scores_also_what_was_only_scored_greedily(tmp_path, fake_bleu):
    first, *others = time_to_bleu_json(tmp_path)["points"]
    found = time_to_bleu_json(tmp_path, "--beam")["points"]  # the weights of two epochs are kept
    assert found == [
        first,
        *(point | {"bleu_beam": round(point["bleu"] + 1000, 2)} for point in others),
    ]
    found = time_to_bleu_json(tmp_path / "at once", "--beam")["points"]
    assert [round(point["bleu_beam"] - point["bleu"], 2) for point in found] == [1000] * 3
    board = tmp_path / "run" / "time-to-bleu.json"  # of a first epoch that was never scored
    board.write_text(json.dumps(json.loads(board.read_text("utf-8")) | {"points": others}), "utf-8")
    found = time_to_bleu_json(tmp_path, "--beam")["points"]
    assert [point["epoch"] for point in found if "bleu_beam" in point] == [2, 3]


@pytest.mark.slow
def test_a_run_that_has_had_its_minutes_is_left_alone(tmp_path, fake_bleu, monkeypatch):
    found = time_to_bleu_json(tmp_path)
    monkeypatch.setattr("shared.train", lambda *_, **__: pytest.fail("trained again"))
    assert time_to_bleu_json(tmp_path, "--minutes", "1e-9") == found


def test_the_board_has_a_curve_for_each_score_of_each_result(tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    drawn, save = [], Figure.savefig
    monkeypatch.setattr(
        Figure,
        "savefig",
        lambda self, *given, **options: (drawn.append(self), save(self, *given, **options)),
    )
    averaged = [point | {"bleu_average": point["bleu"] + 1} for point in points(10, 20)]
    readme.draw_time_to_bleu(
        tmp_path / "board.png",
        {
            "cpu": [{"points": points(5, 15, 25)}, {"points": points(6)}],
            "gpu": [{"points": averaged}],
        },
    )
    *curves, key = drawn[0].axes[0].lines
    assert [
        (line.get_label(), list(line.get_xdata()), list(line.get_ydata())) for line in curves
    ] == [
        ("cpu", [10 / 60, 20 / 60, 30 / 60], [5, 15, 25]),
        ("_", [10 / 60], [6]),
        ("gpu", [10 / 60, 20 / 60], [10, 20]),
        ("_", [10 / 60, 20 / 60], [11, 21]),
    ]
    first, second, third, fourth = (curve.get_color() for curve in curves)
    assert first == second != third == fourth
    assert curves[3].get_linestyle() == key.get_linestyle() == "--" and "average" in key.get_label()
    assert (tmp_path / "board.png").stat().st_size > 1000


def test_the_board_has_one_row_for_all_seeds_and_no_time_where_one_never_got_there(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    for seed, (early, late) in enumerate([(60.0, 150.0), (90.0, 180.0), (120.0, 210.0)], start=1):
        found = {
            "command": f"torchrun --set a=1 --seed {seed}",
            "preset": "mine",
            "processes": 2,
            "preloaded": "libquick.so.4",
            "parameters": 2_160_000,
            "points": [
                {"epoch": 1, "seconds": early, "bleu": 20},
                {"epoch": 2, "seconds": late, "bleu": 30 if seed != 2 else 29, "bleu_beam": 31},
            ],
            "marks": {"20": early, "30": late if seed != 2 else None},
            "machine": {"device": "cpu"},
            "settings": {"decoding": {"beam": 7}},
        }
        (tmp_path / f"time-to-bleu-{seed}.json").write_text(json.dumps(found), "utf-8")
    assert tables_speed.board().splitlines()[2:] == [
        "| `mine a=1` | each epoch | 2.2 M | cpu, 2 processes, libquick | 3 | 1.5 | – |",
        "| `mine a=1` | each epoch, beam 7 | 2.2 M | cpu, 2 processes, libquick | 3 | "
        "≤ 3.0 | ≤ 3.0 |",
    ]


# Ablation


def test_only_switches_that_change_something_and_fit_the_baseline_are_variants():
    multi30k = ablation.variants(replace(load_settings("multi30k-de-en"), recipe={}))
    as_the_preset = {"pre-norm", "all embeddings tied", "normal embedding init"}
    assert list(multi30k) == [name for name in ablation.SWITCHES if name not in as_the_preset]
    toy = ablation.variants(load_settings("toy-de-en"))
    assert not {"all embeddings tied", "no weight tying"} & set(toy)
    for settings in (multi30k, toy):
        assert len(set(map(repr, settings.values()))) == len(settings)
    assert multi30k["R-Drop, alpha 1"].recipe["r_drop"] == 1 and multi30k["baseline"].recipe == {}


def entry(name, seed, greedy, beam5, minutes=1.0):
    scored = [(1, 1.0, greedy), (5, 0.6, beam5 - 1), (5, 1.0, beam5)]
    searches = [
        {"beam": beam, "length_penalty": penalty, "bleu": bleu} for beam, penalty, bleu in scored
    ]
    return {
        "name": name,
        "seed": seed,
        "training": {"minutes": minutes},
        "searches": searches,
        "weights": {"best epoch": greedy - 0.5},
    }


def test_gains_are_against_the_baseline_of_the_same_seeds_and_search():
    runs = [
        entry("baseline", 1, 30, 31),
        entry("baseline", 2, 32, 34),
        entry("R-Drop, alpha 1", 2, 33, 34, 2.0),
    ]
    rows = {(row["name"], row["search"]): row for row in ablation.summarize(runs)}
    base = rows["baseline", "greedy"]
    assert (base["bleu"], base["deviation"], base["seeds"], base["gain"]) == (31, 1.41, 2, None)
    drop = rows["R-Drop, alpha 1", "greedy"]
    assert (drop["bleu"], drop["deviation"], drop["gain"], drop["minutes"]) == (33, None, 1, 2)
    assert rows["R-Drop, alpha 1", "beam 5, length penalty 1"]["gain"] == 0
    assert rows["baseline: best epoch", "greedy"]["gain"] == -0.5
    assert {search for name, search in rows if name != "baseline"} == {
        "greedy",
        "beam 5, length penalty 1",
    }
    assert ("baseline", "beam 5, length penalty 0.6") in rows
    shown = ablation.table(list(rows.values()))
    assert len(shown.splitlines()) == 1 + len(rows) and "+1.00" in shown and "-0.50" in shown


def run_ablation(folder, *more):
    settings = [part for value in TINY for part in ("--set", value)]
    places = ["--out", str(folder / "runs"), "--output", str(folder / "found.json")]
    ablation.main(["--preset", "toy-de-en", "--epochs", "2", *settings, *places, *more])
    return json.loads((folder / "found.json").read_text("utf-8"))


@pytest.mark.slow
def test_finished_variants_are_kept_and_not_trained_again(tmp_path, fake_bleu, monkeypatch, capsys):
    names = ["baseline", "post-norm"]
    trained, train = [], shared.train
    monkeypatch.setattr(
        shared,
        "train",
        lambda folder, *given, **options: (
            trained.append(folder.name),
            train(folder, *given, **options),
        ),
    )
    run_ablation(tmp_path, "--only", names[0])
    found = run_ablation(tmp_path, "--only", *names)
    assert [run["name"] for run in found["runs"]] == names and len(trained) == 2
    assert found["runs"][0]["training"]["epochs"] == 2 and found["split"] == "validation"
    assert names[1] in capsys.readouterr().out
    with pytest.raises(ValueError, match="results of other settings; choose another --output"):
        run_ablation(tmp_path, "--set", "d_ff=24")


@pytest.mark.slow
def test_the_best_and_the_average_come_from_one_training(tmp_path, fake_bleu):
    (found,) = run_ablation(tmp_path, "--only", "baseline")["runs"]
    folder = tmp_path / "runs" / "baseline-seed1"
    averaged = load_model(folder / "best.safetensors")
    best = fingerprint(averaged)
    load_weights(averaged, average_checkpoints(sorted(folder.glob("epoch-*.safetensors"))))
    assert found["weights"] == {
        "best epoch": best,
        "average of the last epochs": fingerprint(averaged),
    }
    assert found["searches"][0]["bleu"] == fingerprint(load_model(folder / "model.safetensors"))


@pytest.mark.slow
def test_a_killed_variant_goes_on_where_it_stopped(tmp_path, fake_bleu, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(
            Trainer, "choose_model", lambda self: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            run_ablation(tmp_path, "--only", "baseline")
    assert not (tmp_path / "found.json").exists()
    before = read_history(tmp_path / "runs" / "baseline-seed1" / "history.csv")
    (found,) = run_ablation(tmp_path, "--only", "baseline")["runs"]
    assert read_history(tmp_path / "runs" / "baseline-seed1" / "history.csv") == before
    assert found["training"]["updates"] == before[-1].updates


# Seeds


def run_seeds(folder, *more):
    settings = [part for value in (*TINY, "epochs=1") for part in ("--set", value)]
    places = ["--out", str(folder / "runs"), "--output", str(folder / "found.json")]
    seeds.main(["toy-de-en", *settings, *places, *more])
    return json.loads((folder / "found.json").read_text("utf-8"))


@pytest.mark.slow
def test_every_seed_is_trained_once_scored_on_the_test_split_and_reported(
    tmp_path, corpus, monkeypatch, capsys
):
    def score_weights(
        translator, corpus, split, **how
    ):  # BLEU itself is 0 after so little training
        found, hypotheses = evaluate(translator, corpus, split)
        scores = replace(found.scores, bleu=fingerprint(translator.model))
        return replace(found, split=split, scores=scores), hypotheses

    trained, train = [], shared.train
    monkeypatch.setattr("nmtlib.experiment.load_corpus", lambda settings: corpus)
    monkeypatch.setattr("nmtlib.experiment.draw_curves", lambda *_, **__: None)
    monkeypatch.setattr(seeds, "load_corpus", lambda settings: corpus)
    monkeypatch.setattr(seeds, "evaluate", score_weights)
    monkeypatch.setattr("nmtcourse.recipes.neighbours.load_corpus", lambda settings: corpus)
    monkeypatch.setattr(
        shared,
        "train",
        lambda folder, *given, **options: (
            trained.append(folder.name),
            train(folder, *given, **options),
        ),
    )
    one = run_seeds(tmp_path, "--seeds", "3")
    assert one["bleu"] == {"mean": one["runs"][0]["bleu"], "deviation": None}
    assert "ensemble" not in one
    found = run_seeds(tmp_path, "--seeds", "3", "4")
    assert trained == ["3", "4"], "a seed that is there is not trained again"
    assert [(run["seed"], run["training"]["seed"]) for run in found["runs"]] == [(3, 3), (4, 4)]
    models = [load_model(tmp_path / "runs" / seed / "model.safetensors") for seed in trained]
    assert [run["bleu"] for run in found["runs"]] == [fingerprint(model) for model in models]
    assert found["bleu"]["deviation"] > 0 and "of 2 seeds" in capsys.readouterr().out
    assert found["ensemble"]["models"] == 2
    assert found["ensemble"]["bleu"] == fingerprint(Ensemble(models))
    assert "looked_up" not in found and "looked_up" not in found["ensemble"]
    scored_again = run_seeds(tmp_path, "--seeds", "3", "4", "--neighbours", "2")
    assert trained == ["3", "4"], "to score it again, a model is not trained again"
    assert scored_again["bleu"] == found["bleu"]
    looked_up = scored_again["looked_up"]
    assert (looked_up["neighbours"], looked_up["neighbour_weight"]) == (2, 0.3)
    each = [run["looked_up"]["bleu"] for run in scored_again["runs"]]
    assert looked_up["bleu"] == seeds.spread([{"bleu": bleu} for bleu in each], "bleu")
    assert scored_again["ensemble"]["looked_up"]["neighbours"] == 2
    assert "of 2 seeds with neighbours: " in capsys.readouterr().out
    with pytest.raises(ValueError, match="results of other settings; choose another --output"):
        run_seeds(tmp_path, "--set", "d_ff=24")


def test_the_spread_is_mean_and_standard_deviation_of_a_sample():
    assert seeds.spread([{"bleu": 1.0}, {"bleu": 3.0}], "bleu") == {
        "mean": 2.0,
        "deviation": pytest.approx(2**0.5),
    }


def test_rows_show_the_mean_of_the_seeds_their_ensemble_and_knn():
    found = {
        "preset": "toy-de-en",
        "runs": [{}, {}, {}],
        "settings": {"corpus": {"name": "toy-en-de"}},
        "bleu": {"mean": 40.126, "deviation": 0.5},
        "bleu_nltk": {"mean": 0.4, "deviation": 0.01},
    }
    (row,) = readme.tables_scores.seed_rows(found)
    assert row[:3] == ["`toy-de-en` on toy-en-de", "mean of 3", "–"]
    assert row[3:] == ["40.13 ± 0.50", "0.4000 ± 0.0100", "–"]
    found["settings"]["corpus"]["name"] = "toy-de-en"
    knn = {"neighbours": 4, "neighbour_weight": 0.3}
    found["looked_up"] = {**knn, "bleu": {"mean": 41.5, "deviation": 0.2}}
    found["ensemble"] = {"models": 3, "bleu": 42.0, "bleu_nltk": 0.41, "bleu_moses": 43.216}
    found["ensemble"]["looked_up"] = {**knn, "bleu": 43.0}
    name = "`toy-de-en`"
    assert readme.tables_scores.seed_rows(found)[1:] == [
        [name, "mean of 3", "4, 0.3", "41.50 ± 0.20", "–", "–"],
        [name, "ensemble of 3", "–", "42.00", "0.4100", "43.22"],
        [name, "ensemble of 3", "4, 0.3", "43.00", "–", "–"],
    ]


def test_a_finished_run_is_not_trained_again_and_a_stopped_one_goes_on(tmp_path, monkeypatch):
    run, epochs = shared.Run(tmp_path), [1, 2, 3]
    run.model_file.touch(), run.history_file.touch()
    whole, more = (Settings().with_value("epochs", number) for number in (3, 4))
    run.settings_file.write_text(more.to_json(), "utf-8")
    monkeypatch.setattr(shared, "require_same_settings", lambda *_: True)
    monkeypatch.setattr(shared, "read_history", lambda path: epochs)
    monkeypatch.setattr(shared, "train", lambda *_, **__: epochs.append(4))
    assert not shared.train_or_go_on(tmp_path, whole) and epochs == [1, 2, 3]
    assert shared.train_or_go_on(tmp_path, more) and epochs == [1, 2, 3, 4]


def test_the_way_through_the_core_can_be_read_in_an_afternoon():
    course = readme.tables_course
    way = [name for names in course.PATH.values() for name in names]
    assert len(set(way)) == len(way)
    assert sum(map(course.lines_of, way)) <= 4000
    assert course.lines_of("specials") == 4
