"""Translate standard input: in batches, in order, in bounded memory, without losing a line."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import islice

from tqdm import tqdm

from nmtlib.files import decoded
from nmtlib.inference.translator import Translator

CHUNK = 1_000  # lines that are read and translated together; a person gets answers one by one


def translate_stream(translator: Translator, beam: int | None) -> int:
    """Print the translation of each line of standard input.

    A line that cannot be translated gets an empty translation and a complaint with its number; the
    others go on, and the exit status is then 1.
    """
    if sys.stdin is None or sys.stdin.closed:
        raise ValueError("standard input is closed; give sentences as arguments, or a file with <")
    talking = sys.stdin.isatty()
    quiet = talking or sys.stdout.isatty() or not sys.stderr.isatty()
    lines, status = enumerate(raw_lines(), start=1), 0
    with tqdm(unit=" lines", disable=quiet) as bar:
        while chunk := list(islice(lines, 1 if talking else CHUNK)):
            read = [understand(translator, raw, number) for number, raw in chunk]
            sentences = [sentence for sentence, _ in read]
            warn_of_unknown_words(translator, sentences)
            for _, complaint in read:
                if complaint:
                    print(f"nmtlib: {complaint}", file=sys.stderr)
                    status = 1
            print("\n".join(translator.translate(sentences, beam=beam)), flush=True)
            bar.update(len(chunk))
    return status


def raw_lines() -> Iterator[bytes]:
    """The lines of standard input as bytes: they are UTF-8, whatever the system's encoding is."""
    if hasattr(sys.stdin, "buffer"):
        # readline and not iteration, which would read ahead while a person waits for an answer.
        return iter(sys.stdin.buffer.readline, b"")
    return (line.encode() for line in sys.stdin)


def understand(translator: Translator, raw: bytes, number: int) -> tuple[str, str]:
    """The sentence of a line, and ''; or '' and why the line cannot be translated."""
    try:
        sentence = decoded(raw, number, "standard input").strip()
        translator.read(sentence)
    except ValueError as error:
        where = f"standard input, line {number}: "
        return "", where + str(error).removeprefix(where)
    return sentence, ""


def warn_of_unknown_words(translator: Translator, sentences: Sequence[str]) -> None:
    """Name on stderr the words that the model has never seen: it can only guess around them."""
    unknown = {word: None for sentence in sentences for word in translator.unknown(sentence)}
    if unknown:
        first = [
            word[:40] if word.isprintable() else ascii(word[:40]) for word in list(unknown)[:10]
        ]
        shown = ", ".join(first) + (", …" if len(unknown) > 10 else "")
        print(f"nmtlib: not in the vocabulary: {shown}", file=sys.stderr)
