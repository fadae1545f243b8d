"""Every check: to import this module is to register them, in the order in which they run."""

from nmtlib.checks import attention, positions, masks, layers, model  # noqa: F401, I001 (in order)
from nmtlib.checks import anatomy, loss, optimisation, validation, epochs  # noqa: F401
from nmtlib.checks import gradients, decoding, translation, beam, endings  # noqa: F401
from nmtlib.checks import data, metrics  # noqa: F401
