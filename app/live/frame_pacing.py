"""At what pace a browser gets frames: not before it has drawn what it was sent.

TCP alone is no pace: a page that takes frames faster than it draws them, and the buffers on the
way, would show what was captured seconds ago. So the page tells how many frames it has drawn (text
`drawn N`, counted since the socket opened). Frames go out in rounds: all heads of a step are drawn
in one picture, so what is due when a round begins belongs to it. The next round begins when at most
one is not drawn yet, with the newest of each frame. A page that says nothing for a while (it shows
another step) still gets a round now and then. Who does not tell gets frames as it takes them.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque

from app.live.frame_cache import Reader

MOST_ROUNDS = 2
"""Rounds on the way or being drawn: the next one travels while one is drawn."""
MOST_ROUND_BYTES = 8 << 20
PATIENCE_S = 4.0
"""A round for a page that does not say that it has drawn the last."""
_LONGEST_SAID = 32


class Rounds:
    """Frames of one reader, each round when its browser is ready. `tells`: whether it says so."""

    def __init__(self, reader: Reader, tells: bool) -> None:
        self.drawn = asyncio.Event()  # it has said something
        self._reader = reader
        self._tells = tells
        self._sent = 0  # frames
        self._ends: deque[int] = deque()  # frames sent at the end of each round not yet drawn
        self._left = 0  # frames of the round that is under way
        self._bytes = 0
        self._ended_s = -math.inf

    def take(self, now_s: float) -> bytes | None:
        """The next frame to send; None: wait."""
        if not self._tells:
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

    def hear(self, text: str) -> None:
        """What the browser says; anything but `drawn N` is nothing."""
        word, _, number = text[:_LONGEST_SAID].partition(" ")
        if word != "drawn" or not (number.isascii() and number.isdecimal()):
            return
        while self._ends and self._ends[0] <= int(number):
            self._ends.popleft()
        self.drawn.set()

    async def wait(self, now_s: float, until_s: float) -> None:
        """Until there may be a frame to send, or it is `until_s`."""
        ready = self._reader.news
        if self._tells and not self._may_begin(now_s):
            self.drawn.clear()
            ready, until_s = self.drawn, min(until_s, self._ended_s + PATIENCE_S)
        try:
            await asyncio.wait_for(ready.wait(), max(0.0, until_s - now_s))
        except TimeoutError:
            return

    def _may_begin(self, now_s: float) -> bool:
        return len(self._ends) < MOST_ROUNDS or now_s >= self._ended_s + PATIENCE_S
