"""The Transformer: embeddings, attention, masks, layers, the whole model; it knows no data."""
