"""Print the lower bounds of pyproject.toml as exact versions, one a line: constraints for pip."""

import re
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))[
    "project"
]


def oldest() -> list[str]:
    """`name==version` for every dependency, those of the extras included."""
    extras = PROJECT["optional-dependencies"].values()
    ranges = [*PROJECT["dependencies"], *(line for extra in extras for line in extra)]
    bounds = (re.match(r"([\w.-]+)>=([\w.]+)", line) for line in ranges)
    return [f"{bound[1]}=={bound[2]}" for bound in bounds if bound]


if __name__ == "__main__":
    print("\n".join(oldest()))
