"""The page about a reader's own text, followed word for word; the doctor on larger corpora."""

import os
import re
import shlex
from pathlib import Path

import doctor as benchmark
import edition
import own_journeys
import pytest
from broken_corpora import levels, run, toy

from nmtcourse.doctor.known import check as is_here

ROOT = Path(__file__).parents[2]
TINY = "--set d_model=16 --set n_heads=2 --set n_encoder_layers=1 --set n_decoder_layers=1"


PAGES = ("docs/own_text.md", "docs/zh/own_text.md")


def lines_of_commands(page=PAGES[0]):
    text = (ROOT / page).read_text("utf-8")
    return re.findall(r"```bash\n(.*?)```", text, re.DOTALL)[0].splitlines()


def commands():
    return [shlex.split(line)[1:] for line in lines_of_commands()]


def follow(tmp_path, monkeypatch, *more):
    """Run the commands of the page on files of the grammar; what each printed."""
    monkeypatch.chdir(tmp_path)
    pairs = toy(train=1_000)["train"]
    pairs[6] = (pairs[6][0], " ")
    for side, name in enumerate(("mine.de", "mine.en")):
        Path(name).write_text("".join(f"{pair[side]}\n" for pair in pairs), "utf-8")
    printed = []
    for words in commands():
        status, text = run(*words, *(more if words[0] == "train" else ()))
        assert status == (1 if len(printed) < 2 else 0), text  # the original stays wrong
        printed.append(text)
    return printed


@pytest.mark.slow
def test_the_page_leads_from_two_files_to_a_translator(tmp_path, monkeypatch):
    assert len(commands()) == 6
    first, fixed, again, trained, scored, _ = follow(
        tmp_path, monkeypatch, *shlex.split(TINY), "--set", "epochs=1"
    )
    assert "line 7:" in first and "999 of 1,000 pairs kept, 200 of them held out" in fixed
    assert levels(again) == [] and Path("clean.png").is_file()
    assert "799 training pairs" in trained and "corpus has problems" not in trained
    assert "BLEU" in scored


@pytest.mark.parametrize("page", PAGES)
def test_the_outputs_of_a_page_are_of_the_commands_that_it_shows(page):
    """They were recorded by benchmarks/own_journeys.py, which types the same."""
    journey = own_journeys.JOURNEYS["page"].commands()
    assert [line.replace('"', "'") for line in lines_of_commands(page)] == journey
    recorded = own_journeys.recorded()["page"]["commands"]
    assert [step["command"] for step in recorded] == journey
    assert [step["status"] for step in recorded] == [1, 1, 0, 0, 0, 0]


def test_the_chinese_page_has_the_numbers_code_and_links_of_the_english_one():
    english, chinese = (
        re.sub(r"<!-- ([\w-]+):begin -->.*?<!-- \1:end -->", "", text, flags=re.DOTALL)
        for text in ((ROOT / page).read_text("utf-8").partition("\n")[2] for page in PAGES)
    )
    chinese = chinese.replace("../commands.md", "commands.md").replace("#别的文件", "#other-files")
    assert list(edition.differences(english, chinese)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["multi30k-de-en", "cmn-en-zh"])
def test_public_corpora_have_notes_but_no_false_warning(name):
    if not os.environ.get("NMTLIB_DATA") or not is_here(name).ok:
        pytest.skip(f"NMTLIB_DATA does not hold {name}")
    status, text = run("data", "check", name)
    assert status == 0 and levels(text) == []
    expected = {"multi30k-de-en": "HTML entities", "cmn-en-zh": "140 (5.3%)"}
    assert expected[name] in text, "what is really in it is reported"


@pytest.mark.nightly
def test_a_large_corpus_is_read_in_bounded_time_and_memory(tmp_path):
    small, large = (benchmark.measure(pairs) for pairs in (2_000, 20_000))
    each = (large["processor_seconds"] - small["processor_seconds"]) / 18_000
    assert each * 1e6 < 200, "microseconds a pair; a million in a minute takes 60"
    assert (large["peak_megabytes"] - small["peak_megabytes"]) * 1e6 / 18_000 < 2_000, "bytes"
