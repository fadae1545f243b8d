"""From public corpora or the reader's own text to batches of token ids.

`corpora` loads (and `download` fetches) sentence pairs, `corpus` defines them and reads text files,
`toy` generates two tiny languages, `tokenizers` cut sentences, `vocab` numbers the tokens,
`batching` pads them.
"""
