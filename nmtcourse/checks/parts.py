"""Checks of parts that lessons ask for; importing this module registers them."""

from nmtcourse.checks import attention, embeddings, masks, layers  # noqa: F401, I001 (in order)
