"""Answers of the saved query selftests as arrays: one set per test and size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from diagnosis.statistics.natural_order import natural
from diagnosis.statistics.rank_tables import Bools, Floats, Ints

QUESTION = "selftests"
DEVICE_TESTS = ("matmul", "memory", "h2d", "d2h")
PAIR_TESTS = ("mesh", "pair")

FEWEST_OF_ROLE = 5
"""Pairs of the same two places on as many hosts are compared with each other."""


Again = dict[tuple[str, int, tuple[int, ...]], tuple[float, float]]
"""By test, size and ranks: shortest and median repetition of rechecks, the least of each."""


@dataclass(frozen=True)
class Measured:
    """One pair or device. `ends`: (rank, host, number on the host) of each."""

    ends: tuple[tuple[int, str, int], ...]
    row: Mapping[str, Any]

    @property
    def ranks(self) -> tuple[int, ...]:
        """Its one or two ranks."""
        return tuple(rank for rank, _, _ in self.ends)

    @property
    def hosts(self) -> frozenset[str]:
        """Hosts of its ranks."""
        return frozenset(host for _, host, _ in self.ends)

    @property
    def places(self) -> tuple[tuple[str, int], ...]:
        """What stays the same in other runs on the same machines."""
        return tuple((host, local) for _, host, local in self.ends)

    @property
    def role(self) -> tuple[int, ...]:
        """What pairs of other hosts have in common with it."""
        return tuple(local for _, _, local in self.ends)


@dataclass(frozen=True)
class Cell:
    """Measurements of one test and size that can be compared. M measurements.

    `short_M`, `median_M`: the shortest and the median repetition, s (or in multiples of the usual
    one). `again_M`, `again_median_M`: the same when all others were idle, the least of several
    times; NaN where it was not measured again, None where nothing is.
    """

    test: str
    num_bytes: int
    measured: tuple[Measured, ...]
    short_M: Floats
    median_M: Floats
    again_M: Floats | None
    again_median_M: Floats | None

    @property
    def is_rechecked_M(self) -> Bools:
        """Which were measured again."""
        if self.again_M is None:
            return np.zeros(len(self.measured), np.bool_)
        return np.asarray(np.isfinite(self.again_M))

    @cached_property
    def rank_ME(self) -> Ints:
        """Ranks of both ends; of a device twice the same."""
        return np.array([(one.ends[0][0], one.ends[-1][0]) for one in self.measured], np.int64)

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """Names of all hosts, in their natural order."""
        return tuple(sorted({host for one in self.measured for host in one.hosts}, key=natural))

    @cached_property
    def host_ME(self) -> Ints:
        """Hosts of both ends: indices of `hosts`."""
        at = {host: index for index, host in enumerate(self.hosts)}
        ends = [(at[one.ends[0][1]], at[one.ends[-1][1]]) for one in self.measured]
        return np.array(ends, np.int64)

    @property
    def is_of_devices(self) -> bool:
        """Whether it measures ranks alone."""
        return self.test in DEVICE_TESTS


@dataclass(frozen=True)
class Failed:
    """A pair or group between which a transfer failed."""

    test: str
    ranks: tuple[int, ...]
    hosts: frozenset[str]
    problem: str


def cells_of(table: pa.Table) -> list[Cell]:
    """Devices and pairs by test and size, pairs of hosts compared with pairs of the same places."""
    first: dict[tuple[str, int], dict[tuple[int, ...], Measured]] = defaultdict(dict)
    again: Again = {}
    for row in table.to_pylist():
        if row["seconds_min"] is None or row["test"] not in (*DEVICE_TESTS, *PAIR_TESTS):
            continue
        measured = Measured(_ends(row), row)
        key = row["test"], row["num_bytes"]
        if row["is_recheck"]:
            whole = (*key, measured.ranks)
            short, median = again.get(whole, (np.inf, np.inf))
            again[whole] = min(row["seconds_min"], short), min(row["seconds_median"], median)
        else:
            first[key][measured.ranks] = measured
    return [
        _by_role(_cell(test, num_bytes, list(own.values()), again))
        for (test, num_bytes), own in first.items()
    ]


def failures_of(table: pa.Table) -> list[Failed]:
    """What failed, once per pair or group."""
    found: dict[tuple[int, ...], Failed] = {}
    for row in table.to_pylist():
        if row["problem"] is not None:
            ends = _ends(row)
            ranks = tuple(rank for rank, _, _ in ends)
            hosts = frozenset(host for _, host, _ in ends)
            found.setdefault(ranks, Failed(row["test"], ranks, hosts, row["problem"]))
    return list(found.values())


def _ends(row: Mapping[str, Any]) -> tuple[tuple[int, str, int], ...]:
    own = (row["rank"], row["host"], row["local_rank"] or 0)
    if row["peer"] < 0:
        return (own,)
    return own, (row["peer"], row["peer_host"] or "", row["peer_local_rank"] or 0)


def _cell(
    test: str,
    num_bytes: int,
    measured: list[Measured],
    again: Again,
) -> Cell:
    def column(values: Iterable[float]) -> Floats:
        return np.array(list(values), np.float64)

    missing = np.nan, np.nan
    again_of = [again.get((test, num_bytes, one.ranks), missing) for one in measured]
    return Cell(
        test,
        num_bytes,
        tuple(measured),
        column(one.row["seconds_min"] for one in measured),
        column(one.row["seconds_median"] for one in measured),
        column(rechecked[0] for rechecked in again_of),
        column(rechecked[1] for rechecked in again_of),
    )


def _by_role(cell: Cell) -> Cell:
    """Times in multiples of the usual one of the role, where hosts enough have it.

    Inside a host some pairs share a switch and others do not: only other hosts show what is usual.
    """
    if cell.test != "mesh":
        return cell
    members = defaultdict[tuple[int, ...], list[int]](list)
    for index, one in enumerate(cell.measured):
        members[one.role].append(index)
    if any(len(of_role) < FEWEST_OF_ROLE for of_role in members.values()):
        return cell
    assert cell.again_M is not None
    assert cell.again_median_M is not None
    short_M, again_M = cell.short_M.copy(), cell.again_M.copy()
    median_M, again_median_M = cell.median_M.copy(), cell.again_median_M.copy()
    for of_role in members.values():
        short_M[of_role] /= np.median(cell.short_M[of_role])
        again_M[of_role] /= np.median(cell.short_M[of_role])
        median_M[of_role] /= np.median(cell.median_M[of_role])
        again_median_M[of_role] /= np.median(cell.median_M[of_role])
    return replace(
        cell,
        short_M=short_M,
        median_M=median_M,
        again_M=again_M,
        again_median_M=again_median_M,
    )


def against(cell: Cell, good: Cell) -> Cell:
    """Times in multiples of those of the same places in `good`, of the measurements in both."""
    past = {one.places: index for index, one in enumerate(good.measured)}
    both = [index for index, one in enumerate(cell.measured) if one.places in past]
    then = [past[cell.measured[index].places] for index in both]
    return Cell(
        cell.test,
        cell.num_bytes,
        tuple(cell.measured[index] for index in both),
        cell.short_M[both] / good.short_M[then],
        cell.median_M[both] / good.median_M[then],
        None,
        None,
    )
