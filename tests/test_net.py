"""Whatever goes wrong in a command, a user reads one line; NMTLIB_DEBUG=1 shows the traceback."""

import pytest

from nmtcheck import command as checks
from nmtcourse import main as course
from nmtlib import cli


class PanicException(BaseException):
    """What pyo3 raises where Rust panics; it is no `Exception`."""


def no_descriptor(**group):
    raise OSError(24, "Too many open files")


@pytest.fixture
def faulty(monkeypatch):
    """`nmtlib models` with a fault of ours."""

    def make(error):
        def build():
            parser, commands = cli.new_parser()
            command = cli.add_command(commands, "models", lambda options: 1 / 0, "models")
            command.set_defaults(run=lambda options: (_ for _ in ()).throw(error))
            return parser

        monkeypatch.setattr(course, "build_parser", build)

    return make


@pytest.mark.parametrize(
    "error",
    [PanicException("index out of bounds\nbacktrace"), AttributeError("x"), AssertionError()]
    + [RuntimeError("two\nlines"), IndexError("list index out of range"), RecursionError("deep")],
)
def test_a_fault_is_one_line_that_asks_for_a_report(faulty, error, monkeypatch, capsys):
    faulty(error)
    monkeypatch.delenv("NMTLIB_DEBUG")
    assert course.main(["models"]) == 1
    line = capsys.readouterr().err
    assert line.startswith("nmtlib: a fault of nmtlib, not of your input: ")
    assert type(error).__name__ in line and "NMTLIB_DEBUG=1" in line and line.count("\n") == 1
    assert str(error) or f"{type(error).__name__}; please" in line, "no colon before nothing"
    for value in ("1", "faults"):
        monkeypatch.setenv("NMTLIB_DEBUG", value)
        with pytest.raises(type(error)):
            course.main(["models"])


@pytest.mark.parametrize(
    "message", ["CUDA out of memory. Tried", "DefaultCPUAllocator: can't allocate memory: you"]
)
def test_too_little_memory_is_no_fault(faulty, message, monkeypatch, capsys):
    faulty(RuntimeError(f"{message}\nbacktrace"))
    monkeypatch.delenv("NMTLIB_DEBUG")
    assert course.main(["models"]) == 1
    assert capsys.readouterr().err == f"nmtlib: out of memory: {message}\n"


def test_the_net_is_around_the_parser(monkeypatch, capsys):
    monkeypatch.setattr(course, "entry_points", no_descriptor)
    assert course.main(["models"]) == 1
    assert capsys.readouterr().err == "nmtlib: [Errno 24] Too many open files\n"
    monkeypatch.delenv("NMTLIB_DEBUG")
    monkeypatch.setattr(course, "build_parser", lambda: 1 / 0)
    assert course.main(["models"]) == 1
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_a_usage_error_keeps_its_status(capsys):
    with pytest.raises(SystemExit) as caught:
        course.main(["models", "--nowhere"])
    assert caught.value.code == 2


def test_ctrl_c_while_the_parser_is_made_is_one_line(monkeypatch, capsys):
    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(course, "build_parser", interrupt)
    assert course.main(["models"]) == 130
    assert capsys.readouterr().err.count("\n") == 1


def test_nmtcheck_alone_has_the_net_too(monkeypatch, capsys):
    monkeypatch.delenv("NMTLIB_DEBUG")
    monkeypatch.setattr(checks, "add_options", lambda parser: 1 / 0)
    assert checks.main([]) == 2
    assert "please report" in capsys.readouterr().err
