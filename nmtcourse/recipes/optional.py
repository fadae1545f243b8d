"""Packages that only some of us need."""

from __future__ import annotations

import importlib
from types import ModuleType


def need(package: str) -> ModuleType:
    """Import an optional package.  Raises ModuleNotFoundError that says how to install it.

    What the package itself misses is named by its own error.
    """
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise ModuleNotFoundError(
            f"this needs the package {package}, which the course itself does not: "
            f"pip install {package}"
        ) from None
