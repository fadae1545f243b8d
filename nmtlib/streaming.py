"""Translate standard input: in batches, in order, in bounded memory, without losing a line."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import islice

from tqdm import tqdm

from nmtlib.files import decoded_lines
from nmtlib.inference.translator import Translator

CHUNK = 1_000  # lines that are read and translated together; a terminal gets its answers one by one


def translate_stream(translator: Translator, beam: int | None) -> int:
    """Print the translation of each line of standard input.

    A line that cannot be translated gets an empty translation and a complaint with its number; the
    others go on, and the exit status is then 1.
    """
    if sys.stdin is None or sys.stdin.closed:
        raise ValueError("standard input is closed; give sentences as arguments, or a file with <")
    talking = sys.stdin.isatty()
    lines = read_lines()
    bar = tqdm(unit=" lines", disable=talking or not sys.stderr.isatty() or sys.stdout.isatty())
    status, done = 0, 0
    with bar:
        while chunk := list(islice(lines, 1 if talking else CHUNK)):
            complaints = [translator.complaint(line) for line in chunk]
            good = [line for line, wrong in zip(chunk, complaints, strict=True) if not wrong]
            warn_of_unknown_words(translator, good)
            translations = iter(translator.translate(good, beam=beam))
            for number, wrong in enumerate(complaints, start=done + 1):
                if wrong:
                    print(f"nmtlib: line {number}: {wrong}", file=sys.stderr)
                    status = 1
                print("" if wrong else next(translations))
            sys.stdout.flush()
            done += len(chunk)
            bar.update(len(chunk))
    return status


def read_lines() -> Iterator[str]:
    """The lines of standard input, in UTF-8 whatever the system's encoding is."""
    raw = getattr(sys.stdin, "buffer", None)  # a stream of text, as in tests, has none
    if raw is None:
        yield from (line.strip() for line in sys.stdin)
        return
    # readline, not iteration, so that a person's line is not kept in a read-ahead buffer.
    for line in decoded_lines(iter(raw.readline, b""), "standard input"):
        yield line.strip()


def warn_of_unknown_words(translator: Translator, sentences: Sequence[str]) -> None:
    """Name on stderr the words that the model has never seen: it can only guess around them."""
    unknown = {word: None for sentence in sentences for word in translator.unknown(sentence)}
    if unknown:
        shown = ", ".join(list(unknown)[:10]) + (", …" if len(unknown) > 10 else "")
        print(f"nmtlib: not in the vocabulary: {shown}", file=sys.stderr)
