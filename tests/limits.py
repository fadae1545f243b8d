"""How long a test may take: computing is limited by processor time, which load does not use up.

The clock only ends what makes no progress, after so long that no busy machine comes near it.
"""

import os

NO_PROGRESS = 1800.0  # seconds by the clock for a process that is asleep or deadlocked


def processor_time() -> float:
    """Processor seconds of this process and of the children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
