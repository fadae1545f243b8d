"""How a model is measured."""
