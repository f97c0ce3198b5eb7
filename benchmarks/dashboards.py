"""Several dashboards on one growing run: how old what each shows gets while indexers are killed.

    python -m benchmarks.dashboards [--minutes 10] [--kills 2] [--dashboards 2]

Every dashboard is a real server in a process of its own; all serve the same run folder, and one of
them indexes it. Each is watched as a page does, over its live socket, and asked a saved query twice
a second. The one that indexes is killed (SIGKILL) --kills times, evenly spread, and started again
RESTART_S later. The age of a view is the time since the first step that it does not show lay in the
run folder whole. In the end rows and checksums are compared with what was written: of the index
that is there, and of one that is rebuilt from the files. Exits with 1 where a figure breaks its
limit: a view older than 10 s, an error, an owner that takes longer than 5 s, a wrong sum.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import websockets.sync.client as websockets
from websockets.exceptions import ConnectionClosed, WebSocketException

from app.routes.live.status import UNKNOWN
from benchmarks.browser import Server, conditions
from benchmarks.growing_run import GrowingRun, sums_of
from ingest.index.snapshots import OwnerLock, index_folder

RUN = "growing"
OLDEST_S = 10.0
TAKE_OVER_S = 5.0
RESTART_S = 3.0
ASK_EVERY_S = 0.5
WAIT_S = 60.0
_QUESTION = f"/api/run/{RUN}/query?q=steps&q.step_min="


@dataclass
class Seen:
    """What the watchers of all dashboards saw."""

    ages_s: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    take_over_s: list[float] = field(default_factory=list)
    first_s: list[float] = field(default_factory=list)
    """until a server that listens answers about the run"""
    refusals: int = 0
    """of sockets of servers that had no index yet"""


class Dashboard:
    """One server, a page's socket and a client that asks; both end before it is killed."""

    def __init__(self, run: GrowingRun, seen: Seen) -> None:
        self._run, self._seen = run, seen
        self.server = Server(run.folder.parent)
        self._leave = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> Dashboard:
        """Start the server, and watch it from the first answer about the run on."""
        self.server.start()
        begun_s = time.monotonic()
        while not httpx.get(f"{self.server.url}{_QUESTION}0", timeout=WAIT_S).is_success:
            if time.monotonic() - begun_s > WAIT_S:
                raise SystemExit(f"a dashboard shows nothing within {WAIT_S} s")
        self._seen.first_s.append(time.monotonic() - begun_s)
        self._leave = threading.Event()
        self._threads = [threading.Thread(target=one) for one in (self._watch, self._ask)]
        for thread in self._threads:
            thread.start()
        return self

    def kill(self) -> None:
        """SIGKILL."""
        self._leave_it()
        self.server.kill()

    def stop(self) -> None:
        """Ctrl-C."""
        self._leave_it()
        self.server.stop()

    def _leave_it(self) -> None:
        self._leave.set()
        for thread in self._threads:
            thread.join()

    def _watch(self) -> None:
        while not self._leave.is_set():
            try:
                self._read_socket()
            except ConnectionClosed as error:
                if error.rcvd is None or error.rcvd.code != UNKNOWN:
                    self._seen.errors.append(f"live socket: {error}")
                self._seen.refusals += 1  # the first index is not there: a page connects again
            except (OSError, TimeoutError, WebSocketException) as error:
                self._seen.errors.append(f"live socket: {type(error).__name__} {error}")

    def _read_socket(self) -> None:
        url = self.server.url.replace("http", "ws", 1) + f"/api/live?run={RUN}"
        with websockets.connect(url) as socket:
            while not self._leave.is_set():
                status = json.loads(socket.recv(timeout=OLDEST_S))
                self._note(status["last_step"])
                if status["problem"]:
                    self._seen.errors.append(f"problem: {status['problem']}")

    def _ask(self) -> None:
        with httpx.Client(base_url=self.server.url, timeout=WAIT_S) as client:
            while not self._leave.wait(ASK_EVERY_S):
                try:
                    answer = client.get(f"{_QUESTION}{max(len(self._run.written_s) - 50, 0)}")
                except httpx.HTTPError as error:
                    self._seen.errors.append(f"request: {type(error).__name__} {error}")
                    continue
                if answer.status_code != httpx.codes.OK or "error" in answer.json():
                    self._seen.errors.append(f"{answer.status_code}: {answer.text[:200]}")
                    continue
                steps = [row[0] for row in answer.json()["rows"]]
                self._note(max(steps, default=None))

    def _note(self, step: int | None) -> None:
        """Note the age of a view whose newest step is this one."""
        missing = 0 if step is None else step + 1
        written_s = self._run.written_s
        if missing < len(written_s):
            self._seen.ages_s.append(time.monotonic() - written_s[missing])
        else:
            self._seen.ages_s.append(0.0)


def owner_of(run: Path, dashboards: list[Dashboard]) -> Dashboard | None:
    """The dashboard that holds the lock of the run's index, None where none of them does."""
    inode = OwnerLock(index_folder(run)).path.stat().st_ino
    held = [line.split() for line in Path("/proc/locks").read_text("ascii").splitlines()]
    pids = {int(f[4]) for f in held if f[1] == "FLOCK" and f[5].rpartition(":")[2] == str(inode)}
    return next((one for one in dashboards if one.server.pid in pids), None)


def _wait_for_owner(run: Path, dashboards: list[Dashboard]) -> Dashboard:
    until_s = time.monotonic() + WAIT_S
    while (owner := owner_of(run, dashboards)) is None:
        if time.monotonic() > until_s:
            raise SystemExit(f"no dashboard has indexed the run within {WAIT_S} s")
        time.sleep(0.01)
    return owner


def kill_owner(run: Path, dashboards: list[Dashboard], seen: Seen) -> None:
    """Kill the one that indexes; start it again when another has taken over."""
    owner = _wait_for_owner(run, dashboards)
    others = [one for one in dashboards if one is not owner]
    owner.kill()
    killed_s = time.monotonic()
    _wait_for_owner(run, others)
    seen.take_over_s.append(time.monotonic() - killed_s)
    time.sleep(RESTART_S)
    owner.start()


def measured(folder: Path, minutes: float, num_kills: int, num_dashboards: int) -> list[str]:
    """Measure, print, and return which limits are broken, a sentence each."""
    seen = Seen()
    run = GrowingRun(folder / "runs" / RUN).start()
    dashboards = [Dashboard(run, seen) for _ in range(num_dashboards)]
    begun_s = time.monotonic()
    try:
        for one in dashboards:
            one.start()
        for number in range(num_kills):
            at_s = begun_s + minutes * 60 * (number + 1) / (num_kills + 1)
            time.sleep(max(0.0, at_s - time.monotonic()))
            kill_owner(run.folder, dashboards, seen)
        time.sleep(max(0.0, begun_s + minutes * 60 - time.monotonic()))
    finally:
        run.stop()
        for one in dashboards:
            one.stop()
    report(seen, len(run.written_s), time.monotonic() - begun_s)
    problems = judged(seen)
    for how in ("as kept", "rebuilt"):
        found = sums_of(run.folder)
        print(f"rows and checksums of the index {how}: {found}")
        if found != run.expected:
            problems.append(f"the index {how} has not what was written: {run.expected}")
        shutil.rmtree(run.folder / "index")
    return problems


def report(seen: Seen, num_steps: int, seconds: float) -> None:
    """Print what was seen."""
    print(", ".join(f"{key} {value}" for key, value in conditions().items()))
    print(f"{seconds:.0f} s, {num_steps} steps, {len(seen.ages_s)} views")
    p95_s = statistics.quantiles(seen.ages_s, n=20)[-1]
    print(
        f"age of a view: median {statistics.median(seen.ages_s):.2f} s, 95 % {p95_s:.2f} s, "
        f"greatest {max(seen.ages_s):.2f} s"
    )
    times = ", ".join(f"{one:.2f}" for one in seen.take_over_s)
    print(f"owner killed {len(seen.take_over_s)} times; taken over after {times} s")
    firsts = ", ".join(f"{one:.2f}" for one in seen.first_s)
    print(f"first answers of servers after they listen: {firsts} s")
    print(f"sockets refused until the first index was there: {seen.refusals}")
    print(f"errors: {len(seen.errors)}", *sorted(set(seen.errors)), sep="\n  ")


def judged(seen: Seen) -> list[str]:
    """Which limits are broken, a sentence each."""
    problems = [f"error: {error}" for error in sorted(set(seen.errors))]
    if max(seen.ages_s) > OLDEST_S:
        problems.append(f"a view was {max(seen.ages_s):.1f} s old")
    if max(seen.take_over_s, default=0.0) > TAKE_OVER_S:
        problems.append(f"taking over took {max(seen.take_over_s):.1f} s")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--dashboards", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        problems = measured(Path(folder), given.minutes, given.kills, given.dashboards)
    print("\n".join(problems) or "everything is as it has to be")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
