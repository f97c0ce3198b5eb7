"""The results file: JSON lines, one for each finished episode and then one for its job.

The lines of a job are written at once, so a campaign that was killed goes on with the next job;
what a kill left of a line, or episodes without their job, are passed over. The same lines are the
truth file of a kept run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from benchmarks.real.plan import Episode

Row = dict[str, Any]

TRUTH = "truth.jsonl"
"""In the folder of a kept run."""


@dataclass
class Results:
    """What a results file holds. `episodes`: with the id of their job under "job"."""

    jobs: list[Row] = field(default_factory=list)
    episodes: list[Row] = field(default_factory=list)

    def history(self, layout: str) -> list[Episode]:
        """Episodes of a layout, in the order in which they were run."""
        return [episode_of(row) for row in self.episodes if row["layout"] == layout]

    @property
    def num_crossings(self) -> int:
        """Jobs with faults."""
        return sum(job["number"] is not None for job in self.jobs)


def append(path: Path, job: Row, episodes: Sequence[Episode]) -> None:
    """Write the lines of one job."""
    conditions = {name: job[name] for name in ("layout", "neighbour")}
    lines = [
        json.dumps({"what": "episode", "job": job["id"], **conditions, **asdict(episode)})
        for episode in episodes
    ]
    lines.append(json.dumps({"what": "job", **job}))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        if file.tell() and not _ends_whole(path):
            file.write("\n")
        file.write("\n".join(lines) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _ends_whole(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def read(path: Path) -> Results:
    """Finished jobs and their episodes; nothing where there is no file."""
    rows = list(_rows(path.read_text(encoding="utf-8").splitlines())) if path.exists() else []
    jobs = [row for row in rows if row["what"] == "job"]
    finished = {job["id"] for job in jobs}
    return Results(
        jobs, [row for row in rows if row["what"] == "episode" and row["job"] in finished]
    )


def _rows(lines: Iterable[str]) -> Iterable[Row]:
    for line in lines:
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            continue  # the rest of a line that a kill cut


def episode_of(row: Row) -> Episode:
    """The episode of a line."""
    known = {field.name for field in fields(Episode)}
    values = {name: value for name, value in row.items() if name in known}
    return Episode(**values | {"ranks": tuple(row["ranks"])})
