"""What only some need: corpora larger than memory, exports to other programs, BPE dropout."""
