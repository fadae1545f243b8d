# ruff: noqa: F401
"""From a model with random weights to a trained one: loss, schedule, and the loop."""

from nmtlib.training.loss import compute_loss, label_smoothed_loss, losses, measure_all, perplexity
from nmtlib.training.schedule import cosine_rate, inverse_sqrt_rate, noam_rate
from nmtlib.training.trainer import Trainer
