"""What faults do to the times of a synthetic job."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.sample_traces.generate.generated import compute_per_rank, made, rows


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
