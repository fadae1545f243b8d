"""The special ids, the same in every vocabulary: the one thing that data and model share."""

PAD, BOS, EOS, UNK = 0, 1, 2, 3
SPECIALS = ("<PAD>", "<BOS>", "<EOS>", "<UNK>")
