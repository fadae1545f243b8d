"""One digest of many files: whether a result was measured with the sources of today."""

from __future__ import annotations

import hashlib
from pathlib import Path


def digest_of(root: Path, *patterns: str) -> str:
    """SHA-256 over the names and contents of all files below `root` that fit one of the globs."""
    files = {path for pattern in patterns for path in root.glob(pattern) if path.is_file()}
    digest = hashlib.sha256()
    for name, path in sorted((path.relative_to(root).as_posix(), path) for path in files):
        content = path.read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()
