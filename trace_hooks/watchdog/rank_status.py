"""One rank of a host as the watchdog sees it: its ring, and the progress of its steps."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from trace_hooks.job.process_info import start_ticks
from trace_hooks.recording.clock import now
from trace_hooks.recording.flight_ring import RingHeader, read_header, read_ring
from trace_hooks.watchdog.deaths import Deaths
from trace_hooks.watchdog.other_threads import FRESH_S, fresh_text, without_main
from trace_hooks.watchdog.pauses import Pauses
from trace_hooks.watchdog.rank_logs import RankLogs

ASLEEP_TRIES, ASLEEP_S = 20, 0.001
"""How long a look waits for a main thread that runs to wait."""

STACKS_S = 3.0
"""A rank has this long to write its stacks."""

MOST_BYTES = 1 << 20
"""Of stacks of one rank in node-local memory; those that are wanted have been copied."""

STALLED_STEPS = 5
"""A step is too long when it takes more than this many usual ones."""

_USUAL_OF, _JUDGED_FROM = 20, 3
_LOOK_AGAIN_S = 5.0

_HEADER_BYTES = 256


class Progress:
    """When a rank last began a step, and how long its steps usually take."""

    def __init__(self) -> None:
        self._step: int | None = None
        self._since_s = 0.0
        self._took_s: deque[float] = deque(maxlen=_USUAL_OF)

    def see(self, step: int, now_s: float) -> None:
        """Note the step a rank is in (monotonic s)."""
        if step == self._step:
            return
        if self._step is not None and 0 <= self._step < step:  # a heartbeat may skip short steps
            self._took_s.append((now_s - self._since_s) / (step - self._step))
        self._step, self._since_s = step, now_s

    def late_s(self, least_s: float, now_s: float) -> float:
        """Seconds in this step where that is too long, else 0.

        Too long: more than `least_s` and STALLED_STEPS usual steps. The first steps are not
        judged, because they compile; nor is a pause (an evaluation) that was as long before.
        """
        if len(self._took_s) < _JUDGED_FROM:
            return 0.0
        took_s = sorted(self._took_s)
        usual_s = max(took_s[len(took_s) // 2] * STALLED_STEPS, took_s[-1])
        in_step_s = now_s - self._since_s
        return in_step_s if in_step_s > max(least_s, usual_s) else 0.0


class Member:
    """One rank of this host, read from its ring. The constructor raises OSError and ValueError."""

    def __init__(self, ring: Path) -> None:
        self.ring = ring
        self.header = _header_of(ring)
        self.state = "running"  # running, stalled, silent, lost
        self.has_died = False
        """Whether its process had ended before the ring was read, which does not say so."""
        self.progress = Progress()
        self.pauses = Pauses()
        self.deaths = Deaths(self.header.pid)
        self._looked_s = 0.0
        self.since_ns = time.time_ns()  # Unix ns, of the state
        self.stacks = ring.with_suffix(".stacks")
        self._note: dict[str, Any] = {}
        self._logs: RankLogs | None = None

    def read(self) -> bool:
        """Read the header again; False when the ring is gone."""
        is_gone = self.is_gone()  # first: a rank that ends in order says so before it goes
        try:
            self.header = _header_of(self.ring)
        except (OSError, ValueError):
            return False
        self.has_died = is_gone and not self.header.ended
        now_s = time.monotonic()
        self.deaths.look()
        self.progress.see(self.header.step, now_s)
        self.pauses.see((self.header.step, self.header.num_entered), now_s)
        return True

    def is_gone(self) -> bool:
        """Whether the process has ended by now, also where another process has its pid."""
        return start_ticks(self.header.pid) != self.header.start_ticks

    def is_stopped(self) -> bool:
        """Whether a signal or a debugger has stopped the process. Source: proc(5), stat."""
        with suppress(OSError):
            text = Path(f"/proc/{self.header.pid}/stat").read_text("ascii", "replace")
            return text.rpartition(")")[2].split()[0] in ("T", "t")
        return False

    def silent_s(self, enough_s: float) -> float:
        """Seconds since the last heartbeat.

        After `enough_s` without one the last collective entered counts as well: a rank whose drain
        thread waits for a hung disk still trains.
        """
        silent_s = (now() - self.header.beat_ns) / 1e9
        if silent_s <= enough_s:
            return silent_s
        return min(silent_s, self._entered_s())

    def stalled_s(self, least_s: float) -> float:
        """Seconds without progress where that is too long, else 0 (see Progress.late_s)."""
        late_s = self.progress.late_s(least_s, time.monotonic())
        if not late_s or self.header.phase not in ("step", "data"):
            return 0.0
        if time.monotonic() - self._looked_s < _LOOK_AGAIN_S:  # a ring is 1 MB to read
            return late_s if self.state == "stalled" else 0.0
        self._looked_s = time.monotonic()
        without_s = min(late_s, self._entered_s())
        return without_s if without_s > least_s else 0.0

    def _entered_s(self) -> float:
        """Seconds since it last entered a collective; infinite where it never did."""
        with suppress(OSError, ValueError):
            entered_ns = [record.time_ns for record in read_ring(self.ring)[1]]
            if entered_ns:
                return (now() - max(entered_ns)) / 1e9
        return float("inf")

    def run_folder(self) -> Path | None:
        """Folder of its run; None while the rank does not know it either."""
        note = self._noted()
        return Path(note["run_folder"]) if note else None

    def new_log_lines(self, is_over: bool = False) -> list[dict[str, Any]]:
        """Rows of log_lines of its own files since the last call; `is_over`: it writes no more."""
        note = self._noted()
        if self._logs is None and note.get("log_files"):
            self._logs = RankLogs(note["log_files"], bool(note["allow_content"]))
        return self._logs.take(is_over) if self._logs is not None else []

    def _noted(self) -> dict[str, Any]:
        """What the rank has noted about its run; empty while it does not know it."""
        if not self._note:
            with suppress(OSError, ValueError):
                self._note = json.loads(self.ring.with_suffix(".json").read_text(encoding="utf-8"))
        return self._note

    def fetch_stacks(self) -> str:
        """Have the rank write its stacks at C level; empty where it does not."""
        return fetch_stacks([self]).get(self.ring, "")

    def remove(self) -> None:
        """Remove the rank's files from node-local memory."""
        for suffix in (".ring", ".stacks", ".threads", ".json"):
            self.ring.with_suffix(suffix).unlink(missing_ok=True)


def fetch_stacks(members: Sequence[Member]) -> dict[Path, str]:
    """What ranks write when they get their signal, by ring; all at once, as one may not answer.

    The signal is sent only to a process that handles it: the default action would kill it. A rank
    whose main thread runs while its heart beats gets none (rank_side.py): it has written its stacks
    by itself, if it makes no progress.
    """
    before = {}
    written = {}
    for member in members:
        header = member.header
        if header.ended or member.is_gone() or not _catches(header.pid, header.signal):
            continue
        if member.is_stopped():
            continue  # it would write once it is continued
        if not _falls_asleep(header.pid) and (now() - header.beat_ns) / 1e9 < FRESH_S:
            written[member.ring] = fresh_text(member.ring.with_suffix(".threads"))
            continue
        _cut_off(member.stacks)
        before[member.ring] = (member, _size(member.stacks))
        with suppress(ProcessLookupError, PermissionError):
            os.kill(header.pid, header.signal)
    _wait_until_written(before)
    return written | {
        ring: _with_others(ring, member.stacks, size) for ring, (member, size) in before.items()
    }


def _cut_off(stacks: Path) -> None:
    """Empty a file that holds enough: a rank that falls silent again and again fills no memory."""
    if _size(stacks) > MOST_BYTES:
        with suppress(OSError):
            os.truncate(stacks, 0)


def _falls_asleep(pid: int) -> bool:
    """Whether the main thread waits, from one of several looks to the next: then it will for a
    moment longer.

    Source: proc(5), status, which is that of the main thread.
    """
    before = None
    for _ in range(ASLEEP_TRIES):
        state = _state_and_switches(pid)
        if state is not None and state == before:
            return True
        before = state
        time.sleep(ASLEEP_S)
    return False


def _state_and_switches(pid: int) -> tuple[str, ...] | None:
    """State of a main thread that waits, and how often it has begun to; None where it runs."""
    with suppress(OSError):
        text = Path(f"/proc/{pid}/status").read_text("ascii", "replace")
        heads = ("State:", "voluntary_ctxt_switches:")
        found = tuple(line for line in text.splitlines() if line.startswith(heads))
        return None if any(line.split()[1] == "R" for line in found) else found
    return None


def _with_others(ring: Path, stacks: Path, position: int) -> str:
    """The other threads, and behind them the main one; '' where that did not answer."""
    main = _read_from(stacks, position)
    return main and without_main(fresh_text(ring.with_suffix(".threads"))) + main


def _wait_until_written(before: Mapping[Path, tuple[Member, int]]) -> None:
    """Until every file has grown and grows no more, at most STACKS_S."""
    until_s = time.monotonic() + STACKS_S
    last = {ring: size for ring, (_, size) in before.items()}
    while time.monotonic() < until_s:
        time.sleep(0.1)
        sizes = {ring: _size(member.stacks) for ring, (member, _) in before.items()}
        if all(sizes[ring] == last[ring] > before[ring][1] for ring in before):
            return
        last = sizes


def _read_from(path: Path, position: int) -> str:
    with suppress(OSError), path.open("rb") as file:
        file.seek(position)
        return file.read().decode("utf-8", "replace")
    return ""


def _header_of(ring: Path) -> RingHeader:
    with ring.open("rb") as file:
        return read_header(file.read(_HEADER_BYTES))


def _size(path: Path) -> int:
    """Bytes of a file; 0 where there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal. Source: proc(5), SigCgt of status."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    mask = next((line.split()[1] for line in status.splitlines() if line.startswith("SigCgt")), "0")
    return number > 0 and bool(int(mask, 16) >> (number - 1) & 1)
