"""All bad inputs in one list."""

from __future__ import annotations

from importlib import import_module

from case import Case

MODULES = ("settings", "texts", "runs", "run_json", "checkpoints", "inputs")
MODULES += ("surroundings", "processes")
CASES: list[Case] = [case for name in MODULES for case in import_module(f"case_{name}").CASES]
