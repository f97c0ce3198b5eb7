"""Timers of Megatron-LM per rank, which follow on the line of a step (--timing-log-option all).

    times across ranks (ms):
      forward-compute:
         rank  0: 41.52
         rank  1: 43.01

They are sums over the micro-batches of a step, averaged over the steps since the line before. The
other options print the least and the greatest of all ranks, which name no rank.
"""

from __future__ import annotations

import re

from ingest.limits import limits
from ingest.readers.tables.logged_step import ns_of_ms

SIGNS = (b"times across ranks (ms):",)

KINDS = {
    "forward-recv": "pp_comm",
    "forward-compute": "forward",
    "forward-send": "pp_comm",
    "forward-send-forward-recv": "pp_comm",
    "forward-send-backward-recv": "pp_comm",
    "backward-recv": "pp_comm",
    "backward-compute": "backward",
    "backward-send": "pp_comm",
    "backward-send-forward-recv": "pp_comm",
    "backward-send-backward-recv": "pp_comm",
    "forward-backward-send-forward-backward-recv": "pp_comm",
    "layernorm-grads-all-reduce": "tp_comm",
    "embedding-grads-all-reduce": "pp_comm",
    "all-grads-sync": "dp_comm",
    "params-all-gather": "dp_comm",
    "optimizer": "optimizer",
}
"""Timers that lie in no other one, in the order of a step; the rest are sums or parts of these."""
_HEADER = re.compile(r"(?<!\) )times across ranks \(ms\):\s*$")
_NAME = re.compile(r" {1,4}([a-z][a-z-]{1,60}):\s*$")
_TIME = re.compile(r" {1,9}rank {1,6}(\d{1,7}): (\d{1,12}\.\d{1,6})\s*$")


class MegatronTimers:
    """The timers of one file. `times`: (rank, step) -> nanoseconds by the timer's name."""

    def __init__(self) -> None:
        self.times: dict[tuple[int, int], dict[str, int]] = {}
        self.is_open = False
        self._name = ""

    def add(self, text: str, step: int) -> None:
        """A line, without prefixes, after that of `step`."""
        if _HEADER.search(text):
            self.is_open, self._name = True, ""
        elif (name := _NAME.match(text)) is not None:
            self._name = name[1]
        elif (time := _TIME.match(text)) is not None:
            self._note(int(time[1]), step, float(time[2]))
        else:
            self.is_open = False

    def _note(self, rank: int, step: int, milliseconds: float) -> None:
        dur_ns = ns_of_ms(milliseconds)
        if self._name in KINDS and dur_ns is not None and rank < limits().max_ranks:
            self.times.setdefault((rank, step), {})[self._name] = dur_ns
