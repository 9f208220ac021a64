"""Black boxes for worker processes: this file imports nothing heavy, so that a process has it at once."""

import os
import signal
import time
from typing import Any


def curve(x: Any) -> float:
    """The black box of `tiny.parabola`."""
    return 1.0 - (x["x"] - 1.3) ** 2


def dies_left_of_one(x: Any) -> float:
    """Take the whole process along, now and then."""
    if x["x"] < 1.0:
        os.kill(os.getpid(), signal.SIGKILL)
    return curve(x)


def slow_left_of_one(x: Any) -> float:
    """Hang, now and then."""
    if x["x"] < 1.0:
        time.sleep(60.0)
    return curve(x)


def raises_left_of_one(x: Any) -> float:
    """Fail, now and then."""
    if x["x"] < 1.0:
        raise ValueError("no convergence")
    return curve(x)
