"""The one way into files: what is written is whole or not at all, and nothing of others is lost.

Nothing else in the three packages opens a file for writing (`tests/test_files.py`).  A command
names what it writes with an option of type `OutFile` or `OutFolder`, which looks before any work
whether something is there that this option did not write.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TextIO

STAMP = re.compile(r"<!-- written by nmtlib, ([0-9a-f]{16}) -->\n")
UNFINISHED = ".unfinished-nmtlib-folder"  # marks a folder that `new_folder` has not completed


def write_atomically(path: str | Path, data: bytes | str) -> None:
    """Write a file so that at any moment it has either all of its old bytes or all of the new.

    Text is written as UTF-8.  A link is followed; a pipe or a device is written to.  Raises OSError
    that names the file where the disk is full or the folder cannot be written.
    """
    path = Path(os.path.realpath(path))  # a link stays one
    data = data.encode("utf-8") if isinstance(data, str) else data
    # The random name keeps two processes from writing into one part file.
    part = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    is_stream = path.exists() and not path.is_file() and not path.is_dir()  # a pipe or a device
    try:
        if is_stream:
            path.write_bytes(data)
            return
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
        if not is_stream:
            with suppress(OSError):
                part.unlink()


def write_output(path: Path, data: bytes | str) -> None:
    """Write what an `OutFile` names: its folder is made where it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, data)


def append_line(path: Path, line: str) -> None:
    """Add a line to a log."""
    with open(path, "a", encoding="utf-8") as file:
        file.write(line + "\n")


def open_new(path: Path) -> TextIO:
    """A new text file to write line by line, in a folder that `new_folder` is making."""
    return open(path, "x", encoding="utf-8", newline="\n")


def open_to_continue(path: Path, size: int) -> IO[bytes]:
    """A file cut to its first `size` bytes, to be continued after them; made where it is missing.

    Only for a file of ours with a record of how far it is: bytes after `size` are lost.
    """
    path.touch()
    file = open(path, "r+b")
    file.truncate(size)
    file.seek(size)
    return file


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A folder to fill, which takes the place of `out` at the end; a failure leaves nothing.

    It is called `.NAME.part` and lies beside `out`, which must be new or empty.  A process that is
    killed leaves it, and the next one removes it.  Raises FileExistsError where a folder of that
    name was not made here, OSError naming `out` where the disk is full.
    """
    OutFolder("new folder").prepare(out)
    out = out.resolve()
    out.parent.mkdir(parents=True, exist_ok=True)
    part = part_of(out)
    part.mkdir()
    try:
        (part / UNFINISHED).touch()
        yield part
        (part / UNFINISHED).unlink()
        if out.exists():
            out.rmdir()
        part.rename(out)
    except OSError as error:
        why = error.strerror or error
        raise OSError(error.errno, f"could not write {out} ({why}); nothing was left") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


def part_of(out: Path) -> Path:
    """The folder that `new_folder` fills."""
    out = out.resolve()
    return out.with_name(f".{out.name}.part")


def remove_unfinished(part: Path) -> None:
    """Remove a folder that `new_folder` left when its process was killed.

    Raises FileExistsError for anything else of that name.
    """
    if (part / UNFINISHED).is_file():
        shutil.rmtree(part)
    elif part.is_dir() and not any(part.iterdir()):  # killed before the mark was there
        part.rmdir()
    elif part.exists():
        raise FileExistsError(
            f"{part} is in the way and is no folder that nmtlib left unfinished; it is not "
            "removed: move it, or choose another folder"
        )


def is_any(path: Path) -> bool:
    """For an option whose command looks at each file that it writes."""
    return True


def is_never_ours(path: Path) -> bool:
    """For an option whose file must be new."""
    return False


@dataclass(frozen=True)
class OutFile:
    """The type of an option that names a file to write, checked before any work.

    An existing file is replaced only where `is_ours` says that this option wrote it earlier;
    `kind` is what such a file is called.  Missing folders are made when the file is written.
    """

    kind: str
    is_ours: Callable[[Path], bool] = is_never_ours

    def __call__(self, text: str) -> Path:
        self.require(path := Path(text))
        return path

    def require(self, path: Path) -> None:
        """Raise OSError unless a file can be written at `path` without a loss."""
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a folder; give the name of a file ({self.kind})")
        require_writable(path)
        if not path.is_file() or not path.stat().st_size:  # new, a pipe, a device, or empty
            return
        try:
            ours = self.is_ours(path)
        except Exception:  # whatever it is, it cannot be read as our kind
            ours = False
        if not ours:
            raise FileExistsError(
                f"{path} is there already and is no {self.kind}; it is not overwritten: choose "
                "another file"
            )


@dataclass(frozen=True)
class OutFolder:
    """The type of an option that names a folder to write: new, empty, or one of ours.

    `is_ours` says of a folder that is not empty whether this option may write into it.
    """

    kind: str
    is_ours: Callable[[Path], bool] = is_never_ours

    def __call__(self, text: str) -> Path:
        self.prepare(path := Path(text))
        return path

    def prepare(self, path: Path) -> None:
        """Raise OSError unless the folder can be written without a loss.

        What an ended `new_folder` of this name has left is removed.
        """
        if self.is_ours is is_never_ours:  # `new_folder` will make it
            remove_unfinished(part_of(path))
        if not path.exists():
            require_writable(path)
            return
        if not path.is_dir():
            raise FileExistsError(
                f"{path} is a file; nothing is overwritten: give the name of a folder ({self.kind})"
            )
        if any(path.iterdir()) and not self.is_ours(path):
            what = "not empty" if self.is_ours is is_never_ours else f"is no {self.kind}"
            raise FileExistsError(
                f"{path} is there already and {what}; nothing is overwritten: choose another folder"
            )


def require_writable(path: Path) -> None:
    """Raise OSError unless the nearest folder that exists above `path` can be written to."""
    above = next(folder for folder in path.absolute().parents if folder.exists())
    if not above.is_dir():
        raise NotADirectoryError(f"{path} cannot be written: {above} is a file, not a folder")
    if not os.access(above, os.W_OK):
        raise PermissionError(f"{path} cannot be written: the folder {above} is not writable")


def has_keys(*keys: str) -> Callable[[Path], bool]:
    """For `OutFile`: the file is a JSON object with these keys."""

    def is_ours(path: Path) -> bool:
        found = json.loads(path.read_bytes())
        return isinstance(found, dict) and found.keys() >= {*keys}

    return is_ours


def begins_with(*starts: str) -> Callable[[Path], bool]:
    """For `OutFile`: the file begins with one of these texts."""

    def is_ours(path: Path) -> bool:
        with open(path, "rb") as file:
            head = file.read(1_000)
        return head.startswith(tuple(start.encode() for start in starts))

    return is_ours


def has_mark(mark: str) -> Callable[[Path], bool]:
    """For `OutFile`: the file has this text near its beginning."""

    def is_ours(path: Path) -> bool:
        with open(path, "rb") as file:
            return mark.encode() in file.read(4_000)

    return is_ours


def stamp(head: str, tail: str = "") -> str:
    """A page of HTML or Markdown with a comment between both parts that holds their digest."""
    return f"{head}<!-- written by nmtlib, {_digest(head + tail)} -->\n{tail}"


def is_stamped(path: Path) -> bool:
    """For `OutFile`: the page is as `stamp` left it, so nobody has written into it."""
    text = path.read_text("utf-8")
    comment = STAMP.search(text)
    return comment is not None and _digest(text.replace(comment[0], "", 1)) == comment[1]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def names_a_file(text: str | Path) -> bool:
    """Whether a text of a user, which may be anything, is the path of a file.

    `Path.is_file` raises where a text is longer than any name, or has a NUL; this never raises.
    """
    return os.path.isfile(text)


def text_lines(path: str | Path) -> Iterator[str]:
    """The lines of a UTF-8 text file, one at a time, without line ends; a `.gz` is decompressed.

    Raises FileNotFoundError for a missing file, ValueError for a damaged one or one not in UTF-8.
    """
    if not isinstance(path, str | Path):
        raise ValueError(f"expected the path of a text file, not {path!r}")
    path = Path(path)
    if not names_a_file(path):
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


def refuse_utf16(first_line: bytes, where: str) -> None:
    """Raise ValueError if a text begins with the mark of UTF-16, as PowerShell writes it."""
    if first_line.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError(
            f"{where}: this is UTF-16, as its first two bytes say; expected UTF-8; convert it, for "
            "example with: iconv -f UTF-16 -t UTF-8 FILE > NEW"
        )


def decoded(raw: bytes, number: int, where: str) -> str:
    """One line of `decoded_lines`, counted from 1."""
    if number == 1:
        refuse_utf16(raw, where)
        raw = raw.removeprefix(b"\xef\xbb\xbf")
    try:
        text = raw.removesuffix(b"\n").decode("utf-8").removesuffix("\r")
        why = "it holds a NUL byte" if "\0" in text else ""
    except UnicodeDecodeError as error:
        text, why = "", error.reason
    if why:
        advice = "convert it; nmtlib data check FILE tells from what"
        raise ValueError(f"{where}, line {number}: not valid UTF-8 text: {why}; {advice}")
    return text
