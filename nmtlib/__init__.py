"""nmtlib: a small, vetted Transformer for neural machine translation.

Data flows one way: corpus -> tokenizer and vocabulary -> batch -> model -> loss -> trainer
-> checkpoint -> translator -> metrics.  Each step is one sub-package: `nmtlib.data`,
`nmtlib.model`, `nmtlib.training`, `nmtlib.inference`.
"""

import os

# By default torch's CPU threads spin while they wait for each other.  As soon as any other program
# uses a core, they spin away the time of the thread that they wait for, and training becomes tens
# of times slower. It counts when torch is first imported, so import nmtlib before torch.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

__version__ = "0.1.0"
