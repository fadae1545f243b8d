"""What can be wrong with a corpus: how bad it is, in words, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Level = Literal["wrong", "warning", "note"]
LEVELS: tuple[Level, ...] = ("wrong", "warning", "note")
EXAMPLES = 3  # of each finding
SHOWN = 100  # characters of an example's side


class Kind(NamedTuple):
    """One kind of finding.  Below the `share` of pairs it is a note only."""

    level: Level
    what: str
    todo: str
    share: float = 0.0


DROPS = "--fix drops these pairs, both sides together"
KINDS: dict[str, Kind] = {
    # Files
    "file": Kind("wrong", "a file that training cannot read", ""),
    "name": Kind("wrong", "a name that does not tell whether the file is compressed", ""),
    "encoding": Kind("wrong", "not in UTF-8", ""),
    "decoded": Kind("note", "read in another encoding than UTF-8", "--fix writes UTF-8"),
    "columns": Kind("wrong", "lines with another number of columns", DROPS),
    "chosen": Kind("wrong", "columns that are not source TAB target", ""),
    "partner": Kind("wrong", "a line without a partner in the other file", DROPS),
    "header": Kind("wrong", "a header line", DROPS),
    "record": Kind("wrong", "an entry that cannot be read", DROPS),
    "same file": Kind("wrong", "one file given twice", "give the file of the translations"),
    "no split": Kind("wrong", "no validation pairs", "add --split 500 to --fix: it holds some out"),
    "language": Kind("warning", "a language tag that is unknown", ""),
    "other language": Kind(
        "warning", "not the language of its tag", "give the right file, or the right tag"
    ),
    # One side of one pair
    "empty": Kind("wrong", "an empty side (blank or invisible characters only)", DROPS),
    "word": Kind("wrong", "a word of more than 1,000 characters, which training refuses", DROPS),
    "reserved": Kind("wrong", "a literal <PAD>, <BOS> or <EOS>, symbols of the model", DROPS),
    "damaged": Kind("warning", "U+FFFD: characters lost in an earlier conversion", DROPS, 0.01),
    "mojibake": Kind(
        "warning",
        "UTF-8 that was once read as another encoding (Ã¤ for ä)",
        "--fix repairs what can be repaired",
        0.01,
    ),
    "entities": Kind(
        "warning", "HTML entities such as &quot; (or escapes, \\u00fc)", "--fix resolves them", 0.01
    ),
    "tags": Kind("warning", "markup such as <b>", "--fix removes it", 0.01),
    "marks": Kind(
        "warning",
        "subword marks of another tool (@@, ▁, ￭, ##)",
        "--fix joins the words; otherwise BLEU is counted on pieces",
        0.0,
    ),
    "underscore": Kind(
        "warning",
        "a literal ▁ (U+2581), which tokenizers use for spaces",
        "--fix writes _ for it",
        0.0,
    ),
    "decomposed": Kind(
        "warning",
        "Unicode that is not in form NFC (a letter and its accent apart)",
        "--fix composes it",
        0.01,
    ),
    "invisible": Kind("warning", "invisible characters", "--fix removes them", 0.01),
    "mark of order": Kind(
        "warning",
        "a byte order mark inside a file",
        "--fix removes it; files were joined here",
        0.0,
    ),
    "return": Kind(
        "warning",
        "line breaks or control characters inside a line",
        "--fix writes a space; look whether the other side has the break too",
        0.01,
    ),
    "wide": Kind(
        "warning",
        "full-width or other compatibility letters (Ａ, ﬁ)",
        "--fix leaves them; NFKC would also change punctuation",
        0.05,
    ),
    # Both sides, or a whole split
    "equal": Kind("wrong", "both sides are equal", "", 0.5),
    "exchanged": Kind("wrong", "source and target look exchanged", "--fix exchanges them"),
    "turned": Kind("warning", "pairs the other way round", "--fix exchanges their sides", 0.01),
    "untranslated": Kind("warning", "one side is in the language of the other", DROPS, 0.02),
    "script": Kind("wrong", "another script than the language is written in", "", 0.5),
    "shifted": Kind("wrong", "lines are shifted against each other", "", 0.02),
    "unrelated": Kind("wrong", "sides do not belong together", ""),
    "validation leak": Kind(
        "wrong", "the source is also in train", "--fix drops it from train", 0.5
    ),
    "leak": Kind("warning", "the source is also in train", "--fix drops it from train", 0.1),
    "loose leak": Kind(
        "warning",
        "the source is in train but for case, spaces, punctuation",
        "--fix drops it from train",
        0.1,
    ),
    "shared": Kind("warning", "validation and test share sources", "draw one of them anew", 0.1),
    "duplicate": Kind("warning", "the same pair again", "", 0.5),
    "many": Kind("note", "one source with several targets", "", 0.0),
    "bleu": Kind(
        "warning",
        "no reference has four tokens: BLEU is 0 by definition, or what smoothing makes of it",
        "read chrF, or test on longer sentences",
    ),
    "unspaced": Kind(
        "warning",
        "references hardly have spaces, and BLEU counts words",
        "read chrF, or give the tag of the language (zh, ja, th, …)",
    ),
    "numbered": Kind(
        "warning",
        "lines that begin with their own number",
        "remove it: sed -E 's/^[0-9]+[.):]? *//'",
        0.5,
    ),
    "quoted": Kind(
        "warning",
        "lines in quotation marks, as from a table",
        "export without quotes, or as CSV",
        0.5,
    ),
    "capitals": Kind(
        "warning",
        "sentences all in capitals",
        "set tokenizer.lowercase = true, or change the text",
        0.2,
    ),
    "long": Kind("note", "more than 200 words: training leaves them out", "split them"),
    "ratio": Kind("warning", "one side is far longer than the other", "read some", 0.05),
    "numbers": Kind("warning", "numbers that do not match", "read some", 0.3),
    "sentences": Kind(
        "note",
        "several sentences in one line",
        "a model that saw single sentences translates these badly",
        0.0,
    ),
    "new characters": Kind(
        "warning",
        "characters that train never shows",
        "they become <UNK>; compare the forms of the files",
        0.05,
    ),
    "few": Kind("note", "few pairs: fewer than 5,000", "more pairs help more than any setting"),
    "variants": Kind("note", "traditional and simplified Chinese", "", 0.0),
}

# Wrong, and no copy can be right before a person has looked.
BY_HAND = ("file", "encoding", "same file", "no split", "equal", "script", "shifted", "unrelated")


@dataclass
class Finding:
    """Pairs of one split that have something wrong: how many, some examples, what to do."""

    kind: str
    split: str
    count: int = 0
    total: int = 0
    examples: list[tuple[int, str]] = field(default_factory=list)  # number of the line, and text
    detail: str = ""
    todo: str = ""
    level_given: Level | None = None

    @property
    def level(self) -> Level:
        """How bad it is: less bad than its kind where it is rare."""
        kind = KINDS[self.kind]
        rare = kind.share and self.count < kind.share * max(self.total, 1)
        return self.level_given or ("note" if rare else kind.level)

    @property
    def what(self) -> str:
        """In words, with what is known about this case."""
        return KINDS[self.kind].what + (f": {self.detail}" if self.detail else "")

    @property
    def advice(self) -> str:
        """What to do, '' where there is nothing."""
        return self.todo or KINDS[self.kind].todo

    def add(self, number: int, *sides: str) -> None:
        """Count a pair, and keep it if it is one of the first."""
        self.count += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append((number, " | ".join(shown(side) for side in sides)))


def shown(text: str) -> str:
    """A text on one short line, with escapes for what cannot be seen."""
    visible = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return visible if len(visible) <= SHOWN else f"{visible[:SHOWN]}…"


def sorted_findings(findings: Iterable[Finding]) -> list[Finding]:
    """The worst first, then in the order in which they were made."""
    return sorted(findings, key=lambda finding: LEVELS.index(finding.level))
