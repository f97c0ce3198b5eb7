"""Why the workers of a data loader do not deliver in time: which worker or source, doing what.

A worker is compared with the rank's other workers, sample by sample of the same sources; a source
with the same source on other ranks, or with the other sources of the mixture. What a worker does is
known from the share of the time in which it computes: in a transform that the dataset marks, in
other code, or not at all, and then it waits. Assumes: fetches of one source are alike. Blind spots:
a worker that waits for a core looks like one that waits for storage.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

QUESTION = "loader_work"

SLOWER = 1.5
"""A worker or a source stands out that takes so many times as long for a sample."""

MOST_COMPUTING = 0.6
"""Who computes for this share of the time computes; who does for less waits most of it."""

MOST_TRANSFORM = 0.5

MOST_TIME = 0.5
"""A source keeps nobody waiting that takes less than this share of the workers' time."""

FEWEST_FETCHES = 4
MOST_RANKS = 256


@dataclass(frozen=True)
class Why:
    """`who`: completes "... takes 12 ms for a sample"; `does`: what it spends the time with."""

    who: str
    does: str
    sample_ms: float
    ratio: float  # to those it is compared with; 1: with nobody
    next_step: str
    than: str = ""
    source: str = ""  # the one that stands out

    @property
    def sentence(self) -> str:
        """In words."""
        times = f"{self.ratio:.1f}" if self.ratio < 100 else "more than 100"
        slower = f", {times} times as long as {self.than}" if self.ratio > 1 else ""
        return f"{self.who} takes {self.sample_ms:.1f} ms for a sample{slower}: {self.does}."


@dataclass(frozen=True)
class _Work:
    """A row of loader_work."""

    rank: int
    worker: int
    source: str
    fetches: int
    samples: int
    sample_ms: float
    fetch_ms: float
    cpu_ratio: float
    transform_ratio: float
    transform: str
    read_mb: float | None


def why_slow(tables: Mapping[str, pa.Table], rank: int | None) -> Why | None:
    """Of a rank's loader, or of all (None); None where no worker was seen."""
    table = _enough(tables)
    if table is None:
        return None
    if rank is None:
        own, others = _rows(_of_some_ranks(table)), list[_Work]()
    else:
        is_own = pc.equal(table["rank"], rank)
        own = _rows(table.filter(is_own))
        others = _rows(_of_some_ranks(table.filter(pc.invert(is_own))))
    if not own:
        return None
    return (_worker(own) if rank is not None else None) or _source(own, others) or _all(own)


def fetch_ms(tables: Mapping[str, pa.Table], rank: int | None) -> float | None:
    """Mean time of a fetch of a batch by the workers of a rank, or of all ranks (None), ms; None
    where no worker was seen.
    """
    table = _enough(tables)
    if table is None:
        return None
    of = _of_some_ranks(table) if rank is None else table.filter(pc.equal(table["rank"], rank))
    took: dict[tuple[int, int], float] = {}
    calls: dict[tuple[int, int], int] = {}
    for row in _rows(of):  # a call has rows for each of its sources
        worker = row.rank, row.worker
        took[worker] = took.get(worker, 0.0) + row.fetch_ms * row.fetches
        calls[worker] = max(calls.get(worker, 0), row.fetches)
    return sum(took.values()) / sum(calls.values()) if calls else None


def slow_everywhere(tables: Mapping[str, pa.Table]) -> Why | None:
    """A source of the mixture that takes most of the workers' time, on all ranks alike: whichever
    rank waits then has only drawn more of it. None where there is none, or no worker was seen.
    """
    table = _enough(tables)
    rows = [] if table is None else _rows(_of_some_ranks(table))
    why = _source(rows, ()) if rows else None
    if why is None:
        return None
    by_rank: dict[int, list[_Work]] = {}
    for row in rows:
        if row.source == why.source:
            by_rank.setdefault(row.rank, []).append(row)
    per_sample = [_per_sample(own) for own in by_rank.values()]
    is_alike = len(per_sample) > 1 and max(per_sample) < SLOWER * median(per_sample)
    return why if is_alike else None


def with_one_slow_worker(tables: Mapping[str, pa.Table], ranks: Collection[int]) -> dict[int, int]:
    """Those of `ranks` of which one worker stands out, and how many workers they have: batches are
    handed out in order, so such a rank waits in one step of so many.
    """
    table = _enough(tables)
    if table is None or not ranks:
        return {}
    by_rank: dict[int, list[_Work]] = {}
    for row in _rows(table.filter(pc.is_in(table["rank"], pa.array(list(ranks), pa.int32())))):
        by_rank.setdefault(row.rank, []).append(row)
    return {
        rank: len({row.worker for row in own})
        for rank, own in by_rank.items()
        if _worker(own) is not None
    }


def _enough(tables: Mapping[str, pa.Table]) -> pa.Table | None:
    """Rows of enough fetches; None without any."""
    table = tables.get(QUESTION)
    if table is None or not table.num_rows:
        return None
    return table.filter(pc.greater_equal(table["fetches"], FEWEST_FETCHES))


def _of_some_ranks(table: pa.Table) -> pa.Table:
    """Of a large job some ranks stand for all."""
    ranks = pc.unique(table["rank"]).sort()
    if len(ranks) <= MOST_RANKS:
        return table
    some = ranks.take(pa.array(range(0, len(ranks), -(-len(ranks) // MOST_RANKS))))
    return table.filter(pc.is_in(table["rank"], some))


def _rows(table: pa.Table) -> list[_Work]:
    return [_work(row) for row in table.to_pylist()]


def _work(row: Mapping[str, Any]) -> _Work:
    return _Work(**{name: row[name] for name in _Work.__annotations__})


def _worker(own: Sequence[_Work]) -> Why | None:
    """One worker among those of the rank, on the same sources."""
    ratios = {}
    for worker in {row.worker for row in own}:
        pairs = [
            (row.sample_ms * row.samples, median(peers) * row.samples)
            for row in own
            if row.worker == worker and (peers := [o.sample_ms for o in own if _is_peer(row, o)])
        ]
        if pairs:
            ratios[worker] = sum(took for took, _ in pairs) / sum(usual for _, usual in pairs)
    if len(ratios) < 2:
        return None
    worst = max(ratios, key=ratios.__getitem__)
    rest = max(ratio for worker, ratio in ratios.items() if worker != worst)
    if ratios[worst] < SLOWER or rest >= SLOWER:
        return None
    rows = [row for row in own if row.worker == worst]
    return _why(rows, f"Worker {worst}", ratios[worst], "the rank's other workers")


def _is_peer(row: _Work, other: _Work) -> bool:
    return other.worker != row.worker and other.source == row.source


def _source(own: Sequence[_Work], others: Sequence[_Work]) -> Why | None:
    """A source that is slower here than on other ranks, or than the rest of the mixture."""
    by_source = {source: [row for row in own if row.source == source] for source in _sources(own)}
    elsewhere = {
        source: [row.sample_ms for row in others if row.source == source] for source in by_source
    }
    if others and all(elsewhere.values()):
        ratios = {s: _per_sample(rows) / median(elsewhere[s]) for s, rows in by_source.items()}
        than = "on other ranks"
    elif len(by_source) > 1:
        ratios = {
            source: _per_sample(rows)
            / median(_per_sample(o) for name, o in by_source.items() if name != source)
            for source, rows in by_source.items()
        }
        than = "the others of the mixture"
    else:
        return None
    worst = max(ratios, key=ratios.__getitem__)
    rest = max((ratio for source, ratio in ratios.items() if source != worst), default=0.0)
    is_alone = len(ratios) == 1 or rest < SLOWER
    took = {
        source: _per_sample(r) * sum(one.samples for one in r) for source, r in by_source.items()
    }
    is_most = took[worst] >= MOST_TIME * sum(took.values())
    if ratios[worst] < SLOWER or not is_alone or not is_most:
        return None
    why = _why(by_source[worst], f"Source {worst}", ratios[worst], than)
    return replace(why, source=worst)


def _sources(rows: Sequence[_Work]) -> list[str]:
    return sorted({row.source for row in rows})


def _per_sample(rows: Sequence[_Work]) -> float:
    return sum(row.sample_ms * row.samples for row in rows) / sum(row.samples for row in rows)


def _all(own: Sequence[_Work]) -> Why:
    """No worker and no source stands out."""
    num = len({(row.rank, row.worker) for row in own})
    who = "Its worker" if num == 1 else f"Each of the {num} workers"
    return _why(own, who, 1.0, "")


def _why(rows: Sequence[_Work], who: str, ratio: float, than: str) -> Why:
    total_ms = sum(row.fetch_ms * row.fetches for row in rows)

    def share(value: str) -> float:
        return float(sum(getattr(r, value) * r.fetch_ms * r.fetches for r in rows) / total_ms)

    names = [row.transform for row in rows if row.transform]
    transform = max(set(names), key=names.count) if names else ""
    sample_ms = _per_sample(rows)
    if transform and share("transform_ratio") >= MOST_TRANSFORM:
        does = f"most of it in transform {transform}"
        return Why(who, does, sample_ms, ratio, _TRANSFORM.format(name=transform), than)
    if share("cpu_ratio") >= MOST_COMPUTING:
        does = f"it computes for {share('cpu_ratio'):.0%} of that"
        return Why(who, does, sample_ms, ratio, _COMPUTES, than)
    does = f"it waits for {1 - share('cpu_ratio'):.0%} of that (storage, network, a lock or a core)"
    read = [row.read_mb for row in rows if row.read_mb is not None]
    if read and max(read) >= _WORTH_TELLING_MB:
        does += f"; a sample reads {max(read):.1f} MB"
    return Why(who, does, sample_ms, ratio, _WAITS, than)


_WORTH_TELLING_MB = 0.05
_TRANSFORM = (
    "Make transform {name} cheaper, do it before training, or give the loader more workers."
)
_COMPUTES = (
    "Mark the parts of the dataset's work with trace_hooks.transform to see which takes the time, "
    "or give the loader more workers."
)
_WAITS = (
    "Look at the storage or network that this dataset reads from on that host, and whether its "
    "workers get a core; more workers hide waiting."
)
