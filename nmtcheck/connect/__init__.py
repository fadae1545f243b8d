"""How a model is reached: adapters, its file, its arguments, the way it is called."""
