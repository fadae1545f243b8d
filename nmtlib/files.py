"""Files that are written whole or not at all, and text that is read line by line."""

from __future__ import annotations

import gzip
import json
import os
import secrets
import stat
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path


def write_atomically(path: str | Path, data: bytes | str) -> None:
    """Write a file so that at any moment it has either all of its old bytes or all of the new.

    Text is written as UTF-8.  A link is followed; a pipe or a device is written to.  Raises OSError
    that names the file where the disk is full or the folder cannot be written.
    """
    path = Path(os.path.realpath(path))  # a link stays one
    data = data.encode("utf-8") if isinstance(data, str) else data
    if path.exists() and not path.is_file() and not path.is_dir():  # a pipe or a device
        path.write_bytes(data)
        return
    # The random name keeps two processes from writing into one part file.
    part = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    try:
        with open(part, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():  # what was private stays private
            os.chmod(part, stat.S_IMODE(path.stat().st_mode))
        os.replace(part, path)
    except OSError as error:
        raise OSError(
            error.errno,
            f"could not write {path} ({error.strerror}); what it held before is untouched: "
            "make room or choose another place",
        ) from None
    finally:  # also after an interruption; a complete file has its own name by now
        with suppress(OSError):
            part.unlink()


def require_ours(path: Path, option: str, key: str = "") -> None:
    """Raise ValueError naming an option unless its file may be written; its folder must be there.

    With `key`, an existing file must be an earlier result: JSON that has the key.
    """
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError(
            f"{option} {path} must be a file in a folder that is there; choose another"
        )
    try:
        ours = not key or not path.is_file() or key in json.loads(path.read_bytes())
    except (ValueError, TypeError):  # no JSON, or a number
        ours = False
    if not ours:
        raise ValueError(
            f"{option} {path} is there already and is no earlier result; it is not overwritten: "
            f"choose another file"
        )


def text_lines(path: str | Path) -> Iterator[str]:
    """The lines of a UTF-8 text file, one at a time, without line ends; a `.gz` is decompressed.

    Raises FileNotFoundError for a missing file, ValueError for a damaged one or one not in UTF-8.
    """
    if not isinstance(path, str | Path):
        raise ValueError(f"expected the path of a text file, not {path!r}")
    path = Path(path)
    if not path.is_file():
        cure = "" if str(path).isprintable() else ": in TOML write / or '…', not \\"
        raise FileNotFoundError(f"no such text file: {path}{cure}")
    with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
        try:
            yield from decoded_lines(file, str(path))
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ValueError(
                f"{path}: not a complete gzip file ({error}); fetch it again"
            ) from error


def decoded_lines(raw_lines: Iterable[bytes], where: str) -> Iterator[str]:
    """Lines of UTF-8 bytes as text, without line ends and byte order mark.

    The lines are those of a binary file, so only \\n ends one: str.splitlines would also split at
    U+2028 and break the pairing of two files.  Raises ValueError naming `where` and the line.
    """
    for number, raw in enumerate(raw_lines, start=1):
        yield decoded(raw, number, where)


def decoded(raw: bytes, number: int, where: str) -> str:
    """One line of `decoded_lines`, counted from 1."""
    raw = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
    try:
        text = raw.removesuffix(b"\n").decode("utf-8").removesuffix("\r")
        why = "it holds a NUL byte" if "\0" in text else ""
    except UnicodeDecodeError as error:
        text, why = "", error.reason
    if why:
        advice = "convert it; nmtlib data check FILE tells from what"
        raise ValueError(f"{where}, line {number}: not valid UTF-8 text: {why}; {advice}")
    return text
