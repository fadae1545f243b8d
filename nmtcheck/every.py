"""Every check: importing this module registers them in the order in which they run."""

from nmtcheck import attention, positions, masks, layers, model  # noqa: F401, I001 (in order)
from nmtcheck import anatomy, loss, optimisation, validation, epochs  # noqa: F401
from nmtcheck import gradients, decoding, translation, beam, endings  # noqa: F401
from nmtcheck import data, metrics  # noqa: F401
