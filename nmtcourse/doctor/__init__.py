"""The doctor of a corpus: what is wrong with parallel text, before a model learns from it.

- `files` recognises what a file is and in which encoding; `opening` makes the rows of one split,
  with `nmtcourse.formats` where it is no text of lines.
- `texts` finds and mends what is wrong inside one sentence; `survey` passes over all pairs once and
  keeps numbers only; `overlap`, `sides`, `shifts` and `lengths` judge by these numbers.
- `diagnosis` puts all together, `fixing` writes the cleaned copy, `picture` draws, `remarks` are
  the short forms for training and evaluation, `command` is `nmtlib data check`.
"""
