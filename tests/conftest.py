"""What several test files share: real corpora where they are at hand, one thread, the nights."""

import os

import pytest
import torch
from hypothesis import settings

from nmtlib.data.corpora import check, load

# Before any parallel work: two busy threads on two busy cores wait more than they work.
torch.set_num_threads(1)
settings.register_profile("calm", deadline=None)  # a shared machine may pause at any time
settings.load_profile("calm")


def pytest_collection_modifyitems(items):
    """What is marked `nightly` waits for the night."""
    if not os.environ.get("NMTLIB_ALL"):
        for item in items:
            if item.get_closest_marker("nightly"):
                item.add_marker(pytest.mark.skip(reason="runs at night, or with NMTLIB_ALL=1"))


@pytest.fixture(scope="session")
def multi30k():
    """The corpus, where its files are in the cache (see NMTLIB_DATA)."""
    name = "multi30k-de-en"
    if not check(name).ok:
        pytest.skip(f"{name} is not in the cache; fetch it with: nmtlib data fetch {name}")
    return load(name)
