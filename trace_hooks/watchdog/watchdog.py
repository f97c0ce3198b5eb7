"""The watchdog: one small process per host that outlives its ranks and reports what became of them.

Ranks meet it in FOLDER (see rank_side.meeting_folder). It knows a rank by its ring: silent when the
heartbeat in it is old, lost when it is very old or the process is gone without an end record,
stalled when it lives but neither begins a step nor enters a collective. It then fetches the rank's
stacks and copies stacks and ring into the run folder (reports.py). Where ranks make no progress it
also writes what it sees of each of them (looks.py), from which the server derives who waits for
whom. A file `stacks.request` in FOLDER requests the stacks of every rank. Next to that it samples
the host (trace_hooks.telemetry). It ends by itself when its ranks are gone. Imports no torch, and
pyarrow only when there is something to write.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from trace_hooks.job.spool import LOCK
from trace_hooks.recording.clock import now
from trace_hooks.recording.flight_ring import UNPLACED
from trace_hooks.telemetry.publisher import Target
from trace_hooks.telemetry.telemetry import RankView, Telemetry
from trace_hooks.watchdog.collector_thread import CollectorThread
from trace_hooks.watchdog.looks import Looks, look_at
from trace_hooks.watchdog.rank_status import Member
from trace_hooks.watchdog.reports import Report, write_report, write_rows

ROUND_S = 0.25

EMPTY_S = 3.0
"""It stays this long when no rank is left: the ranks of a launch do not all start at once."""

AFTER_SIGTERM_S = 5.0
"""It still watches its ranks this long after a SIGTERM, which ends them too."""

STARTED = "watchdog.started"
"""File in the meeting folder whose maker starts the watchdog."""

LEFT_OVER_S = 3600.0
"""Files in node-local memory of a job whose watchdog was killed too are kept this long."""


class Watchdog:
    """Watches the ranks that meet in one folder; `telemetry`: samples the host, None: nothing;
    `collector`: publishes the rows of the ranks, None: they do so themselves.
    """

    def __init__(
        self,
        folder: Path,
        silent_s: float,
        lost_s: float,
        stalled_s: float,
        telemetry: Telemetry | None = None,
        collector: CollectorThread | None = None,
    ) -> None:
        self._folder = folder
        self._telemetry = telemetry
        self._collector = collector
        self._spool = collector.spool_of("watchdog") if collector is not None else None
        self._silent_s, self._lost_s, self._stalled_s = silent_s, lost_s, stalled_s
        self._members: dict[Path, Member] = {}
        self._gone: set[Path] = set()  # rings of ranks that have ended or were reported as gone
        self._waiting: list[tuple[Member, Report]] = []  # reports without a run folder so far
        self._looks = Looks()

    def run(self) -> None:
        """Watch the ranks until none is left."""
        leave_s = time.monotonic() + EMPTY_S
        sigterm_at_s: list[float] = []
        signal.signal(signal.SIGTERM, lambda *_: sigterm_at_s.append(time.monotonic()))
        for part in (self._collector, self._telemetry):
            if part is not None:
                part.start()
        while True:
            if self.look():
                leave_s = time.monotonic() + EMPTY_S
            if sigterm_at_s:
                leave_s = min(leave_s, sigterm_at_s[0] + AFTER_SIGTERM_S)
            time.sleep(ROUND_S)
            if time.monotonic() >= leave_s:
                if sigterm_at_s or not self._is_needed_after_all():
                    break
                leave_s = time.monotonic() + EMPTY_S
        for last in (self._telemetry, self._collector):
            if last is not None:
                last.stop()
        if sigterm_at_s or not self._others_began():
            remove_files(self._folder)

    def look(self) -> bool:
        """One round; True when there was a rank to watch."""
        for path in self._folder.glob("*.ring"):
            self._meet(path)
        had_ranks = bool(self._members)
        request = self._folder / "stacks.request"
        requested = request.exists()
        request.unlink(missing_ok=True)
        for path, member in list(self._members.items()):
            if not member.read() or member.header.ended:
                self._write_log_lines(member, is_over=True)
                self._gone.add(path)  # should its rank have been killed before it removed it
                del self._members[path]
                continue
            self._write_log_lines(member, member.has_died)
            self._judge(member)
            if requested and member.state != "lost":
                self._report(member, "request", "stacks were requested")
        self._look_closer()
        self._write_waiting()
        if self._telemetry is not None:
            self._telemetry.update(*self._seen())
        return had_ranks

    def _seen(self) -> tuple[list[RankView], Target | None]:
        """The ranks of this host, and where rows about the host belong, if that is known yet."""
        members = sorted(self._members.values(), key=lambda member: member.header.rank)
        views = [RankView(m.header.rank, m.header.pid, m.header.step) for m in members]
        for member in members:
            folder, header = member.run_folder(), member.header
            if folder is not None and header.attempt != UNPLACED and header.rank >= 0:
                return views, Target(folder, header.attempt, header.rank, header.clock_offset_ns)
        return views, None

    def _look_closer(self) -> None:
        """Write what is seen of the ranks, where one of them makes no progress."""
        members, now_s = list(self._members.values()), time.monotonic()
        if self._looks.are_due(members, now_s):
            self._write_looks(members, self._looks.want_stacks(now_s))

    def _write_log_lines(self, member: Member, is_over: bool) -> None:
        """Write what its own log files have told since, where it has such files."""
        folder, header = member.run_folder(), member.header
        if folder is None or header.attempt == UNPLACED:
            return
        rows = [{**row, "step": header.step} for row in member.new_log_lines(is_over)]
        with suppress(OSError):  # the folder cannot be written
            write_rows(folder, header, {"log_lines": rows}, self._spool)

    def _write_looks(self, members: Sequence[Member], with_stacks: bool) -> None:
        for member, rows in look_at(members, with_stacks):
            folder, attempt = self._place_of(member)
            header = replace(member.header, attempt=attempt)
            if folder is not None and attempt != UNPLACED and header.rank >= 0:
                with suppress(OSError):  # the folder cannot be written
                    write_rows(folder, header, rows, self._spool)
        if self._collector is not None:
            self._collector.hurry()

    def _meet(self, path: Path) -> None:
        if path not in self._members and path not in self._gone:
            with suppress(OSError, ValueError):
                self._members[path] = Member(path)

    def _judge(self, member: Member) -> None:
        """Derive a rank's state from its heartbeats, and report a new one."""
        silent_s = member.silent_s(self._silent_s)
        if member.has_died:
            how = member.deaths.how() if member.state != "lost" else ""
            state, text = "lost", "the process is gone without an end record"
            text += f": {how}" if how else ""
        elif silent_s > self._lost_s:
            state, text = "lost", f"no heartbeat for {silent_s:.0f} s, but its process exists"
        elif silent_s > self._silent_s:
            state, text = "silent", f"no heartbeat for {silent_s:.0f} s"
        elif stalled_s := member.stalled_s(self._stalled_s):
            last = member.header.last_op or "nothing"
            state = "stalled"
            text = f"it lives, but began no step and entered no collective for {stalled_s:.0f} s; "
            text += f"the last one it entered: {last}"
        else:
            was_stalled = member.state == "stalled"
            state = "running"
            text = "it makes progress again" if was_stalled else "it sends heartbeats again"
        gone_now = state == "lost" and member.has_died
        if state != member.state or gone_now:
            member.state, member.since_ns = state, time.time_ns()
            self._report(member, state, text)
        if gone_now:
            # all of them: the others may end within a second, and one of them may be the cause
            self._write_looks(list(self._members.values()), with_stacks=False)
            del self._members[member.ring]
            self._gone.add(member.ring)

    def _report(self, member: Member, state: str, text: str) -> None:
        stacks = member.fetch_stacks() if state != "running" else ""
        ring = b""
        with suppress(OSError):
            ring = member.ring.read_bytes() if state != "running" else b""
        report = Report(member.header, state, text, member.since_ns, now(), stacks, ring)
        self._waiting.append((member, report))

    def _write_waiting(self) -> None:
        """Write the reports whose run is known, from another rank of this host if need be."""
        still: list[tuple[Member, Report]] = []
        for member, report in self._waiting:
            folder, attempt = self._place_of(member)
            report = report.of_attempt(attempt)
            if folder is None or report.header.attempt == UNPLACED or report.header.rank < 0:
                still.append((member, report))
                continue
            with suppress(OSError):  # the folder cannot be written, so no report is possible
                write_report(folder, report)
            if report.state == "lost" and member.has_died:
                member.remove()
        self._waiting = still

    def _place_of(self, member: Member) -> tuple[Path | None, int]:
        """Run folder and attempt of a rank: those of another one where it does not know its own,
        as before its process group exists.
        """
        if member.run_folder() is None or member.header.attempt == UNPLACED:
            sibling = self._placed_member()
            if sibling is None:
                return None, UNPLACED
            member = sibling
        return member.run_folder(), member.header.attempt

    def _placed_member(self) -> Member | None:
        placed = (m for m in self._members.values() if m.header.attempt != UNPLACED)
        return next(placed, None)

    def _is_needed_after_all(self) -> bool:
        """Remove STARTED, then look again: a rank that came meanwhile relied on this watchdog.

        A rank that comes from now on starts a watchdog of its own. Of the two, the one that
        creates the file stays.
        """
        (self._folder / STARTED).unlink(missing_ok=True)
        return self.look() and claimed(self._folder)

    def _others_began(self) -> bool:
        """Whether ranks or a watchdog of a later start meet in this folder now."""
        return (self._folder / STARTED).exists() or any(
            path not in self._gone for path in self._folder.glob("*.ring")
        )


def claimed(folder: Path) -> bool:
    """Whether the caller is the first rank of this folder, which has to start the watchdog."""
    try:
        (folder / STARTED).touch(mode=0o600, exist_ok=False)
    except OSError:
        return False
    return True


def remove_leftovers(folder: Path) -> None:
    """Remove meeting folders next to `folder` whose ranks and watchdog were killed together, once
    rows that wait in them are published.

    A folder stays while the process of one of its rings is alive, or the ring had a heartbeat
    within LEFT_OVER_S (pids of another container mean nothing here), or it is younger than that.
    """
    for other in folder.parent.glob("*"):
        with suppress(OSError):
            young = time.time() - other.stat().st_mtime < LEFT_OVER_S
            is_over = other != folder and other.is_dir() and not young and not _has_life(other)
            if is_over and _publish_leftovers(other):
                remove_files(other)


def _publish_leftovers(folder: Path) -> bool:
    """Publish the rows that wait; False where another process does."""
    if not any((folder / "spool").glob("*")):
        return True
    from trace_hooks.watchdog.collector import Collector  # pyarrow, which few need

    return Collector(folder).publish_leftovers()


def _has_life(folder: Path) -> bool:
    for ring in folder.glob("*.ring"):
        with suppress(OSError, ValueError):
            member = Member(ring)
            if not member.is_gone() or 0 <= member.silent_s(LEFT_OVER_S) < LEFT_OVER_S:
                return True
    return False


def remove_files(folder: Path) -> None:
    """Remove a meeting folder and the files in it, but for rows that are not published.

    Their lock stays with them: a collector that waits for a hung disk still has it.
    """
    spool = folder / "spool"
    with suppress(OSError):
        (spool / "publish.now").unlink(missing_ok=True)
        spool.rmdir()
    for path in folder.glob("*"):
        with suppress(OSError):
            if path.name != LOCK or not spool.exists():
                path.unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()
