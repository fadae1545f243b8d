"""Each sentence gets its own translation, in order; a damaged run is named and refused."""

import dataclasses
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from runs_on_disk import set_anew, write_run, write_weights

from nmtcourse.main import build_parser
from nmtlib.data.codec import Codec, Vocab
from nmtlib.data.corpora import load_corpus
from nmtlib.data.corpus import Corpus
from nmtlib.data.tokenizers import BPETokenizer, SpacyTokenizer, WhitespaceTokenizer
from nmtlib.inference import translator as module
from nmtlib.inference.evaluate import evaluate
from nmtlib.inference.translator import Translator
from nmtlib.model.attention import record_attention
from nmtlib.model.transformer import Transformer
from nmtlib.settings import DecodingSettings, Settings
from nmtlib.specials import BOS, EOS, SPECIALS
from nmtlib.training.checkpoint import save_checkpoint

SOURCE, TARGET = [f"s{i}" for i in range(9)], [f"t{i}" for i in range(7)]
LAYERS = {"n_encoder_layers": 1, "n_decoder_layers": 2}
MODEL = replace(Settings().model, d_model=16, n_heads=2, d_ff=24, max_length=12, **LAYERS)
SETTINGS = Settings(model=MODEL, decoding=DecodingSettings(beam=3, max_tokens=60))
TRAINED_WITH = SETTINGS.with_vocabularies(len(SPECIALS) + len(SOURCE), len(SPECIALS) + len(TARGET))
CODECS = [Codec(WhitespaceTokenizer(), Vocab([*SPECIALS, *words])) for words in (SOURCE, TARGET)]
SENTENCES = ["s1 s2 s3", "s4", "s5 s6 s7 s8 s0 s1 s2", "s8 s8", "s3 s1", "s0 s4 s6 s2 s8"]
SENTENCES += ["s7", "s2 s5 s5 s1"]


def random_model(seed: int = 1) -> Transformer:
    """An untrained model that listens to the source so much that most get their own translation."""
    torch.manual_seed(seed)
    sizes = [len(SPECIALS) + len(words) for words in (SOURCE, TARGET)]
    model = Transformer(replace(MODEL, source_vocab_size=sizes[0], target_vocab_size=sizes[1]))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            size = 3 if "cross_attention" in name else 1
            parameter.add_(0.5 * torch.randn_like(parameter)).mul_(size)
        model.output.bias.zero_()
    return model.eval()


def save(folder: Path, name: str, model: Transformer) -> None:
    """Save a checkpoint with settings and vocabularies."""
    path, weights = folder / f"{name}.safetensors", name.replace("epoch-00", "epoch ")
    write_weights(path, model, SETTINGS, *CODECS, weights=weights)


@pytest.fixture
def run(tmp_path) -> Path:
    """A run folder as a finished training leaves it, with an untrained model."""
    return write_run(tmp_path / "a-run", random_model(), SETTINGS, *CODECS).folder


@pytest.fixture
def translator(run) -> Translator:
    """In float64, where sums in another order cannot change which word is the most probable one."""
    loaded = Translator.load(run, device="cpu")
    return Translator(loaded.model.double(), loaded.source, loaded.target, loaded.settings)


def with_decoding(translator: Translator, **changes) -> Translator:
    decoding = dataclasses.replace(translator.settings.decoding, **changes)
    settings = dataclasses.replace(translator.settings, decoding=decoding)
    return Translator(translator.model, translator.source, translator.target, settings)


@pytest.mark.parametrize("beam", [1, 3])
def test_each_sentence_gets_its_own_translation_in_order(translator, beam):
    alone = [translator.translate([sentence], beam=beam)[0] for sentence in SENTENCES]
    assert len(set(alone)) > len(SENTENCES) // 2, "equal ones could not show a wrong order"
    assert translator.translate(SENTENCES, beam=beam) == alone
    assert translator.translate(SENTENCES[::-1], beam=beam) == alone[::-1]
    assert translator.translate([*SENTENCES, *SENTENCES], beam=beam) == alone * 2


@pytest.mark.parametrize("beam", [1, 3])
def test_batching_does_not_change_results(translator, beam):
    expected = translator.search(SENTENCES, beam=beam)
    for max_tokens in (1, 20, 10_000):
        found = with_decoding(translator, max_tokens=max_tokens).search(SENTENCES, beam=beam)
        assert [h[0].ids for h in found] == [h[0].ids for h in expected]
        for one, other in zip(found, expected, strict=True):
            assert one[0].score == pytest.approx(other[0].score, abs=1e-9)


def test_a_batch_stays_within_its_budget(translator, monkeypatch):
    shapes = []

    def spy(model, source, beam, **options):
        shapes.append((source.shape, beam))
        return original(model, source, beam, **options)

    original = module.beam_search
    monkeypatch.setattr(module, "beam_search", spy)
    with_decoding(translator, max_tokens=48).translate(SENTENCES, beam=3)
    assert len(shapes) > 1 and sum(rows for (rows, _), _ in shapes) == len(SENTENCES)
    assert all(rows * width * beam <= 48 for (rows, width), beam in shapes)


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 40))
def test_batches_hold_each_sentence_once_and_no_empty_one(lengths, max_tokens):
    encoded = [[5] * length for length in lengths]
    batches = Translator.batches(encoded, max_tokens)
    assert sorted(i for batch in batches for i in batch) == [i for i, n in enumerate(lengths) if n]
    for batch in batches:
        cost = len(batch) * (max(lengths[i] for i in batch) + 1)  # + EOS
        assert cost <= max_tokens or len(batch) == 1
    for batch, following in zip(batches, batches[1:], strict=False):
        joined = [*batch, following[0]]  # a batch is filled before the next
        assert len(joined) * (max(lengths[i] for i in joined) + 1) > max_tokens


def test_an_empty_sentence_has_an_empty_translation(translator):
    full = translator.translate(SENTENCES[:2])
    mixed = translator.translate(["", SENTENCES[0], "  \t ", SENTENCES[1], ""])
    assert mixed == ["", full[0], "", full[1], ""]
    assert translator.translate(["", " "]) == ["", ""] and translator.translate([]) == []


def test_unknown_words_are_read_and_never_said(translator):
    hypothesis = translator.translate(["s1 what is that"])[0]
    assert hypothesis and set(hypothesis.split()) <= set(TARGET)


def test_what_is_no_list_of_sentences_and_what_is_no_run_are_refused(translator, run, tmp_path):
    for wrong in ("s1 s2", None, 5):
        with pytest.raises(ValueError, match=r"\[sentence\]"):
            translator.translate(wrong)
    for wrong in (None, 5, ["toy-de-en"]):
        with pytest.raises(ValueError, match="run should be the name of a file or folder"):
            Translator.load(wrong)
    (tmp_path / "empty").mkdir()
    for name in ("missing", "empty"):
        with pytest.raises(FileNotFoundError, match=f"{name} is not a run folder"):
            Translator.load(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="did you mean toy-de-en.*toy-de-en, toy-en-zh"):
        Translator.load("toy-de-em")
    with pytest.raises(ValueError, match="nonsense"):
        Translator.load(run, device="nonsense")


def test_the_longest_sentence_that_fits_is_translated(translator):
    longest = " ".join(["s1"] * (MODEL.max_length - 1))
    assert len(translator.translate([longest])) == 1
    with pytest.raises(ValueError) as caught:
        translator.translate(["s1", "s2 s3", longest + " s4", "s5"])
    message = str(caught.value)
    assert "sentence 3: " in message and f"{MODEL.max_length} tokens" in message
    assert f"at most {MODEL.max_length - 1}" in message and "s1 s1" in message


def test_what_is_not_given_is_taken_from_the_settings_of_the_run(translator, monkeypatch):
    asked = []

    def spy(model, source, beam, **options):
        names = ("n_best", "length_penalty", "max_length")
        asked.append((beam, *(options[name] for name in names)))
        return original(model, source, beam, **options)

    original = module.beam_search
    monkeypatch.setattr(module, "beam_search", spy)
    translator = with_decoding(translator, beam=4, length_penalty=0.25)
    translator.search(["s1"])
    translator.search(["s1"], beam=2, length_penalty=0.0, n_best=2, max_length=3)
    assert asked == [(4, 1, 0.25, None), (2, 2, 0.0, 3)]


def test_n_best_are_different_and_best_first(translator):
    for hypotheses in translator.search(SENTENCES, beam=4, n_best=3):
        assert len({tuple(h.ids) for h in hypotheses}) == 3
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
    assert all(len(h[0].ids) <= 2 for h in translator.search(SENTENCES, max_length=2))


def test_an_example_is_what_training_reads(translator):
    example = translator.example("s0 s1", "t0")
    assert example == ([4, 5, EOS], [BOS, 4, EOS])


def test_the_same_run_loads_the_same_twice_and_translates_without_dropout(run):
    one, other = Translator.load(run), Translator.load(str(run))
    assert not one.model.training
    assert one.settings == other.settings == TRAINED_WITH
    assert one.translate(SENTENCES) == other.translate(SENTENCES) == one.translate(SENTENCES)


def same_weights(one: Transformer, other: Transformer) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_the_best_epoch_serves_until_the_chosen_model_is_there(run):
    chosen, best = random_model(), random_model(seed=2)
    save(run, "best", best)
    assert same_weights(Translator.load(run).model, chosen)
    (run / "model.safetensors").unlink()
    assert same_weights(Translator.load(run).model, best)


def test_a_shipped_model_is_loaded_by_its_name_unless_a_folder_has_it(run, monkeypatch):
    shipped = Translator.load(name := "toy-en-zh")
    assert shipped.settings.corpus.name == name
    monkeypatch.chdir(run.parent)
    run.rename(run.with_name(name))
    assert Translator.load(name).settings == TRAINED_WITH


def test_unknown_words_are_named_once_in_order_as_they_were_typed(translator):
    named = {"s1 s8": [], "": [], "what s1 is that what": ["what", "is", "that"]}
    for sentence, expected in named.items():
        assert translator.unknown(sentence) == expected
    spacy = SpacyTokenizer("en")
    translator.source = Codec(spacy, Vocab.build([spacy.encode("a big dog runs.")]))
    assert translator.unknown("a small dog runs!") == ["small", "!"]
    bpe = BPETokenizer.train(["a big dog runs."] * 5, 40)
    translator.source = Codec(bpe, Vocab(bpe.tokens))
    sentence = "a dog, big dogs, 狗狗 and a 狗狗 run."
    assert translator.unknown(sentence) == ["dog,", "dogs,", "狗狗"]


def test_a_run_without_weights_says_how_to_go_on(run):
    (run / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match="no weights yet") as caught:
        Translator.load(run)
    command = str(caught.value).split("nmtlib ")[-1].split()
    options = build_parser().parse_args(command)
    assert options.resume and options.out == run, "the command that it suggests must work"


def test_a_file_that_is_copied_renamed_and_zipped_translates_alone(run, tmp_path):
    expected = Translator.load(run).translate(SENTENCES)
    alone = tmp_path / "elsewhere" / "my model.safetensors"
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        archive.write(run / "model.safetensors", alone.name)
    shutil.rmtree(run)
    with zipfile.ZipFile(tmp_path / "model.zip") as archive:
        archive.extractall(alone.parent)
    assert Translator.load(alone).translate(SENTENCES) == expected
    assert Translator.load(alone).settings.decoding.beam == SETTINGS.decoding.beam
    alone.rename(alone.with_name("model.safetensors"))  # in a folder without anything else
    assert Translator.load(alone.parent).translate(SENTENCES) == expected
    with pytest.raises(ValueError, match="one file of weights; .* give the run folder"):
        Translator.load(alone.with_name("model.safetensors"), checkpoint="best")


def test_what_lies_beside_the_weights_changes_no_translation(run):
    expected = Translator.load(run).translate(SENTENCES)
    other = SETTINGS.changed({"model": {"n_heads": 4}}).changed({"decoding": {"beam": 1}})
    (run / "settings.json").write_text(other.to_json(), "utf-8")
    translator = Translator.load(run)
    assert translator.translate(SENTENCES) == expected
    assert translator.settings.decoding.beam == SETTINGS.decoding.beam


def test_a_model_without_vocabularies_is_refused(run):
    save_checkpoint(run / "model.safetensors", random_model())
    with pytest.raises(
        ValueError, match="model.safetensors holds a model without settings and voc"
    ):
        Translator.load(run)


def test_a_run_of_a_gpu_translates_where_there_is_none(run, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for device in ("cuda", "cuda:1"):
        set_anew(run / "model.safetensors", "training.device", device)
        assert Translator.load(run).device == torch.device("cpu")
        with pytest.raises(ValueError, match="cannot be used here"):  # where it is asked for
            Translator.load(run, device=device)


def test_a_checkpoint_is_loaded_by_its_name(run):
    third = random_model(seed=3)
    save(run, "epoch-003", third)
    loaded = Translator.load(run, checkpoint="epoch-003")
    assert same_weights(loaded.model, third) and not same_weights(third, random_model())
    assert same_weights(Translator.load(run).model, random_model())
    with pytest.raises(FileNotFoundError, match="no checkpoint 'epoch-004'; it has epoch-003, mod"):
        Translator.load(run, checkpoint="epoch-004")


def test_the_n_best_are_texts_with_their_scores(translator):
    found = translator.n_best([*SENTENCES, ""], 4)
    searched = translator.search([*SENTENCES, ""], beam=4, n_best=4)
    texts = [[(translator.target.decode(h.ids), h.score) for h in best] for best in searched]
    assert found == texts and [len(best) for best in found] == [4] * len(SENTENCES) + [1]
    two = [best[0][0] for best in translator.n_best(SENTENCES, 2)]
    assert two == translator.translate(SENTENCES), "the beam is the run's, unless n is more"
    with pytest.raises(ValueError, match="n_best 4, beam 3"):
        translator.n_best(SENTENCES, 4, beam=3)


def test_a_run_is_scored_on_its_own_corpus_unless_another_is_given(monkeypatch):
    translator, pairs = Translator.load("toy-de-en"), load_corpus("toy-de-en").test[:4]
    few = Corpus("few", "de", "en", test=pairs)
    monkeypatch.setattr("nmtlib.inference.evaluate.load_corpus", lambda settings: few)
    assert evaluate(translator)[0].corpus == "few"


def test_attention_is_that_of_the_model_with_the_tokens_of_both_sides(translator):
    found = translator.attention("s1 s2 s3")
    translation = translator.translate(["s1 s2 s3"])[0]
    assert found.source == ["s1", "s2", "s3", SPECIALS[EOS]]
    assert found.target == [*translation.split(), SPECIALS[EOS]]
    example = translator.example("s1 s2 s3", translation)
    source, target = torch.tensor([example.source]), torch.tensor([example.target[:-1]])
    with torch.no_grad(), record_attention(translator.model) as maps:
        translator.model(source, target)
    for layer in range(2):
        assert torch.equal(found.weights[layer], maps[f"decoder.{layer}.cross_attention"][0][0])
    forced = translator.attention("s1", "t1 t2")
    assert forced.target == ["t1", "t2", SPECIALS[EOS]] and forced.weights.shape == (2, 2, 3, 2)
    with pytest.raises(ValueError, match="empty sentence"):
        translator.attention("  ")
