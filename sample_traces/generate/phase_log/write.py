"""Writes a phase log as JSON lines, one file per rank."""

from __future__ import annotations

import json
from pathlib import Path

from sample_traces.generate.phase_log.job import LogJob
from sample_traces.generate.phase_log.simulate import PhaseLog

BEGAN_S = 1_767_225_600
"""2026-01-01T00:00:00Z, so that equal jobs are equal to the byte."""


def write_log(job: LogJob, log: PhaseLog, folder: Path) -> Path:
    """Write one file per rank to `folder`, which is made; returns it."""
    folder.mkdir(parents=True)
    for rank in range(job.num_ranks):
        lines = [json.dumps(_line(job, log, step, rank)) for step in range(job.num_steps)]
        path = folder / f"rank_{rank:04d}.jsonl"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def _line(job: LogJob, log: PhaseLog, step: int, rank: int) -> dict[str, object]:
    line: dict[str, object] = {"step": step, "rank": rank}
    for name, times in log.timers.items():
        key = f"{name}_ms"
        if key in job.keys:
            line[key] = round(float(times[step, rank]), 3)
    line["step_ms"] = round(float(log.step_SR[step, rank]), 3)
    if "ts" in job.keys:
        line["ts"] = round(BEGAN_S + float(log.end_SR[step, rank]) / 1000, job.digits)
    if "world_size" in job.keys:
        line["world_size"] = job.num_ranks
    if job.names_hosts == "node_rank":
        line["node_rank"] = rank // job.ranks_per_host
    elif job.names_hosts == "hostname":
        line["hostname"] = job.host_of(rank)
    return line
