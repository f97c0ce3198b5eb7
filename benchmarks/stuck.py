"""Real jobs that get stuck in known ways: what is said of them, and how soon.

python benchmarks/stuck.py [--rounds 3] [--only CASE ..] [--at-once 2]

Each case is a job of 4 ranks over gloo (stuck_job.py) whose run folder is read every half second as
a server would. `status`: until somebody is said to wait; `finding`: until a finding of a right kind
names exactly the culprits; both in s from the onset. `after`: the same finding once all processes
were killed. `wrong`: findings of hangs that name others or another kind, at any time.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from app.analysis.diagnosis import diagnose_run
from diagnosis.detectors import dead_rank, stuck
from diagnosis.stuck.causes import LOOP_MS
from ingest.errors import UserError
from ingest.run import open_run

HERE = Path(__file__).resolve().parents[1]
ROUND_S, LONGEST_S, CONTROL_S = 0.5, 45.0, 25.0
KINDS = (*stuck.KINDS, *dead_rank.KINDS, "first_error")


class Truth(NamedTuple):
    """Kinds that are right, and the ranks that have to be named; no kinds: nothing is stuck."""

    kinds: tuple[str, ...]
    ranks: tuple[int, ...] = (2,)


MISSING, HUNG = Truth(("missing_rank",)), Truth(("hung_rank",))
STORAGE = Truth(("stalled_storage",))
CASES = {
    "sleep": MISSING,
    "rank-0": Truth(("missing_rank",), (0,)),
    "all-to-all": MISSING,
    "barrier": MISSING,
    "send": MISSING,
    "new-group": MISSING,
    "operation": Truth(("mismatched_op",)),
    "smaller": Truth(("mismatched_size",)),
    "larger": Truth(("mismatched_size",)),
    "dtype": Truth(("mismatched_dtype",)),
    "order": Truth(("group_order_deadlock",), (1, 2)),
    "killed": Truth(("dead_rank",)),
    "exception": Truth(("first_error", "dead_rank")),
    "stopped": HUNG,
    "gil": HUNG,
    "loop": HUNG,
    "loader": Truth(("data_stalled",)),
    "restore": STORAGE,
    "save": STORAGE,
    "evaluation": Truth(()),
    "checkpoint": Truth(()),
}


@dataclass
class Seen:
    """What was said of one job, s after the onset; None: never."""

    case: str
    status_s: float | None = None
    finding_s: float | None = None
    after: bool = False
    wrong: set[str] = field(default_factory=set)

    @property
    def is_right(self) -> bool:
        """Found and nothing else; of a control: nothing."""
        return not self.wrong and (self.finding_s is not None or not CASES[self.case].kinds)


def watch(case: str, folder: Path) -> Seen:
    """Start the job of a case in an empty folder, follow it, kill it, look once more."""
    os.mkfifo(folder / "fifo")
    environ = os.environ | {
        "PYTHONPATH": str(HERE),
        "OMP_NUM_THREADS": "1",
        "TRACE_HOOKS_FOLDER": str(folder / "runs"),
        "TRACE_HOOKS_RING_DIR": str(folder / "rings"),
    }
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "4", str(HERE / "benchmarks/stuck_job.py"), case, str(folder)]
    with (folder / "log").open("w") as log:
        job = subprocess.Popen(command, env=environ, stdout=log, stderr=log, start_new_session=True)
    seen = Seen(case)
    try:
        _follow(seen, folder)
    finally:
        _kill(job, folder)
    time.sleep(3.0)  # the watchdog writes what became of the ranks
    seen.after = any(_is_right(finding, case) for finding in _findings(folder / "runs" / case))
    return seen


def _kill(job: subprocess.Popen[bytes], folder: Path) -> None:
    """torchrun and its ranks, which are in sessions of their own."""
    job.send_signal(signal.SIGKILL)
    job.wait()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            is_ours = str(folder).encode() in path.read_bytes()
        except OSError:
            continue
        if is_ours and b"stuck_job.py" in path.parent.joinpath("cmdline").read_bytes():
            os.kill(int(path.parent.name), signal.SIGKILL)


def _follow(seen: Seen, folder: Path) -> None:
    onset, run = folder / "onset", folder / "runs" / seen.case
    until_s = time.monotonic() + 90.0
    while not onset.exists():
        if time.monotonic() > until_s:
            raise SystemExit(f"{seen.case}: no onset; {(folder / 'log').read_text()[-2000:]}")
        time.sleep(0.1)
    onset_ns = int(onset.read_text())
    longest_s = LONGEST_S if CASES[seen.case].kinds else CONTROL_S
    longest_s += LOOP_MS / 1e3 if seen.case == "loop" else 0.0  # before, it may come back
    while (after_s := (time.time_ns() - onset_ns) / 1e9) < longest_s:
        _look(seen, run, after_s)
        if seen.finding_s is not None and seen.status_s is not None:
            break
        if seen.finding_s is not None and after_s > seen.finding_s + 5.0:
            break  # the job has ended: nobody waits
        time.sleep(ROUND_S)


def _look(seen: Seen, run: Path, after_s: float) -> None:
    findings = _findings(run)
    if seen.status_s is None and (findings or _waits(run)):
        seen.status_s = after_s
    for finding in findings:
        if not _is_right(finding, seen.case):
            seen.wrong.add(f"{finding[0]} {list(finding[1])}")
        elif seen.finding_s is None:
            seen.finding_s = after_s


def _waits(run: Path) -> bool:
    from app.views.stuck import stuck_of

    with open_run(run) as opened:
        return stuck_of(opened, None).state == "stuck"


def _findings(run: Path) -> list[tuple[str, tuple[int, ...]]]:
    """Kinds and ranks of what is said about a hang or a death."""
    try:
        with open_run(run) as opened:
            diagnosis = diagnose_run(opened)
    except UserError:  # the run folder is being made
        return []
    return [
        (one.kind, tuple(place.rank for place in one.culprits))
        for one in diagnosis.findings
        if one.kind in KINDS
    ]


def _is_right(finding: tuple[str, tuple[int, ...]], case: str) -> bool:
    kind, ranks = finding
    return kind in CASES[case].kinds and ranks == CASES[case].ranks


def campaign(cases: list[str], at_once: int) -> Iterator[Seen]:
    """All cases, some at the same time."""
    scratch = Path(tempfile.mkdtemp(prefix="rankscope-stuck-"))

    def one(number: int, case: str) -> Seen:
        folder = scratch / f"{number}-{case}"
        folder.mkdir()
        try:
            return watch(case, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    try:
        with ThreadPoolExecutor(at_once) as pool:
            yield from pool.map(one, range(len(cases)), cases)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _text(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.1f}"


def report(all_seen: list[Seen]) -> None:
    stuck_ones = [seen for seen in all_seen if CASES[seen.case].kinds]
    controls = [seen for seen in all_seen if not CASES[seen.case].kinds]
    right = sum(seen.is_right for seen in stuck_ones)
    print(f"\n{right} of {len(stuck_ones)} right; the same after the end: ", end="")
    print(f"{sum(seen.after for seen in stuck_ones)}; ", end="")
    print(f"controls with a finding: {sum(bool(seen.wrong) for seen in controls)}")
    for name in ("status_s", "finding_s"):
        known = sorted(value for seen in stuck_ones if (value := getattr(seen, name)) is not None)
        if known:
            p95 = known[min(int(0.95 * len(known)), len(known) - 1)]
            print(
                f"{name:10} p50 {statistics.median(known):.1f} s, p95 {p95:.1f} s, n {len(known)}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--at-once", type=int, default=2)
    arguments = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, {arguments.at_once} at once")
    print("| case | status s | finding s | after | right | wrong |\n|---|---|---|---|---|---|")
    all_seen = []
    for seen in campaign(arguments.only * arguments.rounds, arguments.at_once):
        all_seen.append(seen)
        wrong = ", ".join(sorted(seen.wrong)) or "-"
        print(
            f"| {seen.case} | {_text(seen.status_s)} | {_text(seen.finding_s)} | "
            f"{'yes' if seen.after else 'no'} | {'yes' if seen.is_right else 'no'} | {wrong} |",
            flush=True,
        )
    report(all_seen)


if __name__ == "__main__":
    main()
