"""Starts a job that gets stuck, looks at it as a user would, kills it, and looks once more."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from benchmarks.stuck.cases import CASES
from benchmarks.stuck.dumps import ranks_of_fr_trace, ranks_of_rankscope
from benchmarks.stuck.outcome import Outcome
from benchmarks.stuck.viewers import Library, Named, Server, Viewer
from diagnosis.stuck.causes import LOOP_MS

HERE = Path(__file__).resolve().parent
JOB = HERE / "job.py"
LONGEST_S, DUMPS_S, WATCHDOG_S = 45.0, 4.0, 30.0


class How(NamedTuple):
    """How jobs are watched: how long the slow ones, how often, through a server or not; and how
    long after each other their processes are killed in the end.
    """

    slow_s: float
    every_s: float
    by_library: bool
    dumps: bool
    apart_s: float = 0.0


def watch(case: str, num_ranks: int, folder: Path, how: How) -> Outcome:
    """Start the job of a case in an empty folder, follow it, kill it, look once more."""
    os.mkfifo(folder / "fifo")
    group = _memory_group(folder) if case == "memory" else None
    environ = os.environ | {
        "PYTHONPATH": str(HERE.parents[1]),
        "OMP_NUM_THREADS": "1",
        "TRACE_HOOKS_FOLDER": str(folder / "runs"),
        "TRACE_HOOKS_RING_DIR": str(folder / "rings"),
    }
    if how.dumps:
        (folder / "dumps").mkdir()
        environ |= {"TORCH_FR_BUFFER_SIZE": "2000"}
    if case == "network":
        environ |= _stalled_network(folder)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [
        "--nproc-per-node",
        str(num_ranks),
        str(JOB),
        case,
        str(folder),
    ]
    with (folder / "log").open("w") as log:
        job = subprocess.Popen(command, env=environ, stdout=log, stderr=log, start_new_session=True)
    outcome = Outcome(case, num_ranks)
    run = folder / "runs" / case
    viewer: Viewer = Library(run) if how.by_library else Server(run)
    try:
        _follow(outcome, viewer, folder, how)
        if how.dumps and CASES[case].kinds:
            _ask_for_dumps(folder, num_ranks)
    finally:
        viewer.close()
        _kill(job, folder, how.apart_s)
        if group is not None:
            time.sleep(0.5)
            group.rmdir()
    _wait_for_watchdog(folder)
    if how.dumps and any(folder.glob("dumps/dump_*")):
        outcome.has_dumps = True
        outcome.dumps = ranks_of_rankscope(folder / "dumps")
        outcome.fr_trace = ranks_of_fr_trace(folder / "dumps")
    outcome.after = any(_is_right(finding, outcome) for finding in Library(run).findings())
    return outcome


def _ask_for_dumps(folder: Path, num_ranks: int) -> None:
    """Ranks that are dead, stopped or without the GIL write none."""
    (folder / "dump").touch()
    until_s = time.monotonic() + DUMPS_S
    while time.monotonic() < until_s:
        if len([path for path in (folder / "dumps").iterdir() if not path.suffix]) == num_ranks:
            return
        time.sleep(0.2)


def _stalled_network(folder: Path) -> dict[str, str]:
    """The environment of a network that stands still while a file exists."""
    library, source = folder / "stalled_network.so", HERE / "stalled_network.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, source, "-ldl"], check=True)
    return {"LD_PRELOAD": str(library), "STALLED_NETWORK": str(folder / "network-stalls")}


def _memory_group(folder: Path) -> Path:
    """A memory cgroup of 300 MB, whose path stands in a file; raises OSError where not allowed."""
    old = Path("/sys/fs/cgroup/memory")
    group = (old if old.is_dir() else old.parent) / f"rankscope-{os.getpid()}-{folder.name}"
    group.mkdir()
    limit = group / ("memory.limit_in_bytes" if old.is_dir() else "memory.max")
    limit.write_text("300000000")
    (folder / "cgroup").write_text(str(group))
    return group


def _kill(job: subprocess.Popen[bytes], folder: Path, apart_s: float) -> None:
    """torchrun and its ranks, which are in sessions of their own, in any order."""
    job.send_signal(signal.SIGKILL)
    job.wait()
    pids = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes()
            if str(folder).encode() in words and JOB.name.encode() in words:
                pids.append(int(path.parent.name))
    random.shuffle(pids)
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        time.sleep(apart_s)


def _wait_for_watchdog(folder: Path) -> None:
    """Until it has written what became of the ranks: it ends some seconds after them."""
    until_s = time.monotonic() + WATCHDOG_S
    while time.monotonic() < until_s and _is_watched(folder):
        time.sleep(0.2)


def _is_watched(folder: Path) -> bool:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes()
            if b"trace_hooks.watchdog" in words and str(folder).encode() in words:
                return True
    return False


def _follow(outcome: Outcome, viewer: Viewer, folder: Path, how: How) -> None:
    onset = folder / "onset"
    until_s = time.monotonic() + 90.0
    while not onset.exists():
        if time.monotonic() > until_s:
            print(f"{outcome.case}: no onset; {(folder / 'log').read_text()[-2000:]}")
            outcome.add_wrong("the job did not come so far")
            return
        time.sleep(0.1)
    onset_ns = int(onset.read_text())
    outcome.load = round(os.getloadavg()[0], 1)
    longest_s = LONGEST_S if CASES[outcome.case].kinds else how.slow_s
    longest_s += LOOP_MS / 1e3 if outcome.case == "loop" else 0.0  # before, it may come back
    while (after_s := _since(onset_ns)) < longest_s:
        _look(outcome, viewer, onset_ns)
        if outcome.finding_s is not None and outcome.status_s is not None:
            break
        if outcome.finding_s is not None and after_s > outcome.finding_s + 5.0:
            break  # the job has ended: nobody waits
        time.sleep(how.every_s)
    outcome.watched_s = round(_since(onset_ns), 1)


def _look(outcome: Outcome, viewer: Viewer, onset_ns: int) -> None:
    findings = viewer.findings()
    if outcome.status_s is None and (findings or viewer.waits()):
        outcome.status_s = _since(onset_ns)
    for finding in findings:
        if not _is_right(finding, outcome):
            outcome.add_wrong(f"{finding.kind} {list(finding.ranks)}")
        elif outcome.finding_s is None:
            outcome.finding_s = _since(onset_ns)


def _since(onset_ns: int) -> float:
    return (time.time_ns() - onset_ns) / 1e9


def _is_right(finding: Named, outcome: Outcome) -> bool:
    case = CASES[outcome.case]
    return finding.kind in case.kinds and finding.ranks == case.ranks(outcome.num_ranks)
