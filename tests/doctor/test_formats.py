"""Every format gives a training and the doctor the same pairs, and what is none is one finding."""

import csv
import io
import json
import re
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from itertools import product

import pytest
from broken_corpora import levels, row, run, toy

from nmtcourse.corpora import load_corpus
from nmtcourse.doctor.kinds import KINDS, TABLES
from nmtcourse.doctor.opening import of_files
from nmtcourse.formats.readers import read
from nmtcourse.main import build_parser
from nmtlib.presets import load_settings

PAIRS = toy(train=120)["train"]
VARIANTS = [("zh-Hant", "zh-Hans"), ("en-US", "en-GB"), ("sr-Latn", "sr-Cyrl"), ("pt-PT", "pt_BR")]


def as_csv(tags, pairs):
    file = io.StringIO()
    csv.writer(file).writerows([tags, *pairs])
    return file.getvalue()


def as_tmx(tags, pairs):
    variant = '<tuv xml:lang="{}"><seg>{}</seg></tuv>'.format
    units = "".join(f"<tu>{''.join(map(variant, tags, pair))}</tu>" for pair in pairs)
    return f'<tmx version="1.4"><header/><body>{units}</body></tmx>'


def as_xliff(tags, pairs):
    units = "".join(
        f"<segment><source>{a}</source><target>{b}</target></segment>" for a, b in pairs
    )
    languages = f'srcLang="{tags[0]}" trgLang="{tags[1]}"'
    return (
        f'<xliff xmlns="urn:x" version="2.0" {languages}><file><unit>{units}</unit></file></xliff>'
    )


def dictionaries(tags, pairs):
    return [dict(zip(tags, pair, strict=True)) for pair in pairs]


def as_dump(tags, pairs):
    """One column of Python dictionaries, as a data set writes itself into CSV."""
    return as_csv(["translation"], [[str(entry)] for entry in dictionaries(tags, pairs)])


def nested(tags, pairs):
    return [
        {"id": f"{i}", "translation": entry} for i, entry in enumerate(dictionaries(tags, pairs))
    ]


def in_columns(tags, pairs):
    return dict(zip(tags, (list(side) for side in zip(*pairs, strict=True)), strict=True))


FORMATS = {
    "x.csv": as_csv,
    "dump.csv": as_dump,
    "plain.csv": lambda tags, pairs: as_csv(*pairs[:1], pairs[1:]),
    "three.csv": lambda _, pairs: as_csv(["src", "id", "tgt"], [(a, 1, b) for a, b in pairs]),
    "lists.jsonl": lambda _, pairs: "\n".join(map(json.dumps, pairs)),
    "x.tmx": as_tmx,
    "x.xlf": as_xliff,
    "x.jsonl": lambda *x: "\n".join(map(json.dumps, dictionaries(*x))),
    "indented.jsonl": lambda *x: "\n".join(json.dumps(d, indent=2) for d in dictionaries(*x)),
    "nested.json": lambda *x: json.dumps({"version": 1, "data": nested(*x)}),
    "viewer.json": lambda *x: json.dumps(
        {"features": [{"name": "x"}], "rows": [{"row": entry} for entry in nested(*x)]}
    ),
    "columns.json": lambda *x: json.dumps(in_columns(*x)),
    "pandas.json": lambda *x: json.dumps(
        {tag: dict(enumerate(side)) for tag, side in in_columns(*x).items()}
    ),
}


def training(file, tags):
    """The corpus that settings beside a file load from it."""
    rows = [f'source_language = "{tags[0]}"', f'target_language = "{tags[1]}"']
    rows += [f'{split} = ["{file.name}"]' for split in ("train", "validation")]
    file.with_name("own.toml").write_text("\n".join(["[corpus]", *rows]), "utf-8")
    return load_corpus(load_settings(file.with_name("own.toml")).corpus)


def sides(pairs):
    return [(pair.source, pair.target) for pair in pairs]


@pytest.mark.parametrize("name", FORMATS)
def test_training_and_doctor_read_the_same_pairs_of_two_variants(tmp_path, name):
    file, turnable = tmp_path / name, name not in ("plain.csv", "three.csv", "lists.jsonl")
    for variant, turned in product(VARIANTS, (False, True)):
        tags, pairs = variant, [(f"{a} 1", f"{b} 2") for a, b in PAIRS[:30]]
        file.write_text(FORMATS[name](tags, pairs), "utf-8")
        if turned and turnable:
            tags, pairs = tags[::-1], [(b, a) for a, b in pairs]
        if name != "x.xlf":  # until its ending is registered
            assert sides(training(file, tags).train) == pairs, tags
        assert list(read(file, tags)) == pairs, tags
        split = of_files("train", [file], tags)
        assert [(r.source, r.target, r.problem) for r in split.rows()] == [(*p, "") for p in pairs]
        assert not split.findings, "training reads it as it is"


def test_a_column_is_chosen_by_tag_and_never_twice(tmp_path):
    three, file = [(a, f"{b} T", b) for a, b in PAIRS], tmp_path / "x.csv"
    file.write_text(as_csv(["en", "zh-Hant", "zh-Hans"], three), "utf-8")
    for tag, side in (("zh-TW", 1), ("zh_CN", 2), ("zh", 2), ("cmn-Hant", 1)):
        targets = [pair.target for pair in training(file, ("en", tag)).train]
        assert targets == [row[side] for row in three], tag
    file.write_text(as_csv(["en", "zh-Hant"], PAIRS), "utf-8")
    with pytest.raises(ValueError, match="columns are en, zh-Hant"):
        training(file, ("zh-Hant", "zh-Hans"))


def test_an_open_quotation_mark_swallows_no_line(tmp_path):
    pairs = [(a.replace(" ,", ""), b.replace(" ,", "")) for a, b in PAIRS]
    pairs = [(f'"{a}' if n % 9 == 4 else a, b) for n, (a, b) in enumerate(pairs)]
    file = tmp_path / "x.csv"
    file.write_text("de,en\n" + "".join(f"{a},{b}\n" for a, b in pairs), "utf-8")
    status, shown = run("data", "check", file, "--languages", "de", "en")
    assert "train: 120 of 121 lines became pairs" in shown and status == 0
    assert 'line 6: "' in row(shown, "a quotation mark that is not closed")
    assert sides(training(file, ("de", "en")).train) == pairs


def test_a_closed_quotation_may_hold_line_ends(tmp_path):
    (tmp_path / "x.csv").write_text('de,en\n"ein\nHund","a\ndog"\n' + "zwei,two\n" * 9, "utf-8")
    first, *rest = of_files("train", [tmp_path / "x.csv"], ("de", "en")).rows()
    assert (first.source, first.target) == ("ein\nHund", "a\ndog") and len(rest) == 9


IDS = {
    "numbers": lambda n: f"{n}",
    "codes": lambda n: f"tatoeba-{n * 7919:05}",
    "addresses": lambda n: f"https://example.org/{n}",
    "sites": lambda n: "wiki" if n % 2 else "books",
}


def test_an_identifier_is_no_side_and_its_file_is_one_finding(tmp_path):
    makers = {"x.csv": as_csv, "x.json": FORMATS["columns.json"], "x.jsonl": FORMATS["x.jsonl"]}
    for (name, make), identifier in product(makers.items(), IDS.values()):
        rows = [(identifier(n), a) for n, (a, _) in enumerate(PAIRS)]
        (tmp_path / name).write_text(make(["key", "text"], rows), "utf-8")
        status, shown = run("data", "check", tmp_path / name, "--languages", "de", "en")
        finding = row(shown, "no two columns look like a pair")
        assert status == 1 and levels(shown) == ["wrong"] and "--fix drops" not in shown
        assert "key, text" in finding and rows[0][0] in finding and "--columns A B" in finding


def test_two_columns_are_named_by_hand(tmp_path):
    rows = [{"no": n, "left": a, "right": b, "note": a[::-1]} for n, (a, b) in enumerate(PAIRS)]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    how = ("data", "check", tmp_path / "x.jsonl", "--languages", "de", "en", "--columns")
    run(*how, "Left", "right", "--fix", tmp_path / "clean")
    clean = [tmp_path / "clean" / f"train.{end}" for end in ("de", "en")]
    assert sides(of_files("train", clean, ("", "")).rows()) == PAIRS
    status, shown = run(*how, "left", "rigth")
    assert status == 1 and "expected two of no, left, right, note" in shown


def test_splits_as_keys_become_the_files_of_the_copy(tmp_path):
    tags, splits = ("de", "en"), {"train": PAIRS, "dev": PAIRS[:9], "test": PAIRS[9:20]}
    data = {name: nested(tags, pairs) for name, pairs in splits.items()}
    (tmp_path / "all.json").write_text(json.dumps(data), "utf-8")
    with pytest.raises(ValueError, match=r"splits by key \(train, validation, test\).*--fix"):
        training(tmp_path / "all.json", tags)
    run("data", "check", tmp_path / "all.json", "--languages", *tags, "--fix", tmp_path / "clean")
    corpus = load_corpus(load_settings(tmp_path / "clean" / "own.toml").corpus)
    assert sides(corpus.test) == PAIRS[9:20] and len(corpus.validation) == 9


HEADERS = {
    "languages": (",", "German words,English words\n"),
    "a declared separator": (";", "sep=;\nde;en\n"),
    "a declared separator in quotes": ("|", '"sep=|"\nDeutsch|Englisch\n'),
}


def test_a_header_is_no_pair(tmp_path):
    for separator, header in HEADERS.values():
        pairs = [(a.replace(separator, ""), b.replace(separator, "")) for a, b in PAIRS]
        lines = [separator.join(pair) for pair in pairs]
        (tmp_path / "x.csv").write_text(header + "\n".join(lines) + "\n", "utf-8")
        split = of_files("train", [tmp_path / "x.csv"], ("de", "en"))
        assert sides(split.rows()) == pairs and not split.findings


def test_codes_of_translation_tools_are_no_text(tmp_path):
    coded = (
        "der <bpt i='1'>{0}&lt;cf bold=1&gt;</bpt>Hund<ept i='1'>&lt;/cf&gt;</ept> schläft<ph/>."
    )
    units = [(coded, "the <hi>dog</hi> sleeps ."), *PAIRS]
    (tmp_path / "x.tmx").write_text(as_tmx(("de-DE", "en-GB"), units), "utf-8")
    first = next(of_files("train", [tmp_path / "x.tmx"], ("de", "en")).rows())
    assert (first.source, first.target) == ("der Hund schläft.", "the dog sleeps .")


TOOLS = {"translate-toolkit": {"po2tmx", "ts2po"}}
SYSTEM = "unzip bunzip2 unxz unzstd 7z unrar tar iconv tr sed cut mv git".split()


def test_every_command_that_an_advice_names_exists():
    tables = (TABLES["begins"] | TABLES["holds"]).values()
    advice = [advice for _, advice in tables] + [kind.todo for kind in KINDS.values()]
    named = set(re.findall(r"\b(?:po|xliff|csv|tmx|oo|ts)2\w+\b", " ".join(advice)))
    assert named == set.union(*TOOLS.values())
    first = [re.match(r"[\w-]+(?= [\w./{-])", text) for text in advice if "{path}" in text]
    assert {m[0] for m in first if m and m[0] not in ("pip", "unzip", "keep")} <= {*SYSTEM}
    (parsers,) = build_parser()._subparsers._group_actions
    options = parsers.choices["data"]._option_string_actions
    used = re.findall(r"--(?:fix|split|columns|encoding|languages)\b", " ".join(advice))
    assert {*used} <= options.keys()
    for package, commands in TOOLS.items():
        with suppress(PackageNotFoundError):  # where it is installed
            assert commands <= {entry.name for entry in distribution(package).entry_points}
