"""All seeds of one file of results are scored in the same ways, and all of them together."""

import json
import statistics

import pytest
import seeds
from shared import alike

from nmtlib.presets import load_settings


class Call:
    """The script with scores in place of models; `trained` and `scored` tell what each call did."""

    def __init__(self, folder):
        self.output, self.runs = folder / "found.json", folder / "runs"
        self.trained, self.scored, self.killed_at = [], [], 0

    def __call__(self, *arguments):
        self.trained.clear(), self.scored.clear()
        places = ["--out", str(self.runs), "--output", str(self.output)]
        seeds.main(["toy-de-en", *places, *map(str, arguments)])
        return self.found()

    def found(self):
        return json.loads(self.output.read_text("utf-8"))

    def train(self, folder, settings):
        self.trained.append(int(folder.name))
        folder.mkdir(parents=True, exist_ok=True)

    def score(self, folders, neighbours=None, moses=False):
        if len(folders) == self.killed_at:
            raise KeyboardInterrupt
        self.scored.append(([int(folder.name) for folder in folders], neighbours, moses))
        bleu = 10.0 * statistics.mean(int(folder.name) for folder in folders) + (neighbours or 0)
        found = {"bleu": bleu, "bleu_nltk": bleu / 100}
        if neighbours:
            found |= {"neighbours": neighbours, "neighbour_weight": 0.3}
        return found | ({"bleu_moses": bleu + 1} if moses else {})


@pytest.fixture
def call(tmp_path, monkeypatch):
    made = Call(tmp_path)
    monkeypatch.setattr(seeds, "train_or_go_on", made.train)
    monkeypatch.setattr(seeds, "scored", made.score)
    monkeypatch.setattr(seeds, "training_summary", lambda folder: {})
    return made


def neighbours_of(found):
    return [run.get("looked_up", {}).get("neighbours") for run in found["runs"]]


def test_seeds_with_other_neighbours_are_scored_again(call, capsys):
    call("--seeds", 1, "--neighbours", 4)
    found = call("--seeds", 1, 2, "--neighbours", 2)
    assert neighbours_of(found) == [2, 2] and found["looked_up"]["neighbours"] == 2
    assert found["looked_up"]["bleu"]["mean"] == 17.0
    assert found["ensemble"]["looked_up"]["neighbours"] == 2
    assert "bleu of 2 seeds with neighbours: 17" in capsys.readouterr().out
    call("--seeds", 1, 2, "--neighbours", 2)
    assert not call.scored, "all is there"


def test_a_new_seed_is_scored_in_the_ways_of_the_others(call, capsys):
    call("--seeds", 1, 2, "--neighbours", 4, "--moses")
    found = call("--seeds", 3)
    assert call.trained == [3] and neighbours_of(found) == [4, 4, 4]
    assert found["bleu_moses"]["mean"] == 21.0 and found["looked_up"]["bleu_moses"]["mean"] == 25.0
    assert found["ensemble"]["models"] == 3 and found["ensemble"]["looked_up"]["bleu_moses"] == 25.0
    assert "bleu of 3 seeds with neighbours: 24" in capsys.readouterr().out


def test_moses_tokens_asked_for_later_are_those_of_all_seeds(call):
    before = call("--seeds", 1, 2, "--neighbours", 4)
    with pytest.raises(ValueError, match="another way; give them, too.*: --seeds 2$"):
        call("--seeds", 1, 3, "--moses")
    assert call.found() == before and not call.trained, "nothing is lost"
    found = call("--seeds", 2, 3, 1, "--moses")
    assert [run["seed"] for run in found["runs"]] == [1, 2, 3]
    assert found["bleu_moses"]["mean"] == 21.0 and found["looked_up"]["bleu_moses"]["mean"] == 25.0


def test_scores_that_only_some_seeds_have_are_in_no_spread():
    runs = [{"bleu": 1.0, "looked_up": {"bleu": 2.0, "neighbours": 4, "neighbour_weight": 0.3}}]
    assert "looked_up" not in seeds.spreads([*runs, {"bleu": 3.0}])
    other = {"bleu": 3.0, "looked_up": {**runs[0]["looked_up"], "neighbours": 2}}
    assert "looked_up" not in seeds.spreads([*runs, other])
    assert seeds.spreads(runs * 2)["looked_up"]["bleu"] == {"mean": 2.0, "deviation": 0.0}


def test_all_together_are_scored_also_where_that_was_killed(call):
    call.killed_at = 2
    with pytest.raises(KeyboardInterrupt):
        call("--seeds", 1, 2)
    assert "ensemble" not in call.found()
    call.killed_at = 0
    found = call("--seeds", 1)
    assert not call.trained and call.scored == [([1, 2], None, False)]
    assert found["ensemble"]["bleu"] == 15.0 and len(found["runs"]) == 2


def test_all_together_need_the_models_of_all(call):
    call("--seeds", 1)
    (call.runs / "1").rmdir()
    assert "ensemble" not in call("--seeds", 1, 2)


def test_a_file_from_before_a_setting_is_gone_on_with_and_one_of_other_settings_refused(call):
    found = call("--seeds", 1)
    del found["settings"]["training"]["patience"], found["settings"]["recipe"]
    call.output.write_text(json.dumps(found), "utf-8")
    assert [run["seed"] for run in call("--seeds", 2)["runs"]] == [1, 2]
    with pytest.raises(ValueError, match="holds the results of other settings"):
        call("--seeds", 3, "--set", "recipe.optimizer=muon")
    assert call.trained == []


@pytest.mark.parametrize("path", sorted(seeds.RESULTS.glob("seeds-*.json")), ids=lambda p: p.stem)
def test_the_stored_seeds_are_of_the_presets_as_they_are(path):
    found = json.loads(path.read_text("utf-8"))
    corpus = found["settings"]["corpus"]["name"]
    teachers = found["settings"]["recipe"].get("teachers")  # as given, wherever they lie
    changes = [f"corpus.name={corpus}", "seed=0"]
    settings = load_settings(found["preset"]).with_assignments(changes)
    if teachers:
        settings = settings.with_value("recipe.teachers", teachers)
    assert alike(found["settings"], json.loads(settings.to_json()))
