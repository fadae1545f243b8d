"""Packages that only some of us need."""

from __future__ import annotations

import importlib
from types import ModuleType


def need(package: str) -> ModuleType:
    """Import an optional package.  Raises ModuleNotFoundError that says how to install it."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f"this needs the package {package}, which the course itself does not: "
            f"pip install {package}"
        ) from None
