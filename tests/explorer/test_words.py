"""The texts of the explorer's page: the same in both languages, and none too many."""

import re

from nmtcourse.explorer.page import WEB


def test_both_languages_have_the_same_texts() -> None:
    keys = {}
    for language in ("en", "zh"):
        lines = (WEB / f"words_{language}.js").read_text("utf-8").splitlines()
        found = [re.fullmatch(r'  "([^"]*)": "(.+)",', line) for line in lines]
        texts = {match[1]: match[2] for match in found if match}
        keys[language] = {key: set(re.findall(r"\{\w+\}", text)) for key, text in texts.items()}
        assert len(texts) == sum(match is not None for match in found)  # none stands twice
        assert len(texts) > 100
    assert keys["en"] == keys["zh"]
