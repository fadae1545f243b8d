"""The build: it puts the notebooks into the package, where `nmtlib course` finds them.

`NMTLIB_SOLUTIONS=0 pip install .` leaves out the solutions of the homework.
"""

import os
from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.build_py import build_py

MASTERS = "nmtcourse.homework.masters"
NOTEBOOKS = ("*.ipynb", "deeper/*.ipynb", "zh/*.ipynb")  # those of the homework have masters


def notebooks() -> list[str]:
    """The notebooks of the course, as places in the project."""
    found = [str(path) for each in NOTEBOOKS for path in sorted(Path("notebooks").glob(each))]
    if not found:
        raise FileNotFoundError(
            "there is no folder notebooks beside setup.py: build in the project"
        )
    return found


class Build(build_py):
    """Install for running students' notebooks: without the masters, which have the solutions."""

    def find_package_modules(self, package: str, package_dir: str) -> list[Any]:
        found = super().find_package_modules(package, package_dir)
        if package == MASTERS and os.environ.get("NMTLIB_SOLUTIONS") == "0":
            return [module for module in found if module[1] == "__init__"]
        return found

    def find_data_files(self, package: str, src_dir: str) -> list[str]:
        found = super().find_data_files(package, src_dir)
        if os.environ.get("NMTLIB_SOLUTIONS") == "0":
            return [place for place in found if "masters" not in Path(place).parts]
        return found

    def run(self) -> None:
        super().run()
        for name in notebooks() if not self.editable_mode else ():  # a clone has them already
            place = Path(self.build_lib, "nmtcourse", name)
            self.mkpath(str(place.parent))
            self.copy_file(name, str(place))

    def get_source_files(self) -> list[str]:
        """Those of an sdist."""
        return [*super().get_source_files(), *notebooks()]


setup(cmdclass={"build_py": Build})
