"""Every check: importing this module registers them, in the order in which they run."""

from importlib import import_module

from nmtcheck.registry import CAUSES, CHECKS

MODULES = (
    "inside positions masks layers model structure recorded training validation evaluation "
    "search translation"
).split()

for name in MODULES:
    import_module(f"nmtcheck.checks.{name}")
for name in CAUSES:  # whichever was imported first
    CHECKS[name] = CHECKS.pop(name)
