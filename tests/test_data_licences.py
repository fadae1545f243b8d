"""Each shipped sentence of a corpus is named by DATA-LICENCES.md, with its terms."""

import json
import os
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tools"))

import data_licences as licences  # noqa: E402

DATA = Path(os.environ.get("NMTLIB_DATA", "nowhere"))
RECORD = json.loads(licences.RECORD.read_text("utf-8"))
SENTENCES = ["Zwei junge weiße Männer sind im Freien.", "他 总是 在 晚上 看 书 和 写信 。"]


@pytest.mark.parametrize(
    "text",
    [
        "{0} {1}",
        "<b>{0}</b> {1}",
        "zwei junge wei\\u00dfe m\\u00e4nner sind im freien . 他总是在晚上看书和写信。",
        "Zwei jun@@ ge weiße Männer sind im Freien\\n{1}",
        "ZWEI JUNGE &quot;weiße&quot; MÄNNER SIND IM FREIEN {1}",
    ],
)
def test_a_sentence_is_found_however_it_is_written(text, tmp_path):
    index = licences.Index()
    for sentence in SENTENCES:
        index.add("Multi30k", sentence)
    (tmp_path / "file.json").write_text(text.format(*SENTENCES), "utf-8")
    assert len(index.search(licences.read(tmp_path / "file.json"))["Multi30k"]) == 2
    assert not index.search("Zwei junge Männer sind weiße im Freien.")


def test_the_page_is_that_of_the_record():
    assert licences.PAGE.read_text("utf-8") == licences.page(RECORD["files"])


@pytest.mark.slow
def test_every_file_that_has_a_known_sentence_is_named():
    """Without the corpora: the sentences that are shipped are known by their numbers."""
    assert licences.scan(licences.recorded()).data() == RECORD


@pytest.mark.nightly
@pytest.mark.skipif(not (DATA / "multi30k").is_dir(), reason="needs the corpora in NMTLIB_DATA")
def test_no_file_has_a_sentence_that_is_not_named():
    assert licences.scan(licences.corpora(DATA)).data() == RECORD


def test_the_licence_of_the_wheel_names_all_terms():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    terms = {
        each.spdx
        for each in licences.CORPORA
        if any(
            each.corpus in corpora
            for name, corpora in RECORD["files"].items()
            if name.startswith(licences.PACKAGES)
        )
    }
    terms |= {each.spdx for _, each in licences.models()}
    assert terms >= {"CC-BY-2.0", "LicenseRef-Multi30k"}
    assert {*project["license"].split(" AND ")} == {"MIT", "OFL-1.1"} | terms
    assert "DATA-LICENCES.md" in project["license-files"]
    page = licences.PAGE.read_text("utf-8")
    assert all(re.search(rf"\| {re.escape(each)} \|", page) for each in terms)
