"""nmtlib: a small, vetted Transformer for neural machine translation.

Data flows one way: corpus -> tokenizer and vocabulary -> batch -> model -> loss -> trainer
-> checkpoint -> translator -> metrics.  Each step is one sub-package: `nmtlib.data`,
`nmtlib.model`, `nmtlib.training`, `nmtlib.inference`.
"""

__version__ = "0.1.0"
