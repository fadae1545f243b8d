"""Is everything here that the course needs?  What is missing, and how to install it.

    python -m nmtcourse.teaching.environment             exit status 1 where something is missing

It asks no network, changes nothing, and imports nothing but the standard library: it has to run
where all the rest is missing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]  # where the packages are, in a clone the project
REQUIREMENTS = ROOT / "requirements.txt"
COURSE = re.compile(r"^[^;]+$|extra == .notebooks")  # requirements of the package or the course
PYTHON = (3, 11)  # the oldest that runs the course
SHIPPED = (
    "nmtlib/trained/cmn-en-zh/model.safetensors",
    "nmtlib/trained/multi30k-de-en/model.safetensors",
    "nmtlib/trained/toy-de-en/model.safetensors",
    "nmtlib/trained/toy-en-zh/model.safetensors",
    "nmtcourse/teaching/fonts/nmtlib-CJK.otf",
)


@dataclass(frozen=True)
class Environment:
    """What was found: `same` maps packages to their version, `missing` to the version wanted.

    `different` maps to (version found, version wanted); `absent` lists files of the packages.
    """

    same: Mapping[str, str]
    different: Mapping[str, tuple[str, str]]
    missing: Mapping[str, str]
    absent: tuple[str, ...] = ()
    old_python: str = ""
    compared_with: str = REQUIREMENTS.name

    @property
    def complete(self) -> bool:
        """Whether nothing is missing; other versions may be there."""
        return not (self.missing or self.absent or self.old_python)

    def __str__(self) -> str:
        total = len(self.same) + len(self.different) + len(self.missing)
        lines = [f"{len(self.same)} of {total} packages have the version of {self.compared_with}"]
        lines += [f"missing        {name} {version}" for name, version in self.missing.items()]
        for name, (now, version) in self.different.items():
            lines.append(f"other version  {name} {now}, the course was checked with {version}")
        for file in self.absent:
            lines.append(f"missing file   {file}: get the project again, with all its files")
        if self.old_python:
            oldest = ".".join(map(str, PYTHON))
            lines.append(f"old Python     {self.old_python}, wanted {oldest} or newer")
        pinned = self.missing | {name: version for name, (_, version) in self.different.items()}
        if pinned:
            lines += [
                "To install them, run this in a cell, then restart the kernel:",
                "    %pip install " + " ".join(map("==".join, pinned.items())),
            ]
            if self.compared_with == REQUIREMENTS.name:
                lines[-1] += (
                    "\nor in a terminal, in the project's folder: "
                    "python -m pip install -r requirements.txt"
                )
        if self.different and self.complete:
            lines.append("Nothing is missing: go on, and come back if something behaves oddly.")
        elif self.complete:
            lines.append("everything is there")
        return "\n".join(lines)


def check_environment(requirements: str | Path | None = None) -> Environment:
    """Compare what is installed for this Python with the exact versions of a requirements file.

    By default that is the project's; where nmtlib is installed without its project, what it asks
    for counts, in any version that it allows.
    Raises FileNotFoundError where there is no such file, ValueError where it pins no package.

    >>> print(check_environment())  # doctest: +SKIP
    22 of 22 packages have the version of requirements.txt
    everything is there
    """
    if requirements is None and not REQUIREMENTS.is_file():
        return compare(lower_bounds(metadata.requires("nmtlib") or []), exact=False)
    requirements = Path(requirements or REQUIREMENTS)
    if not requirements.is_file():
        raise FileNotFoundError(
            f"there is no {requirements}; it lies in the project's folder, beside the folder "
            f"nmtlib: give its path, as in check_environment('../{REQUIREMENTS.name}')"
        )
    versions = pins(requirements.read_text("utf-8"))
    if not versions:
        raise ValueError(f"{requirements} pins no package; expected lines such as torch==2.13.0")
    return compare(versions)


def compare(
    wanted: Mapping[str, str],
    *,
    installed: Callable[[str], str | None] = metadata.version,
    folder: Path = ROOT,
    python: tuple[int, ...] = sys.version_info[:3],
    exact: bool = True,
) -> Environment:
    """Compare wanted versions with those that `installed` finds; look for files in `folder`.

    Where they are not `exact`, they are the oldest that nmtlib allows.
    """
    same, different, missing = {}, {}, {}
    for name, version in wanted.items():
        try:
            now = (installed(name) or "").partition("+")[0]  # "2.13.0+cpu" is a build of 2.13.0
        except metadata.PackageNotFoundError:
            now = ""
        if now == version or (now and not exact):
            same[name] = now
        elif now:
            different[name] = now, version
        else:
            missing[name] = version
    absent = tuple(file for file in SHIPPED if not (folder / file).is_file())
    old = ".".join(map(str, python)) if tuple(python[:2]) < PYTHON else ""
    compared_with = REQUIREMENTS.name if exact else "those that nmtlib asks for"
    return Environment(same, different, missing, absent, old, compared_with)


def pins(text: str) -> dict[str, str]:
    """The packages that the lines of a requirements file pin, with their versions.

    >>> pins("torch==2.13.0  # for all\\n\\n-e .\\n")
    {'torch': '2.13.0'}
    """
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    pin = re.compile(r"([A-Za-z0-9._-]+)\s*==\s*([0-9][0-9A-Za-z.]*)")
    return {match[1]: match[2] for match in map(pin.fullmatch, lines) if match}


def lower_bounds(requires: Iterable[str]) -> dict[str, str]:
    """The packages of a distribution's requirements and the oldest versions of them.

    >>> lower_bounds(["torch>=2.10", "nbval>=0.11; extra == 'notebooks'", "x>=2; extra == 'dev'"])
    {'torch': '2.10', 'nbval': '0.11'}
    """
    matches = (re.match(r"([\w.-]+)>=([\d.]+)", line) for line in requires if COURSE.search(line))
    return {match[1]: match[2] for match in matches if match}


def main() -> int:
    """Print what is missing or different; 1 where something is missing."""
    environment = check_environment()
    print(environment)
    return 0 if environment.complete else 1


if __name__ == "__main__":
    sys.exit(main())
