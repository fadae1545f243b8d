"""`pytest --nbval` starts in any folder, and compares numbers by value (see tools/reading.py)."""

from pathlib import Path

from reading import read_numbers_by_value

# Pages of students stop at their stubs (tests/homework runs the solutions); the Chinese notebooks
# have the code and outputs of the English ones (tests/test_chinese.py).
collect_ignore = ["notebooks/homework", "notebooks/zh"]


def pytest_configure(config):
    path = getattr(config.option, "nbval_sanitize_with", None)
    if path and not Path(path).is_absolute():
        config.option.nbval_sanitize_with = str(config.rootpath / path)


def pytest_itemcollected(item):
    if hasattr(item, "compare_outputs"):  # a cell of nbval
        read_numbers_by_value(item)
        if item.path.parent.name == "deeper":
            item.add_marker("nightly")
