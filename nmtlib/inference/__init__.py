"""Search for the best translation, the translator around it, and the metrics."""
