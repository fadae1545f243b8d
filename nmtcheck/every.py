"""Every check: importing this module registers them, in the order in which they run."""

from importlib import import_module
from importlib.metadata import entry_points

from nmtcheck.registry import CHECKS

MODULES = (
    "inside blocks positions masks layers model anatomy loss optimisation validation epochs "
    "gradients decoding translation beam penalties endings data metrics"
).split()

for added in entry_points(group="nmtcheck.checks"):  # checks of single parts come first
    added.load()
for name in MODULES:
    import_module(f"nmtcheck.{name}")

_PLACES = {f"nmtcheck.{name}": place for place, name in enumerate(MODULES)}
_ORDERED = sorted(CHECKS.items(), key=lambda item: _PLACES.get(item[1].measure.__module__, -1))
CHECKS.clear()
CHECKS.update(_ORDERED)
