"""Where public corpora are kept, and downloads that leave a whole, verified file or none."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable
from http.client import HTTPException, IncompleteRead
from io import BytesIO
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tqdm import tqdm

from nmtlib.files import write_atomically

TIMEOUT = 20.0  # seconds a server may stay silent
# Takes a file's contents and where they come from; raises ValueError where they are wrong.
Verify = Callable[[bytes, str], None]


def cache_folder() -> Path:
    """The folder of the corpora: `$NMTLIB_DATA`, otherwise `nmtlib` among the user's caches.

    That is `$XDG_CACHE_HOME/nmtlib` or `~/.cache/nmtlib`, on macOS `~/Library/Caches/nmtlib`, on
    Windows `%LOCALAPPDATA%\\nmtlib`.  The folder is named, not made.  Raises ValueError for the
    home of somebody unknown.
    """
    if chosen := os.environ.get("NMTLIB_DATA"):
        if (folder := os.path.expanduser(chosen)).startswith("~"):
            raise ValueError(f"NMTLIB_DATA is {chosen!r}, but nobody of that name has a home here")
        return Path(folder)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or _home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = _home() / "Library" / "Caches"
    else:
        base: str | Path = os.environ.get("XDG_CACHE_HOME", "")
        # The XDG specification tells programs to ignore a relative path here.
        base = base if os.path.isabs(base) else _home() / ".cache"
    return Path(base) / "nmtlib"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        raise ValueError(
            "your home folder is not known (HOME is not set), so corpora have no place; set the "
            "environment variable NMTLIB_DATA to a folder for them"
        ) from None


def verify_sha256(data: bytes, where: str, expected: str) -> None:
    """Raise ValueError unless the SHA-256 of the data is `expected` (64 hex digits)."""
    if (given := hashlib.sha256(data).hexdigest()) != expected:
        raise ValueError(f"{where}: its SHA-256 is {given}, expected {expected}")


def download(
    url: str, path: Path, verify: Verify, *, attempts: int = 4, pause: float = 0.5
) -> None:
    """Fetch `url` into `path`, which appears in one step once `verify` accepts the contents.

    A broken connection is tried again after `pause`, 2 `pause`, 4 `pause` ... seconds.  Raises
    FileNotFoundError, with what to get and where to put it, when the server cannot be reached or
    lacks the file, ValueError for wrong contents, and OSError when nothing can be written.
    """
    for attempt in range(1, attempts + 1):
        try:
            data = _receive(url)
            break
        except (OSError, HTTPException) as error:
            answer = error.code if isinstance(error, HTTPError) else None
            refused = answer is not None and answer < 500 and answer not in (408, 429)
            if refused or attempt == attempts:
                raise FileNotFoundError(
                    f"{path} is missing and could not be fetched (attempt {attempt}: {error}).  "
                    f"Get {url} and save it as {path}, or set the environment variable NMTLIB_DATA "
                    f"to a folder that holds {path.parent.name}/{path.name}"
                ) from error
            time.sleep(pause * 2 ** (attempt - 1))
    try:
        verify(data, url)
    except ValueError as error:
        raise ValueError(f"this is not the expected file and was not kept: {error}") from error
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, data)


def _receive(url: str) -> bytes:
    """All that the server sends, with a bar on a terminal."""
    request, data = Request(url, headers={"User-Agent": "nmtlib"}), BytesIO()
    with urlopen(request, timeout=TIMEOUT) as response:
        total = response.length
        bar = {"total": total, "desc": url.rpartition("/")[2], "leave": False, "disable": None}
        with tqdm.wrapattr(response, "read", **bar) as body:
            shutil.copyfileobj(body, data)
    if total is not None and data.tell() != total:
        raise IncompleteRead(data.getvalue(), total - data.tell())
    return data.getvalue()
