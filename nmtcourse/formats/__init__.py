"""Parallel text in other formats than two files of lines, for a training and for the doctor.

- `entries` reads TMX, XLIFF and JSON, `tables` CSV and lines with columns: the texts of each entry
  by column.
- `readers` decides which two columns are the pair, and makes the rows that both read.
- `languages` compares tags and knows scripts and frequent words.
"""
