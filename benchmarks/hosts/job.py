"""Runs a job on several hosts, lets faults of one of them come and go, and judges the findings."""

from __future__ import annotations

import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.hosts.faults import KINDS, Fault
from ingest.errors import UserError

NUM_HOSTS, PER_HOST = 4, 2
LAYOUT = ("--pp", "2", "--dp", "2", "--tp", "2")
MODEL = ("--batch", "1", "--width", "128", "--seq", "64")
NICENESS = "5"
SAVE_EVERY = 5
WARM_UP, ON_STEPS, OFF_STEPS = 25, 40, 25
START_S, STUCK_S, END_S = 120.0, 180.0, 60.0
NEAR_STEPS = 3
"""A finding may begin this many steps before its episode and is still of it."""
RECORDING = ("data_gaps", "clock_unaligned", "monitor_overhead")
"""Findings about what was recorded, not about what is slow; they name nobody as slow."""

_STEP = re.compile(rb"^step (\d+) loss", re.MULTILINE)
_LOOK_S = 0.05


@dataclass
class Episode:
    """A fault while it was on. `ranks`: of its host, or the one that was hit; `found`: findings in
    its steps.
    """

    fault: str
    dose: float
    host: str
    ranks: tuple[int, ...]
    first: int = 0
    last: int = 0
    step_ratio: float = 0.0
    """median step with it / without"""
    who: bool = False
    """a finding of a kind that fits names whom it should"""
    cause: bool = False
    """one of these states a cause that fits"""
    wrong: list[str] = field(default_factory=list)
    """findings in its steps that name somebody else"""
    found: list[str] = field(default_factory=list)


@dataclass
class Job:
    """One job. `false`: findings outside of all episodes that name somebody."""

    name: str
    episodes: list[Episode]
    num_steps: int = 0
    step_ms: float = 0.0
    healthy_s: float = 0.0
    false: list[str] = field(default_factory=list)
    job_level: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Plain values, as they stand in the results file."""
        return asdict(self)


class Log:
    """Which step the job has finished, by the lines of rank 0."""

    def __init__(self, path: Path, process: subprocess.Popen[bytes]) -> None:
        self._path, self._process = path, process
        self._at, self.step = 0, -1

    def wait_for(self, step: int) -> None:
        """Until a step is over."""
        changed_s = time.monotonic()
        while self.step < step:
            before = self.step
            self._read()
            if self.step > before:
                changed_s = time.monotonic()
            elif self._process.poll() is not None or time.monotonic() > changed_s + STUCK_S:
                raise UserError(
                    f"the job ended or stood still in step {self.step + 1}; see {self._path}"
                )
            time.sleep(_LOOK_S)

    def _read(self) -> None:
        with self._path.open("rb") as file:
            file.seek(self._at)
            data = file.read()
        end = data.rfind(b"\n") + 1
        self._at += end
        for found in _STEP.finditer(data[:end]):
            self.step = int(found[1])


@contextmanager
def training(
    folder: Path, num_steps: int
) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, Any]]]:
    """The job and its hosts, as launch.py writes them; all are ended when the block ends."""
    state = folder.parent / f"{folder.name}.hosts.json"
    command = [sys.executable, "-m", "benchmarks.hosts.launch", "--state", str(state)]
    command += ["--hosts", str(NUM_HOSTS), "--per-host", str(PER_HOST), "--", *LAYOUT, *MODEL]
    command += ["--device", "cpu", "--runs", str(folder.parent), "--steps", str(num_steps)]
    command += ["--nice", NICENESS, "--save-every", str(SAVE_EVERY)]
    command += ["--save-to", str(folder.parent / "checkpoints")]
    environ = {key: value for key, value in os.environ.items() if not key.startswith("TRACE_HOOKS")}
    environ |= {"TRACE_HOOKS_RUN": folder.name, "OMP_NUM_THREADS": "1"}
    with log_of(folder).open("wb") as log:
        process = subprocess.Popen(
            command, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        end_s = time.monotonic() + START_S
        while not state.exists():
            if process.poll() is not None or time.monotonic() > end_s:
                raise UserError(f"the job did not come up; see {log_of(folder)}")
            time.sleep(_LOOK_S)
        yield process, json.loads(state.read_text(encoding="utf-8"))
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait()


def log_of(folder: Path) -> Path:
    """What the job prints."""
    return folder.parent / f"{folder.name}.log"


def run_job(folder: Path, faults: Sequence[tuple[str, float, int]], num_steps: int) -> Job:
    """Train; `faults`: name, dose and number of the host, one after the other; then diagnose.

    `num_steps`: of a job without faults. Raises UserError where the job fails.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    num_steps = WARM_UP + len(faults) * (ON_STEPS + OFF_STEPS) if faults else num_steps
    job = Job(folder.name, [], num_steps)
    with training(folder, num_steps) as (process, state):
        log, step = Log(log_of(folder), process), WARM_UP - 1
        for name, dose, host in faults:
            log.wait_for(step)
            fault = Fault(name, dose, state["switch"], state["hosts"][host], folder.parent)
            episode = Episode(name, dose, fault.host["name"], fault.ranks)
            job.episodes.append(episode)
            try:
                episode.first = log.step + 1
                fault.begin()
                log.wait_for(step + ON_STEPS)
            finally:
                fault.end()
            episode.last = log.step + 1
            step += ON_STEPS + OFF_STEPS
        log.wait_for(num_steps - 1)
        if process.wait(END_S):
            raise UserError(f"the job failed; see {log_of(folder)}")
    return job


def judge(job: Job, folder: Path) -> None:
    """Ask `rankscope` about the run, as a user does, and replace what the job says of it."""
    job.false, job.job_level = [], []
    for episode in job.episodes:
        episode.who, episode.cause, episode.wrong, episode.found = False, False, [], []
    step_ms = {row["step"]: row["step_ms"] for row in asked("query", str(folder), "steps")}
    near = {s for e in job.episodes for s in range(e.first - 1, e.last + 3)}
    clean = [ms for step, ms in step_ms.items() if ms and step >= 2 and step not in near]
    job.step_ms, job.healthy_s = statistics.median(clean), sum(clean) / 1e3
    for episode in job.episodes:
        own = [step_ms[s] for s in range(episode.first, episode.last) if step_ms.get(s)]
        episode.step_ratio = statistics.median(own) / job.step_ms
    for finding in asked("diagnose", str(folder))["findings"]:
        if finding["kind"] in RECORDING:
            continue
        met = [episode for episode in job.episodes if meets(episode, finding)]
        if not met:
            (job.false if named(finding) else job.job_level).append(text_of(finding))
        for episode in met:
            note(episode, finding)


def note(episode: Episode, finding: dict[str, Any]) -> None:
    """What a finding in its steps is for an episode."""
    kind = KINDS[episode.fault]
    episode.found.append(text_of(finding))
    ranks = {place["rank"] for place in finding["culprits"]}
    hosts = set(finding["hosts"]) | {p["host"] for p in finding["culprits"] if p["host"]}
    if not named(finding):
        is_right = finding["kind"] in kind.of_job
    elif kind.of_rank:
        is_right = finding["kind"] in kind.kinds and ranks == set(episode.ranks)
    else:
        is_right = finding["kind"] in kind.kinds and hosts == {episode.host}
    if is_right:
        episode.who = True
        words = f"{finding['cause']} {finding['text']} {finding['title']}"
        episode.cause |= any(word in words for word in kind.words)
    elif named(finding) and hosts != {episode.host}:
        episode.wrong.append(text_of(finding))


def named(finding: dict[str, Any]) -> bool:
    """Whether a finding names a rank, a stage or a host."""
    return bool(finding["culprits"] or finding["stages"] or finding["hosts"])


def meets(episode: Episode, finding: dict[str, Any]) -> bool:
    """Whether a finding, or a part of one that came and went, is about an episode: it begins in it,
    or most of its steps are in it.
    """
    whole = [(finding["first_step"], finding["last_step"])]
    return any(_meet(episode, *part) for part in finding.get("episodes") or whole)


def _meet(episode: Episode, first: int, last: int) -> bool:
    common = min(last, episode.last) - max(first, episode.first) + 1
    begins = episode.first - NEAR_STEPS <= first <= episode.last and last >= episode.first
    return begins or 2 * common >= last - first + 1


def text_of(finding: dict[str, Any]) -> str:
    """Kind, whom it names, steps and cause."""
    whom = [place["rank"] for place in finding["culprits"]] or finding["stages"] or finding["hosts"]
    steps = f"{finding['first_step']}..{finding['last_step']}"
    return f"{finding['kind']} {whom or 'nobody'} {steps}: {finding['cause']}"


def asked(*words: str) -> Any:
    """What a command of rankscope prints with --json; raises UserError with its error."""
    command = [str(Path(sys.executable).with_name("rankscope")), *words, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        raise UserError(f"rankscope {words[0]}: {done.stderr.strip()[-500:]}") from None
