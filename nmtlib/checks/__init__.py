"""Behaviour checks for any Transformer: each measures one property, and names the likely cause
where it fails.

>>> from nmtlib.checks.parts import ours
>>> print(run_checks(ours(), only="attention.scale").results[0].verdict)
passed
"""

from nmtlib.checks import attention, positions, masks, layers, model  # noqa: F401, I001 (their order is kept)
from nmtlib.checks import loss, optimisation, decoding, beam, data, metrics  # noqa: F401
from nmtlib.checks.registry import CHECKS, Check, Finding, check
from nmtlib.checks.report import Report, Result
from nmtlib.checks.runner import run_checks

__all__ = ["CHECKS", "Check", "Finding", "Report", "Result", "check", "run_checks"]
