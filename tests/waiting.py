"""Waiting for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

WAIT_S = 60.0


def wait_until(condition: Callable[[], Any], within_s: float = WAIT_S) -> Any:
    """Ask `found` until it answers something true, and return that; fails after `within_s`."""
    until_s = time.monotonic() + within_s
    while not (answer := condition()):
        assert time.monotonic() < until_s, f"it did not come true within {within_s} s"
        time.sleep(0.01)
    return answer
