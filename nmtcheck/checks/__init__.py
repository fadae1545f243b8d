"""What is asked of a model: each module registers some checks."""
