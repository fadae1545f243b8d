# ruff: noqa: F401
"""The encoder-decoder Transformer, from masks to the whole."""

from nmtlib.model.attention import (
    MultiHeadAttention,
    causal_mask,
    padding_mask,
    record_attention,
    scaled_dot_product_attention,
    target_mask,
)
from nmtlib.model.config import TransformerConfig
from nmtlib.model.embeddings import Positions, TokenEmbedding, sinusoidal_table
from nmtlib.model.layers import DecoderLayer, EncoderLayer, FeedForward, Residual
from nmtlib.model.rotary import RotaryAttention
from nmtlib.model.transformer import Transformer
