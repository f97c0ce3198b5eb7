"""Warnings about a server in the log of training: bounded, escaped, and few.

A server may be hostile or broken. Its texts must neither forge lines of the trainer's log nor fill
the disk with lines.
"""

from __future__ import annotations

import logging

from trace_hooks.protocol.plain_text import plain
from trace_hooks.protocol.token_bucket import Rate

log = logging.getLogger("trace_hooks")

AT_ONCE, EVERY_S = 5, 600.0
"""AT_ONCE lines may follow each other, then one line every EVERY_S seconds."""

SILENT_LOGGER = logging.getLogger("trace_hooks.websocket")
"""For the websockets library, which would log headers and messages as they come."""
SILENT_LOGGER.setLevel(logging.CRITICAL + 1)
SILENT_LOGGER.propagate = False


class FewWarnings:
    """Warnings of one kind, for one thread; the last one is not repeated until `forget`."""

    def __init__(self, about: str) -> None:
        self._about = plain(about)
        self._last = ""
        self._left_out = 0
        self._rate = Rate(1 / EVERY_S, AT_ONCE)

    def warn(self, value: object) -> None:
        """Log the text of a value, from wherever it comes."""
        text = plain(value)
        if not text or text == self._last:
            return
        self._last = text
        if not self._rate.take():
            self._left_out += 1
            return
        more = f" ({self._left_out} warnings before this were left out)" if self._left_out else ""
        self._left_out = 0
        log.warning("trace_hooks: %s: %s%s", self._about, text, more)

    def forget(self) -> None:
        """The problem is over: the same text is logged again when it comes back."""
        self._last = ""
