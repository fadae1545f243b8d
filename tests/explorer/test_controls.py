"""Controls reach the model's own settings, and what the page reports is what a reader can see."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import some

from nmtcourse.explorer.packing import BREAKS
from nmtlib.run import SHIPPED, find_run

MODELS = sorted(path.name for path in SHIPPED.iterdir())
SWITCHES = ("causal", "padding", "positions", "scale")


def reaches(controls, decoding):
    """Whether both sliders can stand at the setting of a model and above it."""
    beam, alpha = controls["beam"], controls["alpha"]
    width, penalty = decoding["beam"], decoding["lengthPenalty"]
    assert controls["start"]["beam"] == width and controls["start"]["alpha"] == penalty
    on_a_step = (
        controls["step"] == "any"
        or abs(penalty / controls["step"] - round(penalty / controls["step"])) < 1e-6
    )
    return beam[0] <= width <= beam[1] and alpha[0] <= penalty < alpha[1] and on_a_step


def test_the_sliders_reach_the_settings_of_every_model(engine_of):
    choices = []

    @settings(max_examples=40, derandomize=True, database=None, deadline=None)
    @given(st.integers(1, 40), st.floats(0, 10, allow_subnormal=False))
    def collect(beam, penalty):
        choices.append({"beam": beam, "lengthPenalty": round(penalty, 2)})

    collect()
    for model in MODELS:
        own = json.loads((SHIPPED / model / "settings.json").read_text("utf-8"))["decoding"]
        choices.append({"beam": own["beam"], "lengthPenalty": own["length_penalty"]})
    found = engine_of().run(*({"do": "controls", "decoding": each} for each in choices))
    refused = [c for c, f in zip(choices, found, strict=True) if not reaches(f, c)]
    assert refused == []


@pytest.mark.slow
@pytest.mark.parametrize("model", some(MODELS))
def test_each_part_that_is_taken_away_changes_what_one_reads(model, engine_of):
    engine = engine_of(find_run(model))
    jobs = [{"do": "withoutPart", "source": BREAKS[model][name], "name": name} for name in SWITCHES]
    for name, found in zip(SWITCHES, engine.run(*jobs), strict=True):
        before, after = engine.run({"do": "written", "texts": [found["before"], found["after"]]})[0]
        assert before != after and found["changes"] and found["words"] > 0, name
    sources = list(dict.fromkeys(BREAKS[model][name] for name in SWITCHES))
    (shown,) = engine.run({"do": "translated", "texts": sources})
    assert not [each for each in shown if each["doubted"]], "it breaks what was right"


def test_other_tokens_of_the_same_words_are_no_change(engine_of):
    engine = engine_of(find_run("cmn-en-zh"))
    same, other = engine.run(
        {"do": "changes", "before": "他 看玛丽 了 。", "after": "他 看 玛丽 了 。"},
        {"do": "changes", "before": "他 看玛丽 了 。", "after": "他 见 玛丽 了 。"},
    )
    assert same == [] and other == [{"was": ["看玛丽"], "is": ["见", "玛丽"], "at": 1}]


def test_tokens_that_print_alike_are_told_apart(engine_of):
    rows = (["▁玛丽", "玛丽", "▁看"], ["au@@", "au", "to@@"], ["the", "a"])
    found = engine_of().run(*({"do": "apart", "tokens": row} for row in rows))
    assert found == [["␣玛丽", "玛丽", "看"], ["au…", "au", "to"], ["the", "a"]]
