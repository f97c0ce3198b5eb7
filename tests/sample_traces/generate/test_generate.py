"""Synthetic jobs: determinism, the max-plus rules on the written rows, and what faults do."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from app.cli import main
from sample_traces.generate.faults import KINDS, SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.tables.write import CREATED_NS, generate

NUM_STEPS, NUM_MICROBATCHES = 6, 4


def made(folder: Path, *faults: str, num_ranks: int = 16, level: str = "spans") -> Path:
    job = SyntheticJob(
        num_ranks,
        pp=2,
        tp=2,
        num_steps=NUM_STEPS,
        num_microbatches=NUM_MICROBATCHES,
        level=level,
        faults=tuple(SyntheticFault.parse(fault) for fault in faults),
    )
    generate(job, folder)
    return folder


def rows(run: Path, table: str) -> pa.Table:
    return pa.concat_tables(
        pq.read_table(path) for path in sorted((run / "compacted").glob(f"{table}-*.parquet"))
    )


def per_rank(run: Path, table: str, column: str) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for row in rows(run, table).select(["rank", column]).to_pylist():
        found.setdefault(row["rank"], []).append(row[column])
    return found


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("healthy") / "run")


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_equal_seeds_give_equal_bytes(tmp_path: Path, healthy: Path) -> None:
    again = made(tmp_path / "run")
    assert contents(again) == contents(healthy)


def test_another_seed_gives_other_times(tmp_path: Path, healthy: Path) -> None:
    generate(SyntheticJob(16, 2, 2, NUM_STEPS, NUM_MICROBATCHES, seed=2), tmp_path / "run")
    assert not rows(tmp_path / "run", "steps").equals(rows(healthy, "steps"))


def test_counts_follow_the_schedule(healthy: Path) -> None:
    spans = rows(healthy, "spans")
    per_kind = {
        (row["kind"], row["name"]): row["rank_count"]
        for row in spans.group_by(["kind", "name"]).aggregate([("rank", "count")]).to_pylist()
    }
    each = 16 * NUM_STEPS
    passes = each * NUM_MICROBATCHES
    assert per_kind == {
        ("data_wait", "next batch"): each,
        ("dp_comm", "all_gather"): each,
        ("dp_comm", "reduce_scatter"): each,
        ("other_comm", "all_reduce"): each,
        ("optimizer", "optimizer"): each,
        ("forward", "forward"): passes,
        ("backward", "backward"): passes,
        ("tp_comm", "all_reduce"): 2 * passes,
        ("pp_comm", "recv"): passes,  # two stages: each receives one way and sends the other
        ("pp_comm", "send"): passes,
    }


def test_members_of_a_collective_end_together_after_the_last_start(healthy: Path) -> None:
    collectives = rows(healthy, "collectives").to_pylist()
    one_host = {row["group_id"] for row in collectives if row["rank"] in (0, 1)}
    instances: dict[tuple[int, int], list[dict]] = {}
    for row in collectives:
        if row["op"] not in ("send", "recv") and row["rank"] < 8 and row["group_id"] in one_host:
            instances.setdefault((row["group_id"], row["seq"]), []).append(row)
    assert len(instances) > NUM_STEPS * NUM_MICROBATCHES
    for members in instances.values():
        assert len({row["op"] for row in members}) == 1
        assert len({row["end_ns"] for row in members}) == 1
        assert max(row["start_ns"] for row in members) < members[0]["end_ns"]


def test_a_receive_ends_when_its_send_does(healthy: Path) -> None:
    clocks = {row["rank"]: row["offset_ns"] for row in rows(healthy, "clocks").to_pylist()}
    ends: dict[tuple[int, int, int, int], dict[str, int]] = {}
    for row in rows(healthy, "collectives").to_pylist():
        if row["op"] in ("send", "recv"):
            src, dst = row["rank"], row["peer"]
            way = (src, dst) if row["op"] == "send" else (dst, src)
            key = (row["group_id"], *way, row["seq"])
            ends.setdefault(key, {})[row["op"]] = row["end_ns"] + clocks[row["rank"]]
    assert len(ends) == 16 * NUM_STEPS * NUM_MICROBATCHES
    for both in ends.values():  # the stages lie on two hosts: equal up to the stated clock error
        assert abs(both["send"] - both["recv"]) <= 50_000


def test_the_step_is_the_longest_path(tmp_path: Path) -> None:
    """One replica of two stages, replayed by hand from the durations that were written."""
    job = SyntheticJob(2, pp=2, tp=1, num_steps=2, num_microbatches=3)
    generate(job, tmp_path / "run")
    spans = [s for s in rows(tmp_path / "run", "spans").to_pylist() if s["step"] == 0]
    took = {
        (s["rank"], s["kind"], s["microbatch"]): s["dur_ns"]
        for s in spans
        if s["kind"] in ("forward", "backward")
    }
    wait = [s["dur_ns"] for s in spans if s["kind"] == "data_wait"]
    wire = {
        (s["rank"], s["microbatch"]): s["dur_ns"]
        for s in rows(tmp_path / "run", "collectives").to_pylist()
        for s in [s | {"microbatch": s["seq"], "dur_ns": s["end_ns"] - s["start_ns"]}]
        if s["step"] == 0 and s["op"] == "send"
    }
    orders = (
        [
            ("forward", 0),
            ("forward", 1),
            ("backward", 0),
            ("forward", 2),
            ("backward", 1),
            ("backward", 2),
        ],
        [
            ("forward", 0),
            ("backward", 0),
            ("forward", 1),
            ("backward", 1),
            ("forward", 2),
            ("backward", 2),
        ],
    )
    free, ended = list(wait), {}
    for _ in range(12):
        for rank, order in enumerate(orders):
            for kind, m in order:
                giver = rank - 1 if kind == "forward" else rank + 1
                if (rank, kind, m) in ended:
                    continue
                if giver in (0, 1):
                    if (giver, kind, m) not in ended:
                        break
                    sent = ended[giver, kind, m]
                    # the wire is busy from when both are there; a send waits for its receiver
                    late = max(free[rank] - sent, 0)
                    begun = sent + max(wire[giver, m], late)
                else:
                    begun = free[rank]
                free[rank] = ended[rank, kind, m] = begun + took[rank, kind, m]
    norm = min(s["dur_ns"] for s in spans if s["kind"] == "other_comm")
    steps = [s for s in rows(tmp_path / "run", "steps").to_pylist() if s["step"] == 0]
    for rank, optimizer in ((s["rank"], s["dur_ns"]) for s in spans if s["kind"] == "optimizer"):
        assert steps[rank]["dur_ns"] == max(free) + norm + optimizer


def test_phases_add_up_to_the_step(tmp_path: Path, healthy: Path) -> None:
    phases = rows(made(tmp_path / "run", level="steps"), "spans")
    total = phases.group_by(["rank", "step"]).aggregate([("dur_ns", "sum")])
    total = total.sort_by([("rank", "ascending"), ("step", "ascending")])
    assert total["dur_ns_sum"].to_pylist() == rows(healthy, "steps")["dur_ns"].to_pylist()


def compute_per_rank(run: Path, column: str = "cpu_ns", since: int = 0) -> np.ndarray:
    spans = rows(run, "spans")
    wanted = pc.and_(
        pc.is_in(spans["kind"].cast(pa.string()), pa.array(["forward", "backward"])),
        pc.greater_equal(spans["step"], since),
    )
    sums = spans.filter(wanted).group_by("rank").aggregate([(column, "sum")]).sort_by("rank")
    return sums[f"{column}_sum"].to_numpy().astype(float)


def test_a_healthy_run_has_no_outlier(healthy: Path) -> None:
    compute = compute_per_rank(healthy)
    assert np.abs(compute / np.median(compute) - 1).max() < 0.02


def waits(run: Path, op: str) -> dict[int, int]:
    """Longest time each rank spent in a collective."""
    longest: dict[int, int] = {}
    for row in rows(run, "collectives").to_pylist():
        if row["op"] == op:
            rank = row["rank"]
            longest[rank] = max(longest.get(rank, 0), row["end_ns"] - row["start_ns"])
    return longest


def test_peers_wait_for_a_slow_worker(tmp_path: Path, healthy: Path) -> None:
    run = made(tmp_path / "run", "slow_worker=13,x=1.5,from=2")
    compute = compute_per_rank(run, since=2)
    assert compute.argmax() == 13
    assert compute[13] / np.median(compute) == pytest.approx(1.5, abs=0.02)
    wait, usual = waits(run, "reduce_scatter"), waits(healthy, "reduce_scatter")
    for peer in (9, 11, 15):  # same stage and tp, the other replicas
        assert wait[peer] > 5 * usual[peer]
    assert wait[13] < 2 * usual[13]  # the culprit comes last and does not wait


def faulty_steps(tmp_path: Path, fault: str) -> Sequence[float]:
    steps = rows(made(tmp_path / "run", fault), "steps")
    found = steps.filter(pc.equal(steps["rank"], 0)).sort_by("step")
    return [ns / 1e6 for ns in found["dur_ns"].to_pylist()]


@pytest.mark.parametrize(
    "fault",
    [
        "slow_stage=1",
        "host_contention=1",
        "data_loader",
        "launch_skew,ms=30",
        "gc_pauses,ms=60",
        "slow_dp_network=3,x=5",
        "slow_link=0,x=20",
        "slow_node_link=0,x=10",
        "comm_regression,x=3",
        "sequence_imbalance,x=1.5",
    ],
)
def test_faults_lengthen_the_steps_they_act_in(tmp_path: Path, fault: str) -> None:
    steps_ms = faulty_steps(tmp_path, f"{fault},from=3")
    assert min(steps_ms[3:]) > 1.03 * max(steps_ms[:3])


def test_contention_shows_in_wall_time_only(tmp_path: Path) -> None:
    run = made(tmp_path / "run", "host_contention=1,x=2")
    cpu, wall = compute_per_rank(run), compute_per_rank(run, "dur_ns")
    assert wall[8:].min() > 1.8 * wall[:8].max()
    assert cpu[8:].max() < 1.05 * cpu[:8].min()


def test_compile_spikes_are_rare(tmp_path: Path) -> None:
    steps_ms = faulty_steps(tmp_path, "jit_spikes,ms=100")
    assert steps_ms[0] > min(steps_ms[1:]) + 90 > max(steps_ms[1:])


def test_gc_pauses_are_spans(tmp_path: Path) -> None:
    spans = rows(made(tmp_path / "run", "gc_pauses,ms=60,from=2"), "spans")
    pauses = spans.filter(pc.equal(spans["kind"].cast(pa.string()), "gc"))
    assert set(pauses["step"].to_pylist()) == {2, 3, 4, 5}
    assert set(pauses["dur_ns"].to_pylist()) == {60_000_000}


def test_a_dead_rank_falls_silent_and_its_peers_wait(tmp_path: Path) -> None:
    run = made(tmp_path / "run", "dead_rank=5,from=3")
    assert max(rows(run, "steps")["step"].to_pylist()) == 2
    open_rows = [r for r in rows(run, "collectives").to_pylist() if r["state"] == "started"]
    assert {r["rank"] for r in open_rows} == {1, 3, 7}
    beats = per_rank(run, "heartbeats", "ts_ns")
    assert max(beats[5]) < min(max(beats[rank]) for rank in range(16) if rank != 5)


def test_unaligned_clocks_are_off_and_say_so(tmp_path: Path) -> None:
    run = made(tmp_path / "run", "clock_unaligned,ms=500")
    assert set(rows(run, "clocks")["method"].to_pylist()) == {"none"}
    ends = per_rank(run, "heartbeats", "ts_ns")
    assert min(ends[0]) == CREATED_NS
    assert abs(min(ends[8]) - CREATED_NS) > 1_000_000


@pytest.mark.parametrize("kind", KINDS)
def test_truth_is_written(tmp_path: Path, kind: str) -> None:
    target = {"job": "", "host": "=0"}.get(KINDS[kind].target, "=1")
    job = SyntheticJob(
        8, 4, 1, 4, 2, level="steps", faults=(SyntheticFault.parse(f"{kind}{target},from=1"),)
    )
    generate(job, tmp_path / "run")
    assert f'"kind": "{kind}"' in (tmp_path / "run" / "run.json").read_text()


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "run")
    assert main(["generate", out, "--ranks", "8", "--steps", "2", "--level", "steps"]) == 0
    assert "8 ranks (pp 2 x dp 2 x tp 2), 2 steps" in capsys.readouterr().out
    assert main(["generate", out]) == 2
    assert "is not empty; name a new folder" in capsys.readouterr().err


def test_thousands_of_ranks(tmp_path: Path) -> None:
    job = SyntheticJob(1024, 8, 8, num_steps=2, level="steps")
    generate(job, tmp_path / "run")
    assert len(set(rows(tmp_path / "run", "steps")["rank"].to_pylist())) == 1024
    assert len(list((tmp_path / "run" / "ranks").iterdir())) == 1024
