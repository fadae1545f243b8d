"""The Transformer: embeddings, attention, masks, layers and the assembled model.  Knows nothing of
data.
"""
