"""A model says when a sentence is unlike its training text, and hardly ever of one that is not."""

import json
from dataclasses import asdict
from pathlib import Path

from nmtcourse import familiar
from nmtcourse.main import main
from nmtcourse.teaching.case_studies import CAPTIONS

ROWS = Path(__file__).with_name("typed.txt").read_text("utf-8").splitlines()
TYPED, ENGLISH = zip(*(row.split("\t") for row in ROWS), strict=True)
KNOWN = [line.split("\t")[0] for line in CAPTIONS.read_text("utf-8").splitlines()]


def test_it_speaks_on_what_people_type_and_not_on_captions():
    captions = familiar.load("multi30k-de-en")
    assert [text for text in TYPED if not captions.remark(text)] == []
    assert [text for text in KNOWN if captions.remark(text)] == []
    assert "words: dich" in captions.remark("Ich liebe dich.") and captions.remark(" ") == ""


def test_it_speaks_on_what_a_model_of_everyday_sentences_has_not_read_and_not_on_all():
    everyday = familiar.load("cmn-en-zh")
    spoken = [text for text in ENGLISH if everyday.remark(text)]
    assert 7 <= len(spoken) < len(ENGLISH) == 20 and "I love you." not in spoken
    assert "words: berlin" in everyday.remark("I am a Berliner.")


def test_it_speaks_on_at_most_two_sentences_in_a_hundred_of_the_validation_set(multi30k):
    captions = familiar.load("multi30k-de-en")
    spoken = [pair for pair in multi30k.validation if captions.remark(pair.source)]
    assert 0 < len(spoken) <= 0.02 * len(multi30k.validation)
    again = familiar.Familiar.learn(
        *([pair.source for pair in split] for split in (multi30k.train, multi30k.validation))
    )
    assert json.loads(json.dumps(asdict(again))) == familiar.to_dict("multi30k-de-en")


def test_the_command_warns_and_translates_all_the_same(capsys):
    for sentence, heard in (("Ich liebe dich.", True), (KNOWN[0], False)):
        assert main(["translate", "--model", "multi30k-de-en", sentence]) == 0
        out, err = capsys.readouterr()
        assert out.strip() and ("unlike the 29,000" in err) == heard


def test_the_page_speaks_when_python_does(engine_of):
    texts = [*TYPED, *ENGLISH, *KNOWN, "", "naïve_x — 5€ 漢字", "I think, therefore I am."]
    for model in ("multi30k-de-en", "cmn-en-zh"):
        known, data = familiar.load(model), familiar.to_dict(model)
        (spoken,) = engine_of().run({"do": "unlike", "familiar": data, "texts": texts})
        assert spoken == [bool(known.remark(text)) for text in texts]
