"""The former name of `nmtcourse.toy`, for code that was written with it."""

import sys
from importlib import import_module

sys.modules[__name__] = import_module("nmtcourse.toy")
