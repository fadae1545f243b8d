# ruff: noqa: F401
"""From a trained model to translations, and from translations to scores."""

from nmtlib.inference.metrics import bleu_nltk, bleu_sacre, chrf
from nmtlib.inference.search import Hypothesis, beam_search, greedy_search, length_norm
from nmtlib.inference.translator import AttentionMap, Translator
