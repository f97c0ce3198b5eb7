"""Steps that are summed up where they are recorded, against the index of all their spans."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from ingest.index.indexer import Indexer
from trace_hooks.recording import held_spans
from trace_hooks.recording.held_spans import HeldSpans, Tables
from trace_hooks.recording.step_sampling import StepSampling

RECORDED = Path(__file__).parents[3] / "sample_traces" / "recorded" / "healthy"
RANK = 3
PIECE = 50
"""Spans taken in at once: a step has some 140, so that a piece ends within one."""
S = 1_000_000_000
"""Seconds, ns."""


def rows_of(table: str) -> pa.Table:
    """Rows of the recorded rank, without the columns that writers fill in."""
    files = sorted((RECORDED / "compacted").glob(f"{table}-*.parquet"))
    whole = pa.concat_tables([pq.read_table(path) for path in files]).unify_dictionaries()
    mine = whole.filter(pc.equal(whole["rank"], RANK))
    return mine.drop_columns(["attempt", "rank"]).unify_dictionaries()


@pytest.fixture(scope="module")
def spans() -> pa.Table:
    found = rows_of("spans")
    return found.take(pc.sort_indices(pc.add(found["ts_ns"], found["dur_ns"])))


@pytest.fixture(scope="module")
def steps() -> list[dict[str, Any]]:
    return sorted(rows_of("steps").to_pylist(), key=lambda row: row["step"])


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """What the index makes of all spans of the rank, by table."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    shutil.copytree(RECORDED, folder, ignore=shutil.ignore_patterns("index"))
    with Indexer(folder) as indexer:
        indexer.refresh()
        ask = indexer.database.connection.sql
        return {
            name: ask(f"SELECT * FROM {name}_rollup WHERE rank = {RANK}")
            .to_arrow_table()
            .to_pylist()
            for name in ("step", "kind")
        }


def fed(held: HeldSpans, spans: pa.Table, steps: list[dict[str, Any]]) -> Iterator[Tables]:
    """What is published as spans and steps come in, in the order in which they ended."""
    ended = list(steps)
    for at in range(0, spans.num_rows, PIECE):
        piece = spans.slice(at, PIECE)
        last_ns = piece["ts_ns"][-1].as_py() + piece["dur_ns"][-1].as_py()
        yield {"spans": held.add(piece)}
        while ended and ended[0]["start_ns"] + ended[0]["dur_ns"] <= last_ns:
            row = ended.pop(0)
            held.end_step(row["step"], row["start_ns"], row["dur_ns"])
        yield held.settle(None, last_ns)
    for row in ended:
        held.end_step(row["step"], row["start_ns"], row["dur_ns"])
    yield held.settle(None, last_ns)
    yield held.give_up()


def published(parts: Iterator[Tables], name: str) -> list[dict[str, Any]]:
    return [row for tables in parts if name in tables for row in tables[name].to_pylist()]


@pytest.mark.parametrize("every", [0, 2, 5])
def test_the_sums_are_those_that_the_index_makes_of_all_spans(spans, steps, indexed, every) -> None:
    parts = list(fed(HeldSpans(StepSampling(every)), spans, steps))
    left_out = [r["step"] for r in steps if every == 0 or r["step"] % every]
    sums = published(iter(parts), "step_sums")
    assert [row["step"] for row in sums] == left_out
    by_step = {row["step"]: row for row in indexed["step"]}
    for row in sums:
        whole = by_step[row["step"]]
        assert row.pop("ts_ns") == whole["begin_ns"]
        assert row == {name: whole[name] for name in row}
    kinds = {(row["step"], row["kind"]): row for row in published(iter(parts), "kind_sums")}
    assert kinds.keys() == {
        (r["step"], r["kind"]) for r in indexed["kind"] if r["step"] in left_out
    }
    for row in indexed["kind"]:
        if row["step"] in left_out:
            mine = kinds[row["step"], row["kind"]]
            names = ("time_ns", "exposed_ns", "self_cpu_ns", "num_spans")
            assert [mine[name] for name in names] == [row[name] for name in names]


def test_steps_that_are_chosen_have_all_their_spans_and_others_only_rare_ones(spans, steps) -> None:
    found = published(fed(HeldSpans(StepSampling(5)), spans, steps), "spans")
    for step in (0, 5, 10):
        assert (
            sum(r["step"] == step for r in found) == pc.sum(pc.equal(spans["step"], step)).as_py()
        )
    others = [row for row in found if row["step"] >= 0 and row["step"] % 5]
    borders = [(row["start_ns"], row["start_ns"] + row["dur_ns"]) for row in steps]
    for row in others:  # what lasts into a chosen step belongs to its picture, too
        begin_ns, end_ns = row["ts_ns"], row["ts_ns"] + row["dur_ns"]
        assert row["kind"] in held_spans.ALWAYS or any(
            begin_ns < borders[step][1] and end_ns > borders[step - 1][1] for step in (5, 10)
        )
    assert len(others) < 0.02 * spans.num_rows


def test_nothing_is_published_twice(spans, steps) -> None:
    found = published(fed(HeldSpans(StepSampling(2)), spans, steps), "spans")
    places = [(row["track"], row["ts_ns"], row["depth"], row["name"]) for row in found]
    assert len(places) == len(set(places))


def test_a_step_that_was_asked_for_is_whole(spans, steps) -> None:
    sampling = StepSampling(0)
    sampling.ask(3, 4)
    parts = list(fed(HeldSpans(sampling), spans, steps))
    found = [row["step"] for row in published(iter(parts), "spans")]
    for step in (3, 4):
        assert found.count(step) == pc.sum(pc.equal(spans["step"], step)).as_py()
    summed = {row["step"] for row in published(iter(parts), "step_sums")}
    assert summed == {row["step"] for row in steps} - {3, 4}


def test_a_step_that_has_not_ended_is_published_at_the_end(spans, steps) -> None:
    """What a rank did before it failed is needed one by one."""
    parts = list(fed(HeldSpans(StepSampling(0)), spans, steps[:-1]))
    last = steps[-1]["step"]
    found = [row["step"] for row in published(iter(parts), "spans")]
    assert found.count(last) == pc.sum(pc.equal(spans["step"], last)).as_py()
    assert last not in {row["step"] for row in published(iter(parts), "step_sums")}


def running(spans: pa.Table, steps: list[dict[str, Any]], num_steps: int) -> tuple[HeldSpans, int]:
    """Some steps that have ended, and the spans of the next one; when that began, Unix ns."""
    held = HeldSpans(StepSampling(0))
    for row in steps[:num_steps]:
        held.end_step(row["step"], row["start_ns"], row["dur_ns"])
    begun_ns = steps[num_steps]["start_ns"]
    held.settle(None, begun_ns)
    held.add(spans.filter(pc.equal(spans["step"], steps[num_steps]["step"])))
    return held, begun_ns


@pytest.mark.parametrize("num_steps", [0, 3])
def test_a_step_that_takes_unusually_long_is_published_while_it_runs(
    spans, steps, num_steps
) -> None:
    held, begun_ns = running(spans, steps, num_steps)
    assert "spans" not in held.settle(None, begun_ns + S)
    found = held.settle(None, begun_ns + 60 * S)["spans"]
    step = steps[num_steps]["step"]
    assert set(found["step"].to_pylist()) == {step}
    assert held.sampling.is_whole(step)
    assert not held.sampling.is_whole(step + 1)
    assert held.settle(None, begun_ns + 61 * S) == {}


def test_a_step_that_fills_the_memory_is_published(spans, steps, monkeypatch) -> None:
    monkeypatch.setattr(held_spans, "MOST_SPANS", 100)
    parts = list(fed(HeldSpans(StepSampling(0)), spans, steps))
    found = [row["step"] for row in published(iter(parts), "spans")]
    summed = {row["step"] for row in published(iter(parts), "step_sums")}
    whole = {row["step"] for row in steps} - summed
    assert whole
    for step in whole:
        assert found.count(step) == pc.sum(pc.equal(spans["step"], step)).as_py()


def test_a_step_waits_for_the_spans_of_a_device(spans, steps) -> None:
    held, begun_ns = running(spans, steps, 3)
    for row in steps[3:5]:
        held.end_step(row["step"], row["start_ns"], row["dur_ns"])
    first = steps[3]["step"]
    assert held.settle(first, begun_ns) == {}
    assert held.settle(first + 1, begun_ns)["step_sums"]["step"].to_pylist() == [first]


def test_a_span_that_ends_after_its_step_was_summed_up_is_published(spans, steps) -> None:
    held, _ = running(spans, steps, 3)
    late = spans.filter(pc.equal(spans["step"], steps[1]["step"])).slice(0, 2)
    assert held.add(late).num_rows == 2


def test_step_numbers_that_begin_anew_are_summed_like_others(spans, steps) -> None:
    """A job may count by epoch, or go back to a checkpoint."""
    held = HeldSpans(StepSampling(0))
    first, second = steps[0]["step"], steps[1]["step"]
    both = spans.filter(pc.is_in(spans["step"], pa.array([first, second])))
    more = pc.if_else(pc.equal(both["step"], first), 100, 0)
    both = both.set_column(both.column_names.index("step"), "step", pc.add(both["step"], more))
    held.add(both)
    held.end_step(first + 100, steps[0]["start_ns"], steps[0]["dur_ns"])
    held.end_step(second, steps[1]["start_ns"], steps[1]["dur_ns"])
    tables = held.settle(None, steps[2]["start_ns"])
    begin_of = {row["step"]: row["ts_ns"] for row in tables["step_sums"].to_pylist()}
    assert set(begin_of) == {first + 100, second}
    for row in tables["kind_sums"].to_pylist():
        assert row["ts_ns"] == begin_of[row["step"]]


def test_steps_that_were_asked_for_are_forgotten_once_they_are_published(spans, steps) -> None:
    sampling, last = StepSampling(0), steps[-1]["step"]
    for step in range(2, 40):
        sampling.ask(step, step)
    parts = list(fed(HeldSpans(sampling), spans, steps))
    found = [row["step"] for row in published(iter(parts), "spans")]
    for step in range(2, last + 1):
        assert found.count(step) == pc.sum(pc.equal(spans["step"], step)).as_py()
    to_come = len(range(last + 1, 40))
    assert sampling.num_asked == to_come + 1  # the end of the job has the running step published


def test_the_step_of_which_some_was_published_is_whole_whatever_its_number(spans, steps) -> None:
    held, begun_ns = running(spans, steps, 3)
    held.give_up()
    held.end_step(5_000, begun_ns, S)
    assert held.sampling.is_whole(5_000)
    held.end_step(6_000, begun_ns + S, S)
    assert not held.sampling.is_whole(6_000)
