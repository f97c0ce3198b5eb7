"""Flow control of frames: a browser gets new frames once it has drawn those it was sent.

TCP alone is not enough: with a page that receives frames faster than it draws them, and buffers on
the way, the page would show what was captured seconds ago. So the page reports how many frames it
has drawn (text `drawn N`, counted since the socket opened). The server sends frames in rounds: a
page draws all heads of a step in one picture, so all frames that are due when a round begins belong
to it. The next round, with the newest frame of each key, begins when at most one round is not drawn
yet. A page that reports nothing for a while (it shows another step) still gets a round now and
then. A client that never reports gets frames as fast as it reads them.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque

from app.live.frame_cache import Reader

MOST_ROUNDS = 2
"""FramePacing sent but not drawn: the next one travels while one is drawn."""
MOST_ROUND_BYTES = 8 << 20
PATIENCE_S = 4.0
"""A page that has not reported the last round as drawn gets the next one after this time."""
_LONGEST_REPORT = 32


class FramePacing:
    """Frames of one reader, each round when its browser is ready. `reports`: whether it reports."""

    def __init__(self, reader: Reader, reports: bool) -> None:
        self.drawn = asyncio.Event()  # the browser has reported
        self._reader = reader
        self._reports = reports
        self._sent = 0  # frames
        self._ends: deque[int] = deque()  # frames sent at the end of each round not yet drawn
        self._left = 0  # frames left in the current round
        self._bytes = 0
        self._ended_s = -math.inf

    def take(self, now_s: float) -> bytes | None:
        """The next frame to send, None to wait."""
        if not self._reports:
            return self._reader.take()
        if self._left == 0:
            if not self._may_begin(now_s):
                return None
            self._left, self._bytes = self._reader.num_due, 0
        content = self._reader.take()
        self._left = 0 if content is None else self._left - 1
        if content is not None:
            self._sent += 1
            self._bytes += len(content)
            if self._bytes >= MOST_ROUND_BYTES:
                self._left = 0
        if self._left == 0 and self._sent > (self._ends[-1] if self._ends else 0):
            self._ends.append(self._sent)
            self._ended_s = now_s
        return content

    def report(self, text: str) -> None:
        """Process a message of the browser; ignores anything but `drawn N`."""
        word, _, number = text[:_LONGEST_REPORT].partition(" ")
        if word != "drawn" or not (number.isascii() and number.isdecimal()):
            return
        while self._ends and self._ends[0] <= int(number):
            self._ends.popleft()
        self.drawn.set()

    async def wait(self, now_s: float, until_s: float) -> None:
        """Wait until there may be a frame to send, or until `until_s`."""
        ready = self._reader.news
        if self._reports and not self._may_begin(now_s):
            self.drawn.clear()
            ready, until_s = self.drawn, min(until_s, self._ended_s + PATIENCE_S)
        try:
            await asyncio.wait_for(ready.wait(), max(0.0, until_s - now_s))
        except TimeoutError:
            return

    def _may_begin(self, now_s: float) -> bool:
        return len(self._ends) < MOST_ROUNDS or now_s >= self._ended_s + PATIENCE_S
