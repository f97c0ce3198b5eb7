"""Times of each rank and step, read straight from the files that a job leaves."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.accuracy.rivals.inputs import spans_of

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Phases:
    """(S, R) ms; `stage_R`: pipeline stage of each rank, all 0 where it is not known."""

    data: Float
    compute: Float
    stage_R: Int


def phases_of(folder: Path) -> Phases:
    """Data wait and compute from a folder of phase logs or a run folder."""
    return _of_run(folder) if (folder / "compacted").is_dir() else _of_logs(folder)


def write_phase_sections(phases: Phases, path: Path) -> None:
    """What inputs.write_sections writes, of phase logs: they have one section of compute."""
    times = {"data_wait": phases.data.T.tolist(), "compute": phases.compute.T.tolist()}
    kernels = {"compute": times["compute"]}
    path.write_text(json.dumps({"sections": times, "kernels": kernels}))


def _of_logs(folder: Path) -> Phases:
    columns = []
    for path in sorted(folder.glob("*.jsonl")):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        columns.append([(row["data_ms"], row["compute_ms"]) for row in rows])
    shortest = min(map(len, columns))
    times = np.array([rows[:shortest] for rows in columns]).transpose(2, 1, 0)
    return Phases(times[0], times[1], np.zeros(len(columns), dtype=np.int64))


def _of_run(folder: Path) -> Phases:
    spans = spans_of(folder)
    spans = spans.filter(pc.equal(spans["attempt"], pc.max(spans["attempt"])))
    kind = spans["kind"].cast(pa.string())
    spans = spans.set_column(spans.schema.get_field_index("kind"), "kind", kind)
    rank_R, step_S = (np.unique(spans[name].to_numpy()) for name in ("rank", "step"))

    def ms(name: str) -> Float:
        rows = spans.filter(pc.equal(spans["kind"], name))
        if name in ("forward", "backward"):
            rows = rows.filter(pc.equal(rows["depth"], 0))
        sums = rows.group_by(["rank", "step"]).aggregate([("dur_ns", "sum")])
        found = np.zeros((step_S.size, rank_R.size))
        at = np.searchsorted(step_S, sums["step"]), np.searchsorted(rank_R, sums["rank"])
        found[at] = sums["dur_ns_sum"].to_numpy() / 1e6
        return found

    compute = ms("forward") + ms("backward") - ms("tp_comm")
    return Phases(ms("data_wait"), compute, _stages(folder, rank_R))


def _stages(folder: Path, rank_R: Int) -> Int:
    stages = dict.fromkeys(rank_R.tolist(), 0)
    for path in (folder / "ranks").glob("*.json"):
        about = json.loads(path.read_text(encoding="utf-8"))
        stages[about["rank"]] = about["coords"].get("pp", 0)
    return np.array([stages[rank] for rank in rank_R.tolist()])
