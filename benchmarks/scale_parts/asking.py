"""How long random questions take, cold and warm, compared with a glob over a file for each rank."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TypeVar

from benchmarks.scale_parts.questions import KINDS, Question, facts_of
from benchmarks.scale_parts.runs import evict
from ingest.run import Run, open_run

T = TypeVar("T")


@dataclass
class Times:
    """Of one kind of question, ms. Cold: the run is opened for it, and no page of a file is in
    memory. Warm: in a run that is open, another random question each time.
    """

    target_ms: int
    cold_ms: list[float] = field(default_factory=list)
    warm_ms: list[float] = field(default_factory=list)
    glob_cold_ms: list[float] = field(default_factory=list)
    glob_warm_ms: list[float] = field(default_factory=list)


def ask_all(
    folder: Path, raw: Path | None, asks: int, raw_asks: int, seed: int
) -> dict[str, Times]:
    """Every kind of question so often; `raw`: files of ranks, None leaves them out."""
    random = Random(seed)
    with open_run(folder, refresh=False) as run:
        facts = facts_of(run, random)
        kinds = {
            name: kind
            for name, kind in KINDS.items()
            if facts.collectives or not kind.needs_operations
        }
        found = {name: Times(kind.target_ms) for name, kind in kinds.items()}
        for name, kind in kinds.items():
            questions = [kind.draw(facts, random) for _ in range(asks + 1)]
            questions[-1].ask(run)  # plans the query
            found[name].warm_ms = [_timed(lambda q=q: q.ask(run))[0] for q in questions[:-1]]
    for name, kind in kinds.items():
        found[name].cold_ms = [_cold(folder, kind.draw(facts, random)) for _ in range(asks)]
        if raw is not None:
            for _ in range(raw_asks):
                _ask_raw(folder, raw, kind.draw(facts, random), name, found[name])
    return found


def _cold(folder: Path, question: Question) -> float:
    """ms of opening the run and the answer, its files on disk only."""
    evict(folder)

    def opened() -> None:
        with Run(folder) as run:
            question.ask(run)

    return _timed(opened)[0]


def _ask_raw(folder: Path, raw: Path, question: Question, name: str, times: Times) -> None:
    """Files of ranks, cold and then warm; ends the benchmark where they have other rows."""
    evict(raw)
    cold_ms, num_rows = _timed(lambda: question.ask_raw(raw))
    warm_ms, _ = _timed(lambda: question.ask_raw(raw))
    with Run(folder) as run:
        expected = question.ask(run)
    if num_rows != expected:
        raise SystemExit(f"{name}: {expected} rows by the index, {num_rows} in the ranks' files")
    times.glob_cold_ms.append(cold_ms)
    times.glob_warm_ms.append(warm_ms)


def _timed(call: Callable[[], T]) -> tuple[float, T]:
    began_s = time.perf_counter()
    result = call()
    return (time.perf_counter() - began_s) * 1e3, result
