"""Behaviour checks for any Transformer: each measures one property and names the likely cause.

>>> from nmtcheck import ours, run_checks
>>> print(run_checks(ours(), only="inside.scale").results[0].verdict)
passed
"""

from importlib import import_module
from typing import Any

# Where each name lives; it is imported when it is first used, as the command line is to be quick.
_HOME = {
    **dict.fromkeys(["CHECKS", "Check", "Finding", "run_checks"], "report.runner"),
    **dict.fromkeys(["Adapter", "Sizes"], "adapter"),
    **dict.fromkeys(["example", "load_adapter"], "connect.student"),
    "Report": "report.report",
    "Result": "result",
    "called": "connect.calls",
    "check": "registry",
    "lift": "connect.lifting",
    "ours": "connect.ours",
}
__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"nmtcheck has no {name!r}; it has {', '.join(_HOME)}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
