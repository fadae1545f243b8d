"""Behaviour checks for any Transformer: each measures one property and names the likely cause.

>>> print(run_checks(ours(), only="attention.scale").results[0].verdict)
passed
"""

from nmtlib.checks import attention, positions, masks, layers, model  # noqa: F401, I001 (in order)
from nmtlib.checks import loss, optimisation, validation, epochs, decoding  # noqa: F401
from nmtlib.checks import beam, data, metrics  # noqa: F401
from nmtlib.checks.adapter import Adapter, Sizes
from nmtlib.checks.calls import called
from nmtlib.checks.lifting import lift
from nmtlib.checks.parts import ours
from nmtlib.checks.registry import CHECKS, Check, Finding, check
from nmtlib.checks.report import Report
from nmtlib.checks.result import Result
from nmtlib.checks.runner import run_checks
from nmtlib.checks.student import example, load_adapter

__all__ = ["CHECKS", "Adapter", "Check", "Finding", "Report", "Result", "Sizes"]
__all__ += ["called", "check", "example", "lift", "load_adapter", "ours", "run_checks"]
