"""What several test files share: real corpora where they are at hand, and one thread."""

import pytest
import torch
from hypothesis import settings

from nmtlib.data.corpora import check, load

# Before any parallel work: two busy threads on two busy cores wait more than they work.
torch.set_num_threads(1)
settings.register_profile("calm", deadline=None)  # a shared machine may pause at any time
settings.load_profile("calm")


@pytest.fixture(scope="session")
def multi30k():
    """The corpus, where its files are in the cache (see NMTLIB_DATA)."""
    name = "multi30k-de-en"
    if not check(name).ok:
        pytest.skip(f"{name} is not in the cache; fetch it with: nmtlib data fetch {name}")
    return load(name)
