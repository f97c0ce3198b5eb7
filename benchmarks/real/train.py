"""Runs one real job and follows it as the server does for an open page: who was named when."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from app.analysis.diagnosis import diagnose_run, diagnosis_of
from app.runs.hub import Hub
from app.runs.viewers import Viewers
from benchmarks.real.kinds import LAYOUTS, MODEL
from benchmarks.real.plan import Episode
from benchmarks.real.score import Job, parts_of, score
from diagnosis.findings import Diagnosis
from ingest.errors import UserError
from ingest.run import Run
from sample_traces.jobs.record import merge
from trace_hooks.schema import TABLES, publish_json
from trace_hooks.schema.reading import read_rows

START_S, LAST_PASS_S, END_S = 120.0, 20.0, 10.0
NICENESS = 5
"""Of the ranks, as in the demo: they share their cores with the server."""
_LOOK_S = 0.2
_WARM_STEPS = 2
"""The first steps take longest in any job."""

_BURST_S, _DUTY, _PERIOD_S = (0.5, 6.0), (0.1, 0.9), 0.02


def run_job(
    folder: Path, layout: str, episodes: list[Episode], num_steps: int, keep: Path | None
) -> Job:
    """Train with these faults, followed live; raises UserError where the job fails.

    `keep`: folder for the run, without its index.
    """
    job = Job(episodes)
    folder.mkdir(parents=True)
    hub = Hub(folder.parent)
    try:
        with training(folder, layout, episodes, num_steps) as process:
            _come_up(folder, process)
            view = hub.run(folder.name, wait_s=START_S)
            collector = Collector(folder)
            _follow(hub, folder.name, process, job, collector)
        if process.returncode:
            raise UserError(f"the job failed; see {folder / 'job.log'}")
        hub.catch_up(folder.name, LAST_PASS_S)
        _note(job, diagnose_run(hub.run(folder.name)))  # the newest, which the cache may not have
        score(job, step_ms(view), marks(view))
    finally:
        hub.close()
    if keep is not None:
        collector.write(keep)
    return job


class Collector:
    """Takes a link to every segment and bundle of a run while it is written: an index pass unpacks
    and merges them, and removes what it merged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.links = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=folder.parent.parent))
        (self.links / "segments").mkdir()

    def collect(self) -> None:
        """Link the files that are new."""
        for entry in os.scandir(self.folder / "segments"):
            link = self.links / "segments" / entry.name
            if not entry.name.startswith(".") and not link.exists():
                with suppress(FileNotFoundError):  # a bundle that was unpacked meanwhile
                    os.link(entry.path, link)

    def write(self, target: Path) -> None:
        """The run with one file per table, as recorded runs are."""
        for name in ("ranks", "compacted"):
            (target / name).mkdir(parents=True)
        for table in TABLES:
            merge(table, read_rows(self.links, table), target)
        for path in sorted((self.folder / "ranks").glob("*.json")):
            info = json.loads(path.read_text(encoding="utf-8"))
            publish_json(info, target / "ranks" / path.name)
        info = json.loads((self.folder / "run.json").read_text(encoding="utf-8"))
        publish_json(info | {"run": target.name}, target / "run.json")
        shutil.rmtree(self.links)


@contextmanager
def training(
    folder: Path, layout: str, episodes: Sequence[Episode], num_steps: int
) -> Iterator[subprocess.Popen[bytes]]:
    """The job in processes of its own; all are ended when the block ends."""
    command = [sys.executable, "-m", "sample_traces.jobs.train_3d", "--device", "cpu"]
    command += ["--nproc", str(LAYOUTS[layout].num_ranks), *LAYOUTS[layout].options, *MODEL]
    command += ["--runs", str(folder.parent), "--steps", str(num_steps), "--nice", str(NICENESS)]
    for text in (text for episode in episodes for text in episode.texts):
        command += ["--fault", text]
    environ = {key: v for key, v in os.environ.items() if not key.startswith("TRACE_HOOKS")}
    environ |= {"TRACE_HOOKS_RUN": folder.name, "OMP_NUM_THREADS": "1"}
    with (folder / "job.log").open("wb") as log:
        job = subprocess.Popen(
            command, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0
        )
    try:
        yield job
    finally:
        if job.poll() is None:
            job.terminate()
            try:
                job.wait(END_S)
            except subprocess.TimeoutExpired:
                os.killpg(job.pid, signal.SIGKILL)
                job.wait()


def _come_up(folder: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    while not (folder / "run.json").exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise UserError(f"the job did not come up; see {folder / 'job.log'}")
        time.sleep(_LOOK_S)


def _follow(
    hub: Hub, name: str, process: subprocess.Popen[bytes], job: Job, collector: Collector
) -> None:
    """Diagnose whenever new data arrives, as the server does for a page that is open."""
    news, viewers = threading.Event(), Viewers(hub.run(name).folder)
    stop = hub.listen(lambda _name, _version: news.set())
    while process.poll() is None:
        collector.collect()
        viewers.look("running")
        if news.wait(_LOOK_S):
            news.clear()
            _note(job, diagnosis_of(hub, name))
    collector.collect()
    stop()


def _note(job: Job, diagnosis: Diagnosis) -> None:
    parts = parts_of(diagnosis)
    if not job.reported or job.reported[-1][1] != parts:
        job.reported.append((time.time_ns(), parts))


def step_ms(view: Run) -> dict[int, float]:
    """How long each step took, without the first ones."""
    rows = view.ask("steps").to_pylist()
    known = [row for row in rows if row["step_ms"] and row["step"] >= _WARM_STEPS]
    return {row["step"]: row["step_ms"] for row in known}


def marks(view: Run) -> dict[int, int]:
    """When the faults of a step began, on the first rank that had one."""
    found: dict[int, int] = {}
    for row in view.ask("marks").to_pylist():
        if row["kind"] == "fault":
            found[row["step"]] = min(row["ts_ns"], found.get(row["step"], row["ts_ns"]))
    return found


@contextmanager
def noisy_neighbour(wanted: bool, seed: str) -> Iterator[None]:
    """Another process that computes: bursts of random length, each a random share of a core."""
    if not wanted:
        yield
        return
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_burn, args=(seed, os.getpid()), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def _burn(seed: str, parent: int) -> None:
    drawn = random.Random(seed)
    while os.getppid() == parent:
        until_s, duty = time.monotonic() + drawn.uniform(*_BURST_S), drawn.uniform(*_DUTY)
        while time.monotonic() < until_s:
            rest_s = time.monotonic() + duty * _PERIOD_S
            while time.monotonic() < rest_s:
                pass
            time.sleep((1 - duty) * _PERIOD_S)
