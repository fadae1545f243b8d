"""Where public corpora are kept, and downloads that leave a whole, verified file or none."""

from __future__ import annotations

import hashlib
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tqdm import tqdm

BLOCK = 1 << 16  # bytes read at once
TIMEOUT = 20.0  # seconds a server may stay silent
Verify = Callable[[Path], None]  # raises ValueError where the file's contents are wrong


class ChecksumError(ValueError):
    """A file is there, but its contents are not the published ones."""


class _Broken(Exception):
    """The connection failed in a way that a further attempt may cure."""


def cache_folder() -> Path:
    """The folder that holds the corpora: `$NMTLIB_DATA`, otherwise `nmtlib` among the user's
    caches.

    That is `$XDG_CACHE_HOME/nmtlib` or `~/.cache/nmtlib`, on macOS `~/Library/Caches/nmtlib`, on
    Windows `%LOCALAPPDATA%\\nmtlib`.  The folder is named, not made.
    """
    if chosen := os.environ.get("NMTLIB_DATA"):
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME", "")
        # The XDG specification tells programs to ignore a relative path here.
        base = base if os.path.isabs(base) else Path.home() / ".cache"
    return Path(base) / "nmtlib"


def verify_sha256(path: Path, expected: str) -> None:
    """Raise ChecksumError (a ValueError) unless the file's SHA-256 is `expected` (64 hex digits)."""
    with open(path, "rb") as file:
        given = hashlib.file_digest(file, "sha256").hexdigest()
    if given != expected:
        raise ChecksumError(f"{path}: its SHA-256 is {given}, expected {expected}")


def download(
    url: str,
    path: Path,
    verify: Verify,
    *,
    progress: bool = True,
    attempts: int = 4,
    pause: float = 0.5,
) -> Path:
    """Fetch `url` into `path`, which appears in one step once `verify` accepts the whole part file.

    A broken connection is tried again after `pause`, 2 `pause`, 4 `pause` ... seconds and goes on
    where it stopped if the server can; a later call resumes from `<name>.part` in the same way.
    Raises ConnectionError when the server cannot be reached or lacks the file, ChecksumError for
    wrong contents, and OSError when the disk is full or the folder read-only; the last two leave no
    part file behind.
    """
    part = path.with_name(f"{path.name}.part")
    # Renaming takes the left-over for this call alone: two processes must never write into one
    # file.
    mine = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    with suppress(OSError):
        os.replace(part, mine)
    try:
        _receive_patiently(url, mine, path.name, progress, attempts, pause)
        verify(mine)
        os.replace(mine, path)
    except ConnectionError:
        raise
    except ValueError as error:
        mine.unlink(missing_ok=True)
        raise ChecksumError(
            f"{url} is not the expected file, so it was deleted: {error}"
        ) from error
    except OSError as error:
        mine.unlink(missing_ok=True)
        advice = "make room, or set NMTLIB_DATA to a folder with space that you may write to"
        raise OSError(error.errno, f"{error.strerror} ({advice})", str(path)) from error
    finally:
        with suppress(OSError):  # whatever stopped us, Ctrl-C too: a later call goes on from here
            os.replace(mine, part)
    return path


def _receive_patiently(
    url: str, mine: Path, label: str, progress: bool, attempts: int, pause: float
) -> None:
    for attempt in range(1, attempts + 1):
        try:
            return _receive(url, mine, label, progress)
        except _Broken as error:
            if attempt == attempts:
                raise ConnectionError(
                    f"{url}: gave up after {attempts} attempts: {error}"
                ) from error
            time.sleep(pause * 2 ** (attempt - 1))


def _receive(url: str, mine: Path, label: str, progress: bool) -> None:
    """Append to `mine` what it lacks, or write it anew where the server sends the whole file."""
    have = mine.stat().st_size if mine.exists() else 0
    with _open(url, have, mine) as response:
        start = have if response.status == 206 else 0
        if start and not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
            mine.unlink()
            raise _Broken(f"asked for byte {start} onwards, the server sent other bytes")
        total = None if response.length is None else start + response.length
        # Only now that a server has answered is anything written: an offline run leaves the cache
        # alone.
        mine.parent.mkdir(parents=True, exist_ok=True)
        bar = tqdm(
            desc=label,
            total=total,
            initial=start,
            unit="B",
            unit_scale=True,
            leave=False,
            disable=None if progress else True,
        )
        with bar, open(mine, "ab" if start else "wb") as file:
            for block in _blocks(response):
                file.write(block)
                bar.update(len(block))
            file.flush()
            os.fsync(file.fileno())  # the rename must not reach the disk before the bytes do
    if total is not None and mine.stat().st_size != total:
        raise _Broken(f"the connection closed after {mine.stat().st_size} of {total} bytes")


def _open(url: str, have: int, mine: Path) -> HTTPResponse:
    headers = {"User-Agent": "nmtlib"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        return urlopen(Request(url, headers=headers), timeout=TIMEOUT)
    except HTTPError as error:
        error.close()
        if error.code == 416:  # what we have is no beginning of this file
            mine.unlink(missing_ok=True)
        if error.code in (408, 416, 429) or error.code >= 500:
            raise _Broken(f"HTTP {error.code} {error.reason}") from error
        raise ConnectionError(
            f"{url}: the server answered HTTP {error.code} {error.reason}"
        ) from error
    except (OSError, HTTPException) as error:
        raise _Broken(str(error)) from error


def _blocks(response: HTTPResponse) -> Iterator[bytes]:
    try:
        while block := response.read(BLOCK):
            yield block
    except (
        OSError,
        HTTPException,
    ) as error:  # the network's failure; one to write would be the disk's
        raise _Broken(f"the connection broke: {error!r}") from error
