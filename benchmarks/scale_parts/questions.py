"""Random questions to an indexed run, and the same ones to a file for each rank through a glob.

Both sides return the number of rows, which have to be equal: a question that finds something else
is not the same question.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

import duckdb

from app.views.timeline.lanes import Place
from app.views.timeline.query import LaneQuery, places_of
from app.views.timeline.window import Extent, Window, extent
from benchmarks.scale_parts.runs import PP, TP, table_files
from ingest.run import Run

Ask = Callable[[Run], int]

WINDOW_NS = 1_000_000_000
MANY_RANKS, GRID_STEPS, TOP = 64, 3, 10
METRICS = {"compute": ["forward", "backward"], "data_wait": ["data_wait"]}
"""metric of the heat map: kinds of spans that it sums"""


@dataclass(frozen=True)
class Question:
    """One question: to the run, and in SQL over files of ranks, with its values."""

    ask: Ask
    raw_sql: str
    values: dict[str, object]

    def ask_raw(self, raw: Path) -> int:
        """Rows that the files of all ranks below `raw` have for it; a process opens none twice."""
        sql = self.raw_sql
        for table in ("spans", "collectives"):
            files = f"read_parquet('{raw / table}/*.parquet', hive_partitioning = false)"
            sql = sql.replace(f"FROM {table}", f"FROM {files}")
        with duckdb.connect() as connection:
            connection.execute("SET enable_progress_bar = false")
            return len(connection.execute(sql, self.values).fetchall())


@dataclass(frozen=True)
class Facts:
    """What random questions are drawn from."""

    places: dict[int, Place]
    extent: Extent
    num_steps: int
    t0_ns: int
    collectives: list[tuple[int, int]]
    """group and number of some"""


def facts_of(run: Run, random: Random) -> Facts:
    """Of an indexed run."""
    places = places_of(run, 0)
    found = extent(run, 0, sorted(places))
    assert found is not None, "the run has no steps"
    files = table_files(run.folder, "collectives")
    return Facts(
        places,
        found,
        found.last_step + 1,
        run.info["created_ns"],
        [one for file in random.sample(files, min(3, len(files))) for one in _collectives(file)],
    )


def _collectives(file: Path) -> list[tuple[int, int]]:
    """Group and number of some, none of them a send or receive."""
    with duckdb.connect() as connection:
        rows = connection.execute(
            "SELECT group_id, seq FROM read_parquet($file) WHERE op NOT IN ('send', 'recv')"
            " USING SAMPLE reservoir(100 ROWS) REPEATABLE (1)",
            {"file": str(file)},
        )
        return rows.fetchall()


def _window(facts: Facts, random: Random, num_ranks: int) -> Question:
    """Spans of adjacent ranks in one second."""
    first = random.randrange(0, len(facts.places) - num_ranks + 1, num_ranks)
    lanes = [facts.places[rank] for rank in range(first, first + num_ranks)]
    begin_ns = random.randrange(facts.extent.begin_ns, facts.extent.end_ns)
    window = Window(begin_ns, begin_ns + WINDOW_NS)

    def ask(run: Run) -> int:
        query = LaneQuery(run, 0, lanes, window, facts.extent)
        return int(query.spans().begin_S.size)

    sql = """SELECT s.* FROM (SELECT * FROM spans WHERE rank BETWEEN $first AND $last) s
        JOIN (SELECT unnest($ranks) AS rank, unnest($shifts) AS shift_ns) USING (rank)
        WHERE ts_ns + shift_ns < $end_ns AND ts_ns + shift_ns + greatest(dur_ns, 0) > $begin_ns"""
    return Question(
        ask,
        sql,
        {
            "first": first,
            "last": first + num_ranks - 1,
            "ranks": [place.rank for place in lanes],
            "shifts": [place.shift_min_ns or 0 for place in lanes],
            "begin_ns": window.begin_ns + facts.t0_ns,
            "end_ns": window.end_ns + facts.t0_ns,
        },
    )


def _heat_map(facts: Facts, random: Random) -> Question:
    """A metric of all ranks in all steps."""
    metric = random.choice(sorted(METRICS))
    sql = """SELECT rank, step, sum(dur_ns) FILTER (list_contains($kinds, kind)) / 1e6 FROM spans
        WHERE step >= 0 GROUP BY rank, step ORDER BY rank, step"""
    return Question(
        lambda run: run.ask("heat_map", metric=metric).num_rows, sql, {"kinds": METRICS[metric]}
    )


def _some_steps(facts: Facts, random: Random, number: int) -> dict[str, object]:
    number = min(number, facts.num_steps)
    first = random.randrange(facts.num_steps - number + 1)
    return {"step_min": first, "step_max": first + number - 1}


def _grid(facts: Facts, random: Random) -> Question:
    """Means of all ranks over any steps."""
    steps = _some_steps(facts, random, GRID_STEPS)
    sql = """SELECT rank, sum(dur_ns) FILTER (kind IN ('forward', 'backward')) / 1e6,
        sum(dur_ns) FILTER (kind IN ('pp_comm', 'dp_comm', 'tp_comm', 'other_comm')) / 1e6,
        sum(dur_ns) FILTER (kind = 'data_wait') / 1e6
        FROM spans WHERE step BETWEEN $step_min AND $step_max GROUP BY rank ORDER BY rank"""
    return Question(lambda run: run.ask("grid", **steps).num_rows, sql, steps)


def _top(facts: Facts, random: Random) -> Question:
    """The ranks that are slowest against the same stage and tensor rank of other replicas."""
    steps = _some_steps(facts, random, 10)
    sql = """WITH work AS (
            SELECT rank, step, sum(cpu_ns) AS work_ns FROM spans
            WHERE kind IN ('forward', 'backward') AND step BETWEEN $step_min AND $step_max
            GROUP BY rank, step),
        compared AS (SELECT rank, work_ns / median(work_ns) OVER (
            PARTITION BY step, rank // $stage, rank % $tp) AS slowdown FROM work)
        SELECT rank, median(slowdown) AS slowdown FROM compared GROUP BY rank
        ORDER BY slowdown DESC LIMIT $top"""
    values = steps | {"stage": len(facts.places) // PP, "tp": TP, "top": TOP}
    return Question(lambda run: run.ask("slowest_ranks", top=TOP, **steps).num_rows, sql, values)


def _collective(facts: Facts, random: Random) -> Question:
    """One collective on all its members."""
    group_id, seq = random.choice(facts.collectives)
    values = {"group_id": group_id, "seq": seq}
    sql = "SELECT * FROM collectives WHERE group_id = $group_id AND seq = $seq ORDER BY start_ns"
    return Question(lambda run: run.ask("collective_members", **values).num_rows, sql, values)


class Kind(NamedTuple):
    """A kind of question: how a random one is drawn, and how long its answer may take, ms."""

    draw: Callable[[Facts, Random], Question]
    target_ms: int
    needs_operations: bool = False


KINDS = {
    "timeline, 1 s of one rank": Kind(partial(_window, num_ranks=1), 50),
    f"timeline, 1 s of {MANY_RANKS} ranks": Kind(partial(_window, num_ranks=MANY_RANKS), 200),
    "heat map, all ranks and steps": Kind(_heat_map, 100),
    f"grid, all ranks, {GRID_STEPS} steps": Kind(_grid, 100),
    f"{TOP} slowest ranks, 10 steps": Kind(_top, 100),
    "one collective on its members": Kind(_collective, 100, needs_operations=True),
}
