"""What `show_source` and `predict` put into a notebook, and that a reader who clicks sees the
answer.
"""

import ast
import inspect

import pytest

from nmtlib.inference.search import beam_search
from nmtlib.model import attention, transformer
from nmtlib.model.attention import MultiHeadAttention, record_attention
from nmtlib.teaching import show
from nmtlib.teaching.show import predict, source_of, without_docstrings

OBJECTS = [
    MultiHeadAttention,
    MultiHeadAttention.attend,
    record_attention,
    beam_search,
    attention,
    transformer,
]
OPTIONS = ["grows", "stays"]


def code_of(shown):
    """The code between the fences."""
    heading, _, rest = shown.text.partition("```python\n")
    return rest.removesuffix("\n```")


def names_of(code):
    """The code without layout, comments and docstrings, as one string."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module)
            and ast.get_docstring(node) is not None
        ):
            node.body = node.body[1:] if len(node.body) > 1 else node.body
    return ast.dump(tree)


@pytest.mark.parametrize("thing", OBJECTS)
def test_the_source_is_the_real_one_below_its_file(thing):
    shown = source_of(thing)
    module = thing.__name__ if inspect.ismodule(thing) else thing.__module__
    name = module.replace(".", "/") + ".py"
    assert shown.text.startswith(f"**{name}**\n\n```python\n")
    assert repr(shown).splitlines()[0] == f"# {name}"
    ours = [line.strip() for line in code_of(shown).splitlines()]
    assert ours == [
        line.strip() for line in inspect.getsource(inspect.unwrap(thing)).rstrip().splitlines()
    ]
    ast.parse(code_of(shown))  # a method is moved to the margin, so that it is Python by itself


@pytest.mark.parametrize("thing", OBJECTS)
def test_without_docstrings_the_code_is_the_same(thing):
    full, short = code_of(source_of(thing)), code_of(source_of(thing, docstring=False))
    assert names_of(full) == names_of(short) and len(short) < len(full)
    docstrings = [
        ast.get_docstring(node)
        for node in ast.walk(ast.parse(short))
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module)
    ]
    assert not any(docstrings)


def test_a_body_of_nothing_but_its_docstring_stays_python():
    code = 'class Error(ValueError):\n    """Nothing more."""\n\n\n'
    code += 'def f():\n    """One."""\n\n    return 1'
    short = without_docstrings(code)
    ast.parse(short)
    assert "Nothing more" in short and "One" not in short


def test_a_property_and_a_wrapped_function_are_followed_to_their_source():
    from nmtlib.data.batching import Batch

    assert "def decoder_input" in source_of(Batch.decoder_input).text
    assert "def beam_search" in source_of(beam_search).text, "not the wrapper around it"


@pytest.mark.parametrize("thing", [len, 3, "attention", ast.parse, pytest])
def test_what_is_not_ours_has_no_source_to_show(thing):
    with pytest.raises(ValueError, match="nmtlib"):
        source_of(thing)


def shown_by(monkeypatch, *arguments, **options):
    """What a call of `predict` displays."""
    found = []
    monkeypatch.setattr("IPython.display.display", found.append)
    predict(*arguments, **options)
    return found


def test_the_answer_is_folded_until_the_reader_commits(monkeypatch):
    question, reveal = shown_by(monkeypatch, "And the entropy?", OPTIONS, "B", "nothing changed.")
    assert "And the entropy?" in question.text and "- A. grows\n- B. stays" in question.text
    assert "because" not in question.text + question.plain
    opening, rest = reveal.text.split("<summary>")
    summary, body = rest.split("</summary>")
    assert (
        opening == "<details>"
        and "B" not in summary
        and body.startswith("\n\n**Answer: B**, because nothing changed.")
    )
    assert repr(reveal) == "Answer: B, because nothing changed."


@pytest.mark.parametrize(("mine", "told"), [("B", "and so it is"), ("a", "You said A. Compare")])
def test_who_committed_sees_the_answer_at_once(monkeypatch, mine, told):
    _, reveal = shown_by(
        monkeypatch, "And the entropy?", OPTIONS, "B", "because nothing changed.", mine=mine
    )
    assert told in reveal.text and "details" not in reveal.text and reveal.widget is None
    assert reveal.text.count("because") == 1 and "**Answer: B**" in reveal.text


def test_choosing_a_button_opens_the_answer(monkeypatch):
    monkeypatch.setattr(show, "kernel_with_widgets", lambda: True)
    _, reveal = shown_by(monkeypatch, "And the entropy?", OPTIONS, "B", "nothing changed.")
    choice, page = reveal.widget.children
    assert list(choice.options) == ["A", "B"] and choice.value is None and page.outputs == ()
    choice.value = "A"
    opened = page.outputs[0]["data"]["text/markdown"]
    assert (
        opened.startswith("You said A. Compare")
        and "**Answer: B**, because nothing changed." in opened
    )
    choice.value = "B"
    assert len(page.outputs) == 1 and "so it is" in page.outputs[0]["data"]["text/markdown"]


def test_a_stored_notebook_keeps_the_same_text_with_and_without_widgets(monkeypatch):
    plain = shown_by(monkeypatch, "Why?", OPTIONS, "A", "so.")
    monkeypatch.setattr(show, "kernel_with_widgets", lambda: True)
    live = shown_by(monkeypatch, "Why?", OPTIONS, "A", "so.")
    for one, other in zip(plain, live, strict=True):
        bundle = other._repr_mimebundle_()
        bundle.pop("application/vnd.jupyter.widget-view+json", None)
        assert bundle == one._repr_mimebundle_()


@pytest.mark.parametrize(
    ("options", "answer", "mine", "message"),
    [
        (OPTIONS, "C", None, "answer is one of the letters A, B, not 'C'"),
        (OPTIONS, "", None, "answer is one"),
        (OPTIONS, "A", "stays", "mine is one of"),
        (["one"], "A", None, "2 to 6 options"),
        ("AB", "A", None, "2 to 6"),
    ],
)
def test_a_question_that_cannot_be_answered_is_refused(options, answer, mine, message):
    with pytest.raises(ValueError, match=message):
        predict("Why?", options, answer, "so.", mine=mine)
