"""Is everything here that the course needs?  Names what is missing or of another version, and how
to install it.

    python -m nmtlib.teaching.environment             exit status 1 where something is missing

It asks no network, changes nothing, and imports nothing but the standard library: it has to run
where all the rest is missing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]  # the folder nmtlib
REQUIREMENTS = PACKAGE.parent / "requirements.txt"
PYTHON = (3, 11)  # the oldest that runs the course
SHIPPED = (
    "trained/toy-de-en/model.safetensors",
    "trained/toy-en-zh/model.safetensors",
    "teaching/fonts/nmtlib-CJK.otf",
)
EXTRA = re.compile(r"""extra\s*==\s*["']([\w.-]+)["']""")


@dataclass(frozen=True)
class Environment:
    """What was found: packages with the version wanted, packages of another version, and what is
    not there.

    `same` maps a package to its version, `different` to (version found, version wanted), `missing`
    to the version wanted; `purposes` names the packages that only a part of the project uses.
    `absent` lists files of nmtlib.
    """

    same: Mapping[str, str]
    different: Mapping[str, tuple[str, str]]
    missing: Mapping[str, str]
    purposes: Mapping[str, str]
    absent: tuple[str, ...] = ()
    old_python: str = ""

    @property
    def complete(self) -> bool:
        """Whether nothing is missing; other versions may be there."""
        return not (self.missing or self.absent or self.old_python)

    def __str__(self) -> str:
        total = len(self.same) + len(self.different) + len(self.missing)
        lines = [f"{len(self.same)} of {total} packages have the version of requirements.txt"]
        lines += [
            f"missing        {name} {wanted}{self._purpose(name)}"
            for name, wanted in self.missing.items()
        ]
        lines += [
            f"other version  {name} {found}, the course was checked with {wanted}{self._purpose(name)}"
            for name, (found, wanted) in self.different.items()
        ]
        lines += [
            f"missing file   nmtlib/{file}: get the project again, with all its files"
            for file in self.absent
        ]
        if self.old_python:
            lines.append(
                f"old Python     {self.old_python}, wanted {PYTHON[0]}.{PYTHON[1]} or newer"
            )
        wanted = self.missing | {name: wanted for name, (_, wanted) in self.different.items()}
        if wanted:
            lines.append("To install them, run this in a cell, then restart the kernel:")
            lines.append(
                "    %pip install "
                + " ".join(f"{name}=={version}" for name, version in wanted.items())
            )
            lines.append(
                "or in a terminal, in the project's folder: python -m pip install -r requirements.txt"
            )
        if self.different and self.complete:
            lines.append(
                "Nothing is missing: go on, and come back here if something behaves oddly."
            )
        if self.complete and not self.different:
            lines.append("everything is there")
        return "\n".join(lines)

    def _purpose(self, name: str) -> str:
        return f" (only for: {self.purposes[name]})" if name in self.purposes else ""


def check_environment(requirements: str | Path = REQUIREMENTS) -> Environment:
    """Compare what is installed for this Python with the exact versions of a requirements file.

    Raises FileNotFoundError where there is no such file, ValueError where it pins no package.

    >>> print(check_environment())  # doctest: +SKIP
    22 of 22 packages have the version of requirements.txt
    everything is there
    """
    requirements = Path(requirements)
    if not requirements.is_file():
        raise FileNotFoundError(
            f"there is no {requirements}; it lies in the project's folder, beside the folder nmtlib: "
            f"give its path, as in check_environment('../{REQUIREMENTS.name}')"
        )
    wanted = pins(requirements.read_text("utf-8"))
    if not wanted:
        raise ValueError(f"{requirements} pins no package; expected lines such as torch==2.13.0")
    return compare(wanted)


def compare(
    wanted: Mapping[str, str],
    *,
    installed: Callable[[str], str | None] = metadata.version,
    folder: Path = PACKAGE,
    python: tuple[int, ...] = sys.version_info[:3],
) -> Environment:
    """Compare the versions that are wanted with those that `installed` finds, and look for the
    files in `folder`.
    """
    same, different, missing = {}, {}, {}
    for name, version in wanted.items():
        try:
            found = (installed(name) or "").partition("+")[0]  # "2.13.0+cpu" is a build of 2.13.0
        except metadata.PackageNotFoundError:
            found = ""
        if found == version:
            same[name] = version
        elif found:
            different[name] = found, version
        else:
            missing[name] = version
    absent = tuple(file for file in SHIPPED if not (folder / file).is_file())
    old = ".".join(map(str, python)) if tuple(python[:2]) < PYTHON else ""
    return Environment(same, different, missing, purposes(), absent, old)


def pins(text: str) -> dict[str, str]:
    """The packages that the text of a requirements file pins, with their versions; other lines are
    left out.

    >>> pins("torch==2.13.0  # for all\\n\\n-e .\\n")
    {'torch': '2.13.0'}
    """
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    found = (re.fullmatch(r"([A-Za-z0-9._-]+)\s*==\s*([0-9][0-9A-Za-z.]*)", line) for line in lines)
    return {match[1]: match[2] for match in found if match}


def purposes() -> dict[str, str]:
    """Packages that only one extra of nmtlib asks for, with its name; empty where nmtlib is not
    installed.
    """
    try:
        lines = metadata.requires("nmtlib") or []
    except metadata.PackageNotFoundError:
        return {}
    found = {re.match(r"[A-Za-z0-9._-]+", line)[0]: EXTRA.search(line) for line in lines}
    return {name: extra[1] for name, extra in found.items() if extra}


def main() -> int:
    """Print what is missing or different; 1 where something is missing."""
    environment = check_environment()
    print(environment)
    return 0 if environment.complete else 1


if __name__ == "__main__":
    sys.exit(main())
