"""What only some need, such as exports to other programs."""
