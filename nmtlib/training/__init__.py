"""Loss, schedule, trainer and checkpoints."""
