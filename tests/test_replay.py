"""The replay writes what was recorded, moved to now, and goes on after its end."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from benchmarks.replay import Recording, Replay
from ingest.run import open_run
from sample_traces import RECORDED

TURN_S = 3.0


def rows_of(folder: Path, table: str) -> pa.Table:
    files = sorted(folder.glob(f"*/{table}-*.parquet"))
    return pa.concat_tables(pq.read_table(file) for file in files).unify_dictionaries()


LAST = Recording(RECORDED / "slow_rank").last_step
SECONDS = 2.2 * Recording(RECORDED / "slow_rank").end_s
"""Long enough for the recording and all of its first repetition."""


def played(folder: Path, seconds: float) -> Replay:
    """A replay on a clock of its own: as if it had run for so long."""
    replay = Replay(Recording(RECORDED / "slow_rank"), folder)
    for turn in range(int(seconds / TURN_S)):
        for rank in replay.recording.ranks:
            replay.flush(rank, replay.begun_ns + round(turn * TURN_S * 1e9))
    return replay


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Replay:
    return played(tmp_path_factory.mktemp("replay") / "again", SECONDS)


@pytest.fixture
def run_folder(replay: Replay) -> Path:
    return replay.folder


@pytest.mark.parametrize("table", ["spans", "collectives", "steps", "memory", "groups"])
def test_the_recording_comes_once_and_unchanged_but_for_its_times(
    run_folder: Path, table: str
) -> None:
    recorded, again = rows_of(RECORDED / "slow_rank", table), rows_of(run_folder, table)
    again = again.filter(pc.less_equal(again["step"], LAST))
    assert again.num_rows == recorded.num_rows
    for column in ("rank", "step", "dur_ns", "seq", "name"):
        if column in recorded.schema.names:
            kept = sorted(recorded[column].to_pylist())
            assert sorted(again[column].to_pylist()) == kept


def test_steps_go_on_without_gap_or_overlap(run_folder: Path) -> None:
    steps = rows_of(run_folder, "steps")
    first = steps.filter(pc.equal(steps["rank"], 0)).sort_by("step")
    numbers = first["step"].to_pylist()
    assert numbers == list(range(len(numbers)))
    assert len(numbers) > LAST + 5
    starts, lengths = first["start_ns"].to_pylist(), first["dur_ns"].to_pylist()
    gaps_ms = [
        (later - start - length) / 1e6
        for start, length, later in zip(starts, lengths, starts[1:], strict=False)
    ]
    assert max(gaps_ms) < 100
    assert min(gaps_ms) > -5


def test_collectives_keep_one_instance_per_number(run_folder: Path) -> None:
    rows = rows_of(run_folder, "collectives")
    keys = ["group_id", "seq", "rank", "peer", "tag", "op"]
    assert rows.select(keys).group_by(keys).aggregate([]).num_rows == rows.num_rows


def test_the_planted_rank_stays_slow(run_folder: Path) -> None:
    with open_run(run_folder) as run:
        last = run.ask("steps").to_pylist()[-2]["step"]
        worst = run.ask("slowest_ranks", step_min=last - 3, step_max=last, top=1).to_pylist()
        assert run.problems == []
    assert worst[0]["rank"] == 5
    assert worst[0]["beyond_noise"]


def test_when_a_step_happened(replay: Replay) -> None:
    steps = rows_of(replay.folder, "steps")
    for number in (0, LAST, LAST + 1, LAST + 4):
        rows = steps.filter(pc.equal(steps["step"], number))
        ends = pc.add(rows["start_ns"], rows["dur_ns"])
        assert replay.step_end_ns(number) == pc.max(ends).as_py()
