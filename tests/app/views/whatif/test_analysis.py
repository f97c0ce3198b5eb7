"""`rankscope whatif`, through the real command line in process."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from app.cli import main
from app.commands.whatif import KEYS
from sample_traces import RECORDED
from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.straggler_trace import MegatronJob, straggler_trace
from sample_traces.generate.tables.write import generate
from tests.app.commands.json_output import json_of
from tests.runs_builder import RunBuilder
from tests.whatif_traces import STRAGGLER_TRACES, TRIALS, check_against, expected, needs_traces
from trace_hooks.layout import ParallelLayout


def whatif(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    answer = json_of(capsys, "whatif", path)
    assert tuple(answer) == KEYS
    return answer


def refused(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The reason, after both forms were seen."""
    assert main(["whatif", str(path), "--json"]) == 4
    answer = json.loads(capsys.readouterr().out)
    reason: str = answer.pop("reason")
    assert answer == dict.fromkeys(KEYS)
    assert main(["whatif", str(path)]) == 4
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"rankscope whatif: {reason}\n")
    return reason


@pytest.mark.sampled
@needs_traces
@pytest.mark.parametrize("trial", TRIALS)
def test_every_published_number(trial: str, capsys: pytest.CaptureFixture[str]) -> None:
    answer = whatif(STRAGGLER_TRACES / f"trace-{trial}.parquet", capsys)
    stages = len(expected(trial)["heatmap_pp_by_dp"])
    ranks = sorted(map(int, answer["S_w"]))
    width = len(ranks) // stages  # stages are the slowest axis of these jobs
    rows = [ranks[stage * width :][:width] for stage in range(stages)]
    heat_map = [[answer["S_w"][str(rank)] for rank in row] for row in rows]
    num_leaves = sum(len(answer[key]) for key in ("S_t", "S_stage", "S_dp", "S_w"))
    assert check_against(answer, trial, heat_map) == 14 + num_leaves


def written(job: MegatronJob, folder: Path, with_sizes: bool = True) -> Path:
    folder.mkdir()
    pq.write_table(straggler_trace(job), folder / "trace-X.parquet")
    if with_sizes:
        (folder / "meta-X.yaml").write_text(yaml.safe_dump(job.metadata))
    return folder / "trace-X.parquet"


def test_chunks_survive_the_import(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = MegatronJob(pp=2, dp=2, tp=2, vpp=2, num_microbatches=4, num_steps=3, slow=((1, 0, 1.5),))
    answer = whatif(written(job, tmp_path / "in"), capsys)
    assert answer["M_W_ranks"] == [4]
    assert max(answer["S_w"], key=answer["S_w"].get) == "4"
    assert set(answer["S_w"]) == {"0", "2", "4", "6"}
    assert 0 <= answer["fidelity"] < 0.01


def test_gaps_between_operations_are_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(MegatronJob(pp=1, dp=1, num_steps=2), tmp_path / "in")
    table = pq.read_table(path)
    stretched = pa.array(table["start_ts"].to_numpy() * np.float32(1.5))
    at = table.column_names.index("start_ts")
    pq.write_table(table.set_column(at, "start_ts", stretched), path)
    assert main(["whatif", str(path)]) == 0
    assert "note       Measured steps are 4" in capsys.readouterr().out
    assert whatif(path, capsys)["fidelity"] == pytest.approx(0.47, abs=0.03)


def test_a_trace_without_optimizer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(MegatronJob(pp=2, dp=1), tmp_path / "in")
    table = pq.read_table(path)
    kept = [optype != "optimizer" for optype in table["optype"].to_pylist()]
    pq.write_table(table.filter(kept), path)
    assert refused(path, capsys) == "stage 0 has no optimizer, so its step has no end"


def synthetic(tmp_path: Path, *faults: str, **sizes: Any) -> Path:
    planted = tuple(SyntheticFault.parse(text) for text in faults)
    generate(
        SyntheticJob(
            **({"num_ranks": 32, "pp": 4, "tp": 2, "num_steps": 6} | sizes), faults=planted
        ),
        tmp_path / "run",
    )
    return tmp_path / "run"


def test_a_slow_rank_of_a_recorded_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = synthetic(tmp_path, "slow_worker=11,x=1.5")
    answer = whatif(run, capsys)
    assert answer["S"] == pytest.approx(1.2, abs=0.1)
    assert answer["M_W_ranks"] == [11]  # ranks 10 and 11 are one tensor-parallel group
    assert max(answer["S_w"], key=answer["S_w"].get) == "11"
    assert set(answer["S_w"]) == {str(rank) for rank in range(32)}
    assert abs(answer["fidelity"]) < 0.02
    assert main(["whatif", str(run)]) == 0
    text = capsys.readouterr().out
    assert "by rank    11 " in text
    assert "cause      slow_worker: rank 11 computes 1.4" in text  # 1.5 less the shared all-reduces
    assert "compare with a good run (rankscope diagnose RUN --baseline GOOD_RUN)" in text
    assert "recovered if rank 11 keeps pace" in text
    assert "The first step (0) is left out" in text


def test_a_healthy_recorded_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = synthetic(tmp_path)
    answer = whatif(run, capsys)
    assert answer["S"] < 1.03
    assert max(answer["S_w"].values()) < 1.03
    assert main(["whatif", str(run)]) == 0
    text = capsys.readouterr().out
    assert "below 1.03" in text
    assert "\ncause" not in text


def test_sums_per_step_cannot_be_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "micro-batches were not recorded" in refused(synthetic(tmp_path, level="steps"), capsys)


def test_a_job_without_aligned_clocks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reason = refused(synthetic(tmp_path, "clock_unaligned"), capsys)
    assert "not aligned" in reason
    assert "import the files of all ranks" not in reason  # no rank is missing


def test_a_dead_rank_leaves_the_steps_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = synthetic(tmp_path, "dead_rank=5,from=4")
    assert whatif(run, capsys)["S"] < 1.03


def test_a_run_without_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = RunBuilder(tmp_path / "run", 2, ParallelLayout.from_sizes(dp=2))
    run.span(0, 0, "forward", 0, 10)
    run.rank_files()
    run.publish()
    assert "no step is finished on all ranks yet" in refused(run.folder, capsys)


def test_the_recorded_sample(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The real job with rank 5 slow, the second of its cell, (stage 1, dp 0)."""
    shutil.copytree(RECORDED / "slow_rank", tmp_path / "run")
    answer = whatif(tmp_path / "run", capsys)
    assert answer["M_W_ranks"] == [5]
    assert max(answer["S_w"], key=answer["S_w"].get) == "5"
    assert abs(answer["fidelity"]) < 0.15


@pytest.mark.parametrize(("name", "cause"), [("slow_rank", "slow_worker"), ("healthy", None)])
def test_causes_of_the_recorded_samples(
    name: str, cause: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Parameters are sharded: the quick replica waits inside its own forwards and backwards."""
    shutil.copytree(RECORDED / name, tmp_path / "run")
    assert main(["whatif", str(tmp_path / "run")]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    rows = [(line[1].rstrip(":"), line[3]) for line in lines if line and line[0] == "cause"]
    assert rows == ([] if cause is None else [(cause, "5")])
