"""From a model with random weights to a trained one: loss, schedule, and the loop."""

from nmtlib.training.loss import compute_loss, label_smoothed_loss, losses, measure_all, perplexity
from nmtlib.training.schedule import cosine_rate, inverse_sqrt_rate, noam_rate
from nmtlib.training.trainer import Trainer

__all__ = [
    "Trainer",
    "compute_loss",
    "cosine_rate",
    "inverse_sqrt_rate",
    "label_smoothed_loss",
    "losses",
    "measure_all",
    "noam_rate",
    "perplexity",
]
