"""Take the definitions out of a script or notebook without running its main part.

>>> from tempfile import TemporaryDirectory
>>> folder = TemporaryDirectory()
>>> script = Path(folder.name) / "script.py"
>>> _ = script.write_text('''
... import torchtext_of_old
... train_set = torchtext_of_old.download("en-de")   # a lifted function does not need it
... WIDTH = 4
... def double(words): return 2 * WIDTH * words
... double(train_set)
... ''')
>>> lift(script, "double").double("w")
'wwwwwwww'
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import json
import linecache
import re
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from nmtcheck.connect.filling import on_the_cpu
from nmtlib.errors import did_you_mean

# What a constant may call: nothing of it reads, writes, loads or trains.
HARMLESS = re.compile(
    r"(abs|bool|dict|float|int|len|list|max|min|range|round|set|sorted|str|sum|tuple)|math\.\w+|"
    r"(dataclasses\.)?(dataclass|field)|(types\.)?SimpleNamespace|(pathlib\.)?Path|"
    r"os\.(getenv|path\.(join|dirname|abspath|basename)|environ\.get)|"
    r"(torch\.)?(device|manual_seed|tensor|arange|zeros|ones|full|eye|linspace|cuda\.is_available|"
    r"backends\.mps\.is_available)|(np|numpy)\.(array|arange|zeros|ones|log|sqrt|exp)|"
    r"(torch\.)?nn\.[A-Z]\w*"
)
BLOCKS = ast.If | ast.Try | ast.With | ast.For | ast.While


class NotLifted(RuntimeError):
    """A name is used that was left out."""


class NotRun:
    """In the place of a name that was not lifted; using it says so."""

    _said: str

    def __init__(self, name: str, why: str):
        self.__dict__["_said"] = f"{name!r} {why}; give a stand-in: lift(..., {name}=...)"

    def _refuse(self, *given: Any, **options: Any) -> Any:
        raise NotLifted(self._said)

    __getattr__ = __setattr__ = __call__ = __iter__ = __len__ = __getitem__ = __contains__ = _refuse
    __mro_entries__ = __bool__ = __add__ = __radd__ = __mul__ = __rmul__ = __enter__ = _refuse
    __index__ = __float__ = __int__ = _refuse


def lift(file: str | Path, *names: str, **stubs: Any) -> ModuleType:
    """A module with the definitions of these names in a script or notebook, and what they need.

    Functions, classes, imports and constants are taken, all that the file defines where no name is
    given; what trains, loads or prints is not run.  A constant is an assignment that calls nothing
    but `HARMLESS` functions; any other is run only where a definition cannot be made without it.
    Each of `stubs` takes the place of the name in the file: a missing import, a vocabulary.

    Raises FileNotFoundError for a missing file, and ValueError for a name that the file does not
    define, for what is no Python, and for a statement that fails.  A name that was left out raises
    RuntimeError where it is used, and says what to do.
    """
    path = Path(file).expanduser().resolve()
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    found = Definitions(path, statements(path))
    return found.module(names, stubs)


def package_root(path: Path) -> Path:
    """The folder from which a file is imported: the one above its package.

    A package may have no `__init__.py`; then the file's own imports name it: `from model.layers
    import X` in `model/model.py` needs the folder above `model`.
    """
    root = path.parent
    while (root / "__init__.py").is_file():
        root = root.parent
    named = set[str]()
    with contextlib.suppress(ValueError, OSError):
        for node in ast.walk(ast.Module(statements(path), [])):
            if isinstance(node, ast.Import):
                named |= {alias.name.partition(".")[0] for alias in node.names if "." in alias.name}
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                named.add(node.module.partition(".")[0])
    above = [folder for folder in (root, *root.parents) if folder.name in named]
    # Not a folder that has only the name of an installed package.
    own = [f for f in above if not known_elsewhere(f)]
    return own[-1].parent if own else root


def import_folders(path: Path) -> list[str]:
    """The folders from which a file imports: that of its package, and its own after it.

    Not its own where a file there has the name of the package, which would hide the package.
    """
    root = package_root(path)
    top = path.relative_to(root).parts[0]
    hides = path.parent != root and (path.parent / f"{top}.py").is_file()
    return [str(root)] if hides else list(dict.fromkeys([str(root), str(path.parent)]))


def known_elsewhere(folder: Path) -> bool:
    """Whether the name of a folder is that of a package that lies in another place."""
    if folder.name in sys.builtin_module_names or folder.name in sys.stdlib_module_names:
        return True
    places = list[str]()
    with contextlib.suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(folder.name)
        places = [*map(str, (spec and spec.submodule_search_locations) or [])]
    return bool(places) and str(folder) not in places


def statements(path: Path) -> list[ast.stmt]:
    """The top-level statements of a script, or of the cells of a notebook.  Raises ValueError."""
    try:
        text = path.read_text("utf-8")
        if path.suffix != ".ipynb":
            return ast.parse(text, str(path)).body
        cells = [c for c in json.loads(text)["cells"] if c["cell_type"] == "code"]
        return [s for n, cell in enumerate(cells) for s in cell_statements(path, n, cell["source"])]
    except (SyntaxError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path.name} is no Python: {error}") from None


def cell_statements(path: Path, number: int, source: str | list[str]) -> list[ast.stmt]:
    """The statements of a cell; lines for IPython (%, !, ?) are left out, and so is a %%cell."""
    text = "".join(source)
    if text.lstrip().startswith("%%"):
        return []
    text = re.sub(r"(?m)^(\s*)(?:[%!?].*|.*\?)$", r"\1pass", text)
    file = f"<{path.name}, code cell {number}, {zlib.crc32(text.encode()):08x}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    body = ast.parse(text, file).body
    for statement in body:
        statement.source_file = file  # type: ignore[attr-defined]
    return body


@dataclass
class Definitions:
    """The top-level statements of a file."""

    path: Path
    body: Sequence[ast.stmt]

    def module(self, names: Sequence[str], stubs: dict[str, Any]) -> ModuleType:
        """A module in which all definitions have been run, in their order, and what names need."""
        known = {name: s for s in reversed(self.body) for name in bound(s)}
        for name in names:
            if name not in known.keys() | stubs.keys() and "*" not in known:
                hint = did_you_mean(name, known) or f"; it defines {', '.join(sorted(known))}"
                raise ValueError(f"{self.path.name} defines no {name!r}{hint}")
        module = self.empty(stubs)
        for statement in filter(plain, self.body):
            with contextlib.suppress(ValueError):  # said where the name is used
                self.run(module, statement, stubs)
        for name in names:
            self.need(module, name, known, stubs)
        on_the_cpu(vars(module))
        for name in known.keys() - {"*"} - vars(module).keys():
            vars(module)[name] = NotRun(name, f"(line {known[name].lineno}) was not lifted")
        return module

    def need(self, module: ModuleType, name: str, known: dict, stubs: dict[str, Any]) -> None:
        """Run the statement that binds a name, and before it those of the names that it reads."""
        if name in vars(module) or name not in known:
            return
        statement = known[name]
        if not isinstance(statement, ast.FunctionDef | ast.ClassDef):
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                    self.need(module, node.id, known, stubs)
        for _ in known:
            try:
                return self.run(module, statement, stubs)
            except ValueError as error:
                missing = getattr(error.__cause__, "name", None)
                if not isinstance(error.__cause__, NameError) or missing not in known:
                    raise
                self.need(module, missing, known, stubs)

    def empty(self, stubs: dict[str, Any]) -> ModuleType:
        """A module with the stubs; its imports find the neighbours of the file, and its package."""
        module = ModuleType(f"lifted_{self.path.stem}")
        folder = package_root(self.path)
        package = self.path.relative_to(folder).parts[:-1]
        sys.path += [place for place in import_folders(self.path) if place not in sys.path]
        vars(module).update(stubs, __file__=str(self.path), __package__=".".join(package))
        sys.modules[module.__name__] = module  # dataclasses and pickle look their module up
        return module

    def run(self, module: ModuleType, statement: ast.stmt, stubs: dict[str, Any]) -> None:
        """Run one statement, and put the stubs back that it has replaced."""
        file = getattr(statement, "source_file", str(self.path))
        code = compile(ast.Module([statement], []), file, "exec")
        try:
            exec(code, vars(module))
        except ImportError as error:
            for name in bound(statement) - stubs.keys():
                vars(module)[name] = NotRun(name, f"cannot be imported ({error})")
        except Exception as error:
            told = f"{type(error).__name__}: {error}; give stand-ins, lift(..., name=...)"
            told = str(error) if isinstance(error, NotLifted) else told
            raise ValueError(f"{self.path.name}, line {statement.lineno}: {told}") from error
        vars(module).update(stubs)


def bound(statement: ast.stmt) -> set[str]:
    """The names that a top-level statement binds."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {(a.asname or a.name.partition(".")[0]) for a in statement.names}
    if main_part(statement):
        return set()
    inner = (n for n in ast.iter_child_nodes(statement) if isinstance(n, ast.stmt))
    names = {name for n in inner for name in bound(n)} if isinstance(statement, BLOCKS) else set()
    handlers = statement.handlers if isinstance(statement, ast.Try) else []
    names |= {name for handler in handlers for n in handler.body for name in bound(n)}
    if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        stored = (n for n in ast.walk(statement) if isinstance(n, ast.Name))
        names |= {n.id for n in stored if isinstance(n.ctx, ast.Store)}
    return names


def main_part(statement: ast.stmt) -> bool:
    """Whether a statement is `if __name__ == "__main__":`."""
    return isinstance(statement, ast.If) and "__name__" in ast.dump(statement.test)


def plain(statement: ast.stmt) -> bool:
    """Whether a statement is a definition, an import, or a constant."""
    if isinstance(statement, ast.Expr | ast.For | ast.While | ast.With) or main_part(statement):
        return False
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return True
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return True
    calls = (n.func for n in ast.walk(statement) if isinstance(n, ast.Call))
    return all(HARMLESS.fullmatch(ast.unparse(called)) for called in calls)
