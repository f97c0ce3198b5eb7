"""Real jobs that get stuck in known ways: what is said of them, and how soon.

python benchmarks/stuck.py [--rounds 3] [--ranks 4 8] [--only CASE ..] [--at-once 2] [--slow-s 25]
    [--every-s 0.5] [--library] [--dumps] [--keep FOLDER]

Each case is a job of 4 or 8 ranks over gloo (stuck_job.py) that a server of its own follows, asked
every EVERY_S over HTTP; with --library its run folder is opened instead, as by `rankscope
diagnose`. `status`: until somebody is reported to wait; `finding`: until a finding of a right kind
names exactly the culprits; both in s from the onset. `after`: the same finding from the run folder
alone once all processes were killed. `wrong`: findings of hangs that name others or another kind,
at any time. With --dumps the ranks that still can also dump their Flight Recorder, and `dumps` and
`fr_trace` say whom rankscope and torch's fr_trace name from these files alone (stuck_dumps.py).
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

from benchmarks.stuck_dumps import ranks_of_fr_trace, ranks_of_rankscope
from benchmarks.stuck_viewers import Library, Named, Server, Viewer
from diagnosis.stuck.causes import LOOP_MS

HERE = Path(__file__).resolve().parents[1]
CULPRITS = {4: 2, 8: 5}
"""By the number of ranks, as in stuck_job.py."""
LONGEST_S, DUMPS_S = 45.0, 4.0


class How(NamedTuple):
    """How jobs are watched: how long the slow ones, how often, through a server or not."""

    slow_s: float
    every_s: float
    by_library: bool
    dumps: bool


class Case(NamedTuple):
    """Kinds that are right, and who has to be named; no kinds: nothing is stuck."""

    kinds: tuple[str, ...]
    who: str = "culprit"

    def ranks(self, num_ranks: int) -> tuple[int, ...]:
        """Global ranks that have to be named."""
        culprit = CULPRITS[num_ranks]
        pair = {4: (2, 3), 8: (5, 7)}[num_ranks]  # of one data-parallel group
        return {"culprit": (culprit,), "rank 0": (0,), "pair": pair, "nobody": ()}[self.who]


MISSING, HUNG = Case(("missing_rank",)), Case(("hung_rank",))
STORAGE = Case(("stalled_storage",))
SLOW = Case((), "nobody")
CASES = {
    "sleep": MISSING,
    "rank-0": Case(("missing_rank",), "rank 0"),
    "all-to-all": MISSING,
    "barrier": MISSING,
    "send": MISSING,
    "new-group": MISSING,
    "operation": Case(("mismatched_op",)),
    "smaller": Case(("mismatched_size",)),
    "larger": Case(("mismatched_size",)),
    "dtype": Case(("mismatched_dtype",)),
    "order": Case(("group_order_deadlock",), "pair"),
    "killed": Case(("dead_rank",)),
    "memory": Case(("dead_rank",)),
    "exception": Case(("first_error", "dead_rank")),
    "stopped": HUNG,
    "gil": HUNG,
    "loop": HUNG,
    "loader": Case(("data_stalled",)),
    "loader-dead": Case(("first_error", "dead_rank")),
    "restore": STORAGE,
    "save": STORAGE,
    "open": STORAGE,
    "network": Case(("stalled_network",), "nobody"),
    "evaluation": SLOW,
    "checkpoint": SLOW,
    "compilation": SLOW,
    "input": SLOW,
}


@dataclass
class Seen:
    """What was said of one job, s after the onset; None: never."""

    case: str
    num_ranks: int
    status_s: float | None = None
    finding_s: float | None = None
    after: bool = False
    wrong: set[str] = field(default_factory=set)
    dumps: str = "-"
    fr_trace: str = "-"

    @property
    def is_right(self) -> bool:
        """Found and nothing else; of a control: nothing."""
        return not self.wrong and (self.finding_s is not None or not CASES[self.case].kinds)


def watch(case: str, num_ranks: int, folder: Path, how: How) -> Seen:
    """Start the job of a case in an empty folder, follow it, kill it, look once more."""
    os.mkfifo(folder / "fifo")
    group = _memory_group(folder) if case == "memory" else None
    environ = os.environ | {
        "PYTHONPATH": str(HERE),
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
        str(HERE / "benchmarks/stuck_job.py"),
        case,
        str(folder),
    ]
    with (folder / "log").open("w") as log:
        job = subprocess.Popen(command, env=environ, stdout=log, stderr=log, start_new_session=True)
    seen = Seen(case, num_ranks)
    run = folder / "runs" / case
    viewer: Viewer = Library(run) if how.by_library else Server(run)
    try:
        _follow(seen, viewer, folder, how)
        if how.dumps and CASES[case].kinds:
            _ask_for_dumps(folder, num_ranks)
    finally:
        viewer.close()
        _kill(job, folder)
        if group is not None:
            time.sleep(0.5)
            group.rmdir()
    time.sleep(3.0)  # the watchdog writes what became of the ranks
    if how.dumps and any(folder.glob("dumps/dump_*")):
        seen.dumps = str(list(ranks_of_rankscope(folder / "dumps")))
        listed = ranks_of_fr_trace(folder / "dumps")
        seen.fr_trace = "error" if listed is None else str(list(listed))
    seen.after = any(_is_right(finding, seen) for finding in Library(run).findings())
    return seen


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
    library, source = folder / "stalled_network.so", HERE / "benchmarks/stalled_network.c"
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


def _follow(seen: Seen, viewer: Viewer, folder: Path, how: How) -> None:
    onset = folder / "onset"
    until_s = time.monotonic() + 90.0
    while not onset.exists():
        if time.monotonic() > until_s:
            raise SystemExit(f"{seen.case}: no onset; {(folder / 'log').read_text()[-2000:]}")
        time.sleep(0.1)
    onset_ns = int(onset.read_text())
    longest_s = LONGEST_S if CASES[seen.case].kinds else how.slow_s
    longest_s += LOOP_MS / 1e3 if seen.case == "loop" else 0.0  # before, it may come back
    while (after_s := _since(onset_ns)) < longest_s:
        _look(seen, viewer, onset_ns)
        if seen.finding_s is not None and seen.status_s is not None:
            break
        if seen.finding_s is not None and after_s > seen.finding_s + 5.0:
            break  # the job has ended: nobody waits
        time.sleep(how.every_s)


def _look(seen: Seen, viewer: Viewer, onset_ns: int) -> None:
    findings = viewer.findings()
    if seen.status_s is None and (findings or viewer.waits()):
        seen.status_s = _since(onset_ns)
    for finding in findings:
        if not _is_right(finding, seen):
            seen.wrong.add(f"{finding.kind} {list(finding.ranks)}")
        elif seen.finding_s is None:
            seen.finding_s = _since(onset_ns)


def _since(onset_ns: int) -> float:
    return (time.time_ns() - onset_ns) / 1e9


def _is_right(finding: Named, seen: Seen) -> bool:
    case = CASES[seen.case]
    return finding.kind in case.kinds and finding.ranks == case.ranks(seen.num_ranks)


def campaign(
    jobs: list[tuple[str, int]], at_once: int, how: How, keep: Path | None
) -> Iterator[Seen]:
    """All cases, some at the same time."""
    scratch = keep or Path(tempfile.mkdtemp(prefix="rankscope-stuck-"))

    def one(number: int, job: tuple[str, int]) -> Seen:
        folder = scratch / f"{number}-{job[0]}"
        folder.mkdir(parents=True)
        try:
            return watch(*job, folder, how)
        finally:
            if keep is None:
                shutil.rmtree(folder, ignore_errors=True)

    try:
        with ThreadPoolExecutor(at_once) as pool:
            yield from pool.map(one, range(len(jobs)), jobs)
    finally:
        if keep is None:
            shutil.rmtree(scratch, ignore_errors=True)


def _text(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.1f}"


def _row(seen: Seen) -> str:
    times = f"{_text(seen.status_s)} | {_text(seen.finding_s)}"
    yes = [("no", "yes")[is_so] for is_so in (seen.after, seen.is_right)]
    wrong = ", ".join(sorted(seen.wrong)) or "-"
    cells = [seen.case, seen.num_ranks, times, *yes, wrong, seen.dumps, seen.fr_trace]
    return f"| {' | '.join(map(str, cells))} |"


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
    parser.add_argument("--ranks", type=int, nargs="*", choices=CULPRITS, default=list(CULPRITS))
    parser.add_argument("--only", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--slow-s", type=float, default=25.0, help="how long slow jobs are watched")
    parser.add_argument("--every-s", type=float, default=0.5, help="between two looks at a job")
    parser.add_argument("--library", action="store_true", help="open the run folder, no server")
    parser.add_argument("--keep", type=Path, help="new folder that keeps all run folders and logs")
    parser.add_argument("--dumps", action="store_true", help="compare with torch's fr_trace")
    arguments = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, {arguments.at_once} at once")
    print("| case | ranks | status s | finding s | after | right | wrong | dumps | fr_trace |")
    print("|---|---|---|---|---|---|---|---|---|")
    all_seen = []
    how = How(arguments.slow_s, arguments.every_s, arguments.library, arguments.dumps)
    jobs = [(case, num_ranks) for case in arguments.only for num_ranks in arguments.ranks]
    for seen in campaign(jobs * arguments.rounds, arguments.at_once, how, arguments.keep):
        all_seen.append(seen)
        print(_row(seen), flush=True)
    report(all_seen)


if __name__ == "__main__":
    main()
