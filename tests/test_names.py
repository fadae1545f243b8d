"""A text of a user that may be a name of a file is never more than looked up as one."""

import io
import sys
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import nmtlib
from nmtcourse.main import main
from nmtlib.files import names_a_file

LONG = "Ein alter Mann mit einem grauen Bart sitzt auf einer Bank und liest . " * 4
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=200)


@given(st.text(max_size=400))
@example("x" * 100_000)
@example("a\0b")
@example("\udcff")
def test_any_text_may_be_asked_about(text):
    assert not names_a_file(text)


def translations(*arguments):
    """Status and standard output of `nmtlib translate`."""
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", printed)
        patch.setattr(sys, "stderr", io.StringIO())
        return main(["translate", *arguments]), printed.getvalue()


@pytest.mark.slow
@settings(max_examples=15)
@given(TEXTS)
@example(LONG[:300])
@example("一" * 90)
def test_an_argument_is_translated_as_a_line_of_standard_input(text):
    given_line = type("Input", (), {"buffer": io.BytesIO(f"{text}\n".encode()), "closed": False})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", given_line)
        status, lines = translations("--model", "toy-de-en")
    assert translations("--model", "toy-de-en", "--", text) == (status, lines if not status else "")


@pytest.mark.parametrize("command", ["evaluate", "translate", "explore", "summary", "train"])
@pytest.mark.parametrize("name", ["x" * 100_000, LONG, "x" * 300 + ".toml"])
def test_a_long_text_in_place_of_a_name_is_told_as_one(
    command, name, capsys, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    if command == "translate" and name == LONG:  # a sentence, which a shipped model translates
        assert main([command, name]) == 0
        return
    assert main([command, name]) == 1
    error = capsys.readouterr().err
    assert "Errno" not in error and error.startswith("nmtlib: ") and error.count("\n") == 1


def test_a_long_text_is_told_in_python_too():
    with pytest.raises(FileNotFoundError, match="is not a run folder"):
        nmtlib.load("x" * 100_000)


@pytest.mark.parametrize("name", ["toy-de-en", "multi30k-de-en", "cmn-en-zh"])
def test_a_decomposed_letter_is_the_letter(name):
    translator = nmtlib.load(name)
    for text in ("der Hund schläft .", "Ein Café für Zoë ."):
        apart = unicodedata.normalize("NFD", text)
        assert apart != text and translator.read(apart) == translator.read(text)
        assert translator.unknown(apart) == translator.unknown(text)


@pytest.mark.parametrize("character", ["\ufeff", "\u200b", "\u202e", "\u00ad", "\u2060"])
def test_an_unknown_word_shows_what_is_invisible_in_it(character, capsys):
    assert main(["translate", "toy-de-en", f"der Hu{character}nd schläft ."]) == 0
    error = capsys.readouterr().err
    assert ascii(character)[1:-1] in error and character not in error
