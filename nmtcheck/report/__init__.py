"""Running the checks, and what is said about their results."""
