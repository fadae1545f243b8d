"""What several test files share: real corpora where they are at hand, and one thread so that
timings are kind.
"""

import pytest
import torch
from hypothesis import settings

from nmtlib.data.corpora import check, load

torch.set_num_threads(
    1
)  # before any parallel work: two busy threads on two busy cores wait more than they work
settings.register_profile("calm", deadline=None)  # a shared machine may pause at any time
settings.load_profile("calm")


@pytest.fixture(scope="session")
def multi30k():
    """The corpus, where its files are in the cache (see NMTLIB_DATA)."""
    if not check("multi30k-de-en").ok:
        pytest.skip(
            "multi30k-de-en is not in the cache; fetch it with: nmtlib data fetch multi30k-de-en"
        )
    return load("multi30k-de-en")
