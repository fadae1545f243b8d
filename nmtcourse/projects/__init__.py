"""Work that is no homework of a notebook: a trained model, and a Transformer to be treated.

It uses the homework's public face alone, and nothing of the homework but its command knows it.
"""
