"""From a model with random weights to a trained one: loss, schedule, and the loop."""

from nmtlib.training.loss import label_smoothed_loss, losses, perplexity
from nmtlib.training.measure import measure_all
from nmtlib.training.schedule import cosine_rate, inverse_sqrt_rate, noam_rate
from nmtlib.training.trainer import Trainer

__all__ = [
    "Trainer",
    "cosine_rate",
    "inverse_sqrt_rate",
    "label_smoothed_loss",
    "losses",
    "measure_all",
    "noam_rate",
    "perplexity",
]
