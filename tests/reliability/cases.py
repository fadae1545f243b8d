"""All bad inputs in one list."""

from __future__ import annotations

import case_inputs
import case_processes
import case_runs
import case_settings
import case_surroundings
import case_texts
from workplace import Case

CASES: list[Case] = [
    *case_settings.CASES,
    *case_texts.CASES,
    *case_runs.CASES,
    *case_inputs.CASES,
    *case_surroundings.CASES,
    *case_processes.CASES,
]
