"""A package that is missing is named, and not another one in its place."""

import pytest

from nmtcourse.recipes.optional import need


def test_a_missing_package_is_told_from_what_a_package_misses(tmp_path, monkeypatch):
    (tmp_path / "half_installed.py").write_text("import beneath_it\n", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="pip install beneath_it"):
        need("beneath_it")
    with pytest.raises(ModuleNotFoundError, match="No module named 'beneath_it'"):
        need("half_installed")
