"""The replay: members end together, a receive ends with its send, the step is the longest path."""

from pathlib import Path

import numpy as np
import pytest

from sample_traces.generate.durations import MS
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.simulation.draw import draw
from sample_traces.generate.simulation.replay import replay
from sample_traces.generate.tables.write import generate
from tests.sample_traces.generate.generated import (
    NUM_MICROBATCHES,
    NUM_STEPS,
    compute_per_rank,
    made,
    rows,
)


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


def sends_and_receives(run: Path) -> list[dict[str, int]]:
    """When both sides of each transfer saw its end, by "send" and "recv", on aligned clocks."""
    clocks = {row["rank"]: row["offset_ns"] for row in rows(run, "clocks").to_pylist()}
    ends: dict[tuple[int, int, int, int], dict[str, int]] = {}
    for row in rows(run, "collectives").to_pylist():
        if row["op"] in ("send", "recv"):
            src, dst = row["rank"], row["peer"]
            way = (src, dst) if row["op"] == "send" else (dst, src)
            key = (row["group_id"], *way, row["seq"])
            ends.setdefault(key, {})[row["op"]] = row["end_ns"] + clocks[row["rank"]]
    return list(ends.values())


def test_a_receive_ends_when_its_send_does(healthy: Path) -> None:
    transfers = sends_and_receives(healthy)
    assert len(transfers) == 16 * NUM_STEPS * NUM_MICROBATCHES
    for both in transfers:  # the stages lie on two hosts: equal up to the stated clock error
        assert abs(both["send"] - both["recv"]) <= 50_000


def test_stages_of_an_interleaved_job_send_to_the_next_chunk(tmp_path: Path) -> None:
    job = SyntheticJob(8, pp=4, tp=2, num_steps=2, num_microbatches=4, chunks=3)
    generate(job, tmp_path / "run")
    transfers = sends_and_receives(tmp_path / "run")
    between_virtual_stages = 3 * 4 - 1
    assert len(transfers) == between_virtual_stages * 2 * 4 * 2 * job.tp
    for both in transfers:
        assert abs(both["send"] - both["recv"]) <= 50_000


def test_chunks_divide_the_bubble() -> None:
    """(stages - 1) * (forward + backward) / chunks, Megatron-LM (2104.04473), section 2.2."""

    def step_ms(chunks: int) -> float:
        job = SyntheticJob(4, pp=4, num_steps=1, num_microbatches=8, chunks=chunks, noise=0.0)
        drawn = draw(job)
        for wire in (drawn.pp_forward_SPDT, drawn.pp_backward_SPDT, drawn.data_SPDT, drawn.norm_S):
            wire[...] = 0
        return float(replay(job, drawn, 0).normed.max()) / MS

    for chunks in (1, 2, 4):
        assert step_ms(chunks) == pytest.approx((8 + 3 / chunks) * 30.0)


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
