"""Measures one rank's part of a unit, as a row of the table selftests."""

from __future__ import annotations

import time
from collections.abc import Sequence

from trace_hooks.selftest.communication import TransferError, Transfers
from trace_hooks.selftest.compute import Own, prepared, value_of
from trace_hooks.selftest.conductor import Answer
from trace_hooks.selftest.formulas import bus_gb_s
from trace_hooks.selftest.plan import (
    DEVICE_TESTS,
    PAIR_TESTS,
    RECHECK,
    Group,
    Sizes,
    Unit,
    members_text,
)
from trace_hooks.selftest.repetitions import Times, timed
from trace_hooks.selftest.results import Row

RECHECK_SAMPLES = 2
"""Times as many repetitions as at first: what is named rests on them."""


class Measuring:
    """What a rank needs to measure. `hosts`: of each rank."""

    def __init__(
        self,
        own: Own,
        rank: int,
        hosts: Sequence[str],
        sizes: Sizes,
        samples: int,
        timeout_s: float,
    ) -> None:
        self._own, self._rank, self._hosts, self._sizes = own, rank, hosts, sizes
        self._samples, self._timeout_s = samples, timeout_s

    def measured(self, unit: Unit, seconds: float, number: int) -> Answer:
        """The rank's row, if it takes part; a transfer that fails is a row with its problem."""
        group = unit.group_of(self._rank)
        if group is None:
            return {"rows": [], "is_broken": False}
        test = unit.test.removesuffix(RECHECK)
        row = self._row(unit, group, number)
        try:
            times = self._times(unit, group, seconds)
        except TransferError as error:
            return {"rows": [row | {"problem": str(error)}], "is_broken": True}
        value, unit_name = self._value(test, unit.num_bytes, group, times)
        measured = {
            "samples": times.samples,
            "seconds_min": times.shortest,
            "seconds_median": times.median,
            "value": value,
            "unit": unit_name,
        }
        return {"rows": [row | measured], "is_broken": False}

    def _row(self, unit: Unit, group: Group, number: int) -> Row:
        peer = self._peer(group) if unit.test.removesuffix(RECHECK) in PAIR_TESTS else -1
        return {
            "rank": self._rank,
            "ts_ns": time.time_ns(),
            "test": unit.test,
            "host": self._hosts[self._rank],
            "peer_host": self._hosts[peer] if peer >= 0 else "",
            "peer": peer,
            "members": members_text(group),
            "device": self._own.name,
            "num_bytes": unit.num_bytes,
            "round": number,
            "samples": 0,
            "seconds_min": None,
            "seconds_median": None,
            "value": None,
            "unit": "",
            "problem": None,
        }

    def _times(self, unit: Unit, group: Group, seconds: float) -> Times:
        test = unit.test.removesuffix(RECHECK)
        samples = self._samples * (RECHECK_SAMPLES if unit.test.endswith(RECHECK) else 1)
        if test in DEVICE_TESTS:
            return timed(prepared(test, self._own, self._sizes), seconds, samples)
        transfers = Transfers(self._own, self._rank, self._timeout_s)
        if test in PAIR_TESTS:
            return transfers.pair(self._peer(group), unit.num_bytes, seconds, samples)
        return transfers.all_reduce(group, len(self._hosts), unit.num_bytes, seconds, samples)

    def _value(self, test: str, num_bytes: int, group: Group, times: Times) -> tuple[float, str]:
        if test in DEVICE_TESTS:
            return value_of(test, self._sizes, times.median)
        op = "send" if test in PAIR_TESTS else "all_reduce"
        return bus_gb_s(op, num_bytes, times.median, len(group)), "GB/s"

    def _peer(self, group: Group) -> int:
        return next(rank for rank in group if rank != self._rank)
