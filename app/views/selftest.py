"""What the page Selftest and `rankscope selftest` show: tests, devices, groups, pairs."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from diagnosis.detectors.selftest.measurements import DEVICE_TESTS, PAIR_TESTS, QUESTION
from diagnosis.detectors.selftest.text import size_text
from diagnosis.statistics.natural_order import natural
from ingest.errors import UserError
from ingest.run import Run
from ingest.stopping import Stop

SOURCE = "selftest"
"""`source` in run.json of a self-test (trace_hooks/selftest)."""

BY = ("rank", "host")
MOST_CELLS = 4096
"""Ranks or hosts of a matrix."""
TRAFFIC = "traffic"
"""In place of a test: what ordinary steps achieved between hosts."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Selftest:
    """Plain values. `tests`: by test and size; `devices`: a row per rank; `groups`: halves and
    all-reduces; `notes`: what was left out or failed. `has_traffic`: ordinary steps have shown
    bandwidths between hosts.
    """

    tests: tuple[dict[str, Any], ...]
    devices: tuple[dict[str, Any], ...]
    groups: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]
    has_traffic: bool


@dataclass(frozen=True)
class Matrix:
    """Bandwidth between each two of `names`, GB/s; NaN not measured. `value_NN` is symmetric.

    `texts`: of each pair in order of rows, what measured it. `usual`: median of the pairs; None
    without any.
    """

    names: tuple[str, ...]
    value_NN: npt.NDArray[np.float32]
    usual: float | None
    unit: str
    texts: dict[str, str]


def selftest_of(run: Run, attempt: int | None, stop: Stop | None = None) -> Selftest:
    """What a self-test measured; empty where none was run."""
    wanted = run.newest_attempt if attempt is None else attempt
    rows = run.ask(QUESTION, attempt=wanted, stop=stop).to_pylist()
    marks = run.ask("marks", attempt=wanted, stop=stop).to_pylist() if rows else []
    first = [row for row in rows if not row["is_recheck"]]
    return Selftest(
        tests=tuple(_tests(first)),
        devices=tuple(_devices(first)),
        groups=tuple(_groups(first)),
        notes=tuple([row["text"] for row in marks] + _failures(rows)),
        has_traffic=bool(run.ask("pair_bandwidth", attempt=wanted, stop=stop).num_rows),
    )


def _tests(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Number, median and slowest of each test and size."""
    cells = defaultdict[tuple[str, int], list[Row]](list)
    for row in rows:
        if row["value"] is not None:
            cells[row["test"], row["num_bytes"]].append(row)
    found = []
    for (test, num_bytes), own in sorted(cells.items(), key=lambda cell: _order(*cell[0])):
        slowest = min(own, key=lambda row: row["value"])
        found.append(
            {
                "test": test,
                "num_bytes": num_bytes,
                "unit": slowest["unit"],
                "number": len(own),
                "median": statistics.median(row["value"] for row in own),
                "least": slowest["value"],
                "slowest": _who(slowest),
                "is_of_pairs": test in PAIR_TESTS,
            }
        )
    return found


def _order(test: str, num_bytes: int) -> tuple[int, int]:
    known = (*DEVICE_TESTS, *PAIR_TESTS, "halves", "all_reduce")
    return known.index(test) if test in known else len(known), num_bytes


def _who(row: Row) -> str:
    if row["peer"] >= 0:
        return f"rank {row['rank']} ({row['host']}) and rank {row['peer']} ({row['peer_host']})"
    if row["test"] in DEVICE_TESTS:
        return f"rank {row['rank']} ({row['host']})"
    return f"ranks {row['members']}"


def _devices(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """One row per rank: its values, and how they compare with the median of all ranks."""
    values: dict[int, dict[str, Any]] = {}
    usual = {(one["test"], one["num_bytes"]): one["median"] for one in _tests(rows)}
    for row in rows:
        if row["test"] not in DEVICE_TESTS or row["value"] is None:
            continue
        about = {"rank": row["rank"], "host": row["host"], "device": row["device"], "values": {}}
        own = values.setdefault(row["rank"], about)
        ratio = row["value"] / usual[row["test"], row["num_bytes"]]
        own["values"][row["test"]] = {"value": row["value"], "unit": row["unit"], "ratio": ratio}
    return [values[rank] for rank in sorted(values)]


def _groups(rows: Sequence[Row]) -> list[dict[str, Any]]:
    names = ("test", "num_bytes", "members", "value", "unit", "samples")
    return [
        {name: row[name] for name in names} | {"milliseconds": 1e3 * row["seconds_median"]}
        for row in rows
        if row["test"] in ("halves", "all_reduce") and row["value"] is not None
    ]


def _failures(rows: Sequence[Row]) -> list[str]:
    texts = (f"{row['test']} of {_who(row)}: {row['problem']}" for row in rows if row["problem"])
    return list(dict.fromkeys(texts))


def table_lines(measured: Selftest) -> list[str]:
    """The tests as lines of a table."""
    lines = [f"{'test':<12}{'size':>10}{'measured':>10}{'median':>16}{'lowest':>12}   which"]
    for one in measured.tests:
        median = f"{_amount(one['median'])} {one['unit']}"
        lines.append(
            f"{one['test']:<12}{size_text(one['num_bytes']):>10}{one['number']:>10}{median:>16}"
            f"{_amount(one['least']):>12}   {one['slowest']}"
        )
    return lines


def _amount(value: float) -> str:
    """Three digits, as on the page: 0.00123, 1.23, 123, 1,022."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def matrix_of(
    run: Run,
    attempt: int | None,
    test: str,
    num_bytes: int,
    by: str = "rank",
    stop: Stop | None = None,
) -> Matrix:
    """Bandwidths of the pairs of one test and size, or of TRAFFIC; raises UserError."""
    wanted = run.newest_attempt if attempt is None else attempt
    if test == TRAFFIC:
        return _traffic(run.ask("pair_bandwidth", attempt=wanted, stop=stop).to_pylist())
    if test not in PAIR_TESTS or by not in BY:
        raise UserError(f"test is {test[:40]!r}, by is {by[:40]!r}; give mesh, pair or {TRAFFIC}")
    rows = [
        row
        for row in run.ask(QUESTION, attempt=wanted, stop=stop).to_pylist()
        if (row["test"], row["num_bytes"]) == (test, num_bytes)
        and row["value"] is not None
        and not row["is_recheck"]
    ]
    return _by_host(rows) if by == "host" else _by_rank(rows)


def _by_rank(rows: Sequence[Row]) -> Matrix:
    ranks = sorted({rank for row in rows for rank in (row["rank"], row["peer"])})
    cells = {(str(row["rank"]), str(row["peer"])): (row["value"], _pair_text(row)) for row in rows}
    return _filled([str(rank) for rank in ranks], cells)


def _pair_text(row: Row) -> str:
    return (
        f"{row['host']} to {row['peer_host']}: {1e3 * row['seconds_median']:.3g} ms in the median "
        f"of {row['samples']}"
    )


def _by_host(rows: Sequence[Row]) -> Matrix:
    """Of each two hosts the median over the pairs of their ranks."""
    of_pair = defaultdict[tuple[str, str], list[float]](list)
    for row in rows:
        one, other = sorted([row["host"], row["peer_host"]])
        of_pair[one, other].append(row["value"])
    cells = {
        pair: (statistics.median(values), f"median of {len(values)} pairs of ranks")
        for pair, values in of_pair.items()
    }
    return _filled(sorted({host for pair in of_pair for host in pair}, key=natural), cells)


def _traffic(rows: Sequence[Row]) -> Matrix:
    cells = {
        (row["host"], row["peer_host"]): (
            row["bandwidth_gb_s"],
            f"by {row['source']}; {_channels(row['num_channels'])}, slowest "
            f"{row['lowest_gb_s']:.3g} GB/s",
        )
        for row in rows
    }
    return _filled(sorted({host for pair in cells for host in pair}, key=natural), cells)


def _channels(number: int) -> str:
    return "1 group or pair of ranks" if number == 1 else f"{number} groups and pairs of ranks"


def _filled(names: Sequence[str], cells: Mapping[tuple[str, str], tuple[float, str]]) -> Matrix:
    """The matrix of some pairs; raises UserError where there are too many names."""
    if len(names) > MOST_CELLS:
        raise UserError(f"the matrix would have {len(names):,} rows; choose it by host")
    at = {name: index for index, name in enumerate(names)}
    value_NN = np.full((len(names), len(names)), np.nan, np.float32)
    for (one, other), (value, _) in cells.items():
        value_NN[at[one], at[other]] = value_NN[at[other], at[one]] = value
    usual = statistics.median(value for value, _ in cells.values()) if cells else None
    texts = {
        "{},{}".format(*sorted((at[one], at[other]))): text
        for (one, other), (_, text) in cells.items()
    }
    return Matrix(tuple(names), value_NN, usual, "GB/s", texts)
