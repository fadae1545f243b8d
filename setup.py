"""The build; `NMTLIB_SOLUTIONS=0 pip install .` leaves out the solutions of the homework."""

import os
from typing import Any

from setuptools import setup
from setuptools.command.build_py import build_py

MASTERS = "nmtcourse.homework.masters"


class Build(build_py):
    """Install for running students' notebooks: without the masters, which have the solutions."""

    def find_package_modules(self, package: str, package_dir: str) -> list[Any]:
        found = super().find_package_modules(package, package_dir)
        if package == MASTERS and os.environ.get("NMTLIB_SOLUTIONS") == "0":
            return [module for module in found if module[1] == "__init__"]
        return found


setup(cmdclass={"build_py": Build})
