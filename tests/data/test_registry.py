"""What the course adds to the core is named where it is missing; nothing is read another way."""

import pytest

from nmtlib import registry
from nmtlib.data.corpora import load_corpus
from nmtlib.data.corpus import read_pairs
from nmtlib.presets import load_settings


@pytest.mark.parametrize(
    "use",
    [
        lambda path: load_corpus("iwslt14-de-en"),
        lambda path: load_settings("multi30k-de-en-quick"),
        lambda path: read_pairs([path]),
    ],
)
def test_the_core_alone_names_the_import_that_it_needs(use, monkeypatch, tmp_path):
    (path := tmp_path / "pairs.csv").write_text("ein Hund,a dog\n", "utf-8")
    monkeypatch.setattr(registry, "ADDED", {kind: {} for kind in registry.ADDED})
    with pytest.raises(ValueError, match="import nmtcourse"):
        use(path)
