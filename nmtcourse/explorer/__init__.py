"""The NMT Explorer: a run as one HTML file that translates in the reader's browser.

`page.explore` writes the file, `packing` what it holds of the run; the program that runs in the
browser lies in `web/`, in plain JavaScript.
"""
