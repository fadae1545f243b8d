"""What `show_source` puts into a notebook."""

import ast
import inspect

from nmtcourse.teaching.show import source_of
from nmtlib.inference.search import beam_search
from nmtlib.model import attention
from nmtlib.model.attention import MultiHeadAttention, record_attention

OBJECTS = [MultiHeadAttention, MultiHeadAttention.attend, record_attention, beam_search, attention]
DOCUMENTED = ast.FunctionDef | ast.ClassDef | ast.Module


def code_of(shown):
    """The code between the fences."""
    return shown.text.partition("```python\n")[2].removesuffix("\n```\n\n</div>")


def names_of(code):
    """The code without layout, comments and docstrings, as one string."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] if len(node.body) > 1 else node.body
    return ast.dump(tree)


def test_the_source_is_the_real_one_below_its_file():
    for thing in OBJECTS:
        shown = source_of(thing)
        module = thing.__name__ if inspect.ismodule(thing) else thing.__module__
        name = module.replace(".", "/") + ".py"
        assert shown.text.startswith(f"**{name}**\n\n<div style=")
        assert repr(shown).splitlines()[0] == f"# {name}"
        ours = [line.strip() for line in code_of(shown).splitlines()]
        source = inspect.getsource(inspect.unwrap(thing)).rstrip()
        assert ours == [line.strip() for line in source.splitlines()]
        ast.parse(code_of(shown))  # a method is moved to the margin, so that it is Python by itself


def test_without_docstrings_the_code_is_the_same():
    for thing in OBJECTS:
        full, short = code_of(source_of(thing)), code_of(source_of(thing, docstring=False))
        assert names_of(full) == names_of(short) and len(short) < len(full)
        nodes = (node for node in ast.walk(ast.parse(short)) if isinstance(node, DOCUMENTED))
        assert not any(map(ast.get_docstring, nodes))
