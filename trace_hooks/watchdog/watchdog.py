"""The watchdog: one small process per host that outlives its ranks and tells what became of them.

Ranks meet it in FOLDER (see watching.meeting_folder). It knows a rank by its ring: silent when the
heartbeat in it is old, lost when it is very old or the process is gone without an end record,
stalled when it lives but neither begins a step nor enters a collective. It then fetches the rank's
stacks and has watch_reports copy stacks and ring into the run folder. A file `stacks.request` in
FOLDER asks for the stacks of every rank. It ends by itself when its ranks are gone. Imports no
torch, and pyarrow only when there is something to report.

Source: specs/hooks.md rule 6.
"""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from pathlib import Path

from trace_hooks.recording.clock import now
from trace_hooks.recording.flight_ring import UNPLACED
from trace_hooks.watchdog.rank_status import Member
from trace_hooks.watchdog.reports import Report, write_report

ROUND_S = 0.25

EMPTY_S = 3.0
"""How long it stays when no rank is left: those of a launch do not all start at once."""

AFTER_SIGTERM_S = 5.0
"""How long it still looks after its ranks when it is told to end with them."""

STARTED = "watchdog.started"
"""File in the meeting folder whose maker starts the watchdog."""

LEFT_OVER_S = 3600.0
"""How long what a job left on node-local memory stays when nobody was left to remove it."""


class Watchdog:
    """Watches the ranks that meet in one folder."""

    def __init__(self, folder: Path, silent_s: float, lost_s: float, stalled_s: float) -> None:
        self._folder = folder
        self._silent_s, self._lost_s, self._stalled_s = silent_s, lost_s, stalled_s
        self._members: dict[Path, Member] = {}
        self._gone: set[Path] = set()  # rings of ranks that have been reported as gone
        self._waiting: list[tuple[Member, Report]] = []  # reports without a run folder so far

    def watch(self) -> None:
        """Look at the ranks until none is left."""
        leave_s = time.monotonic() + EMPTY_S
        told_to_end: list[float] = []
        signal.signal(signal.SIGTERM, lambda *_: told_to_end.append(time.monotonic()))
        while time.monotonic() < leave_s:
            if self.look():
                leave_s = time.monotonic() + EMPTY_S
            if told_to_end:
                leave_s = min(leave_s, told_to_end[0] + AFTER_SIGTERM_S)
            time.sleep(ROUND_S)
            if time.monotonic() >= leave_s and not told_to_end and self._is_needed_after_all():
                leave_s = time.monotonic() + EMPTY_S
        if told_to_end or not self._others_began():
            remove_files(self._folder)

    def look(self) -> bool:
        """One round; True when there was a rank to look after."""
        for path in self._folder.glob("*.ring"):
            self._meet(path)
        had_ranks = bool(self._members)
        request = self._folder / "stacks.request"
        requested = request.exists()
        request.unlink(missing_ok=True)
        for path, member in list(self._members.items()):
            if not member.read() or member.header.ended:
                del self._members[path]
                continue
            self._judge(member)
            if requested and member.state != "lost":
                self._report(member, "request", "stacks were asked for")
        self._write_waiting()
        return had_ranks

    def _meet(self, path: Path) -> None:
        if path not in self._members and path not in self._gone:
            with suppress(OSError, ValueError):
                self._members[path] = Member(path)

    def _judge(self, member: Member) -> None:
        """Compare a rank's state with its signs of life; report what is new."""
        silent_s = member.silent_s(self._silent_s)
        if member.is_gone():
            state, text = "lost", "the process is gone without an end record"
        elif silent_s > self._lost_s:
            state, text = "lost", f"no sign of life for {silent_s:.0f} s, its process is there"
        elif silent_s > self._silent_s:
            state, text = "silent", f"no sign of life for {silent_s:.0f} s"
        elif stalled_s := member.stalled_s(self._stalled_s):
            last = member.header.last_op or "nothing"
            state = "stalled"
            text = f"it lives, but began no step and entered no collective for {stalled_s:.0f} s; "
            text += f"it entered last: {last}"
        else:
            goes_on = member.state == "stalled"
            state = "running"
            text = "it makes progress again" if goes_on else "it gives signs of life again"
        gone_now = state == "lost" and member.is_gone()
        if state != member.state or gone_now:
            member.state, member.since_ns = state, time.time_ns()
            self._report(member, state, text)
        if gone_now:
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
        """Write reports whose run is known, if need be from another rank of this host."""
        still: list[tuple[Member, Report]] = []
        for member, report in self._waiting:
            folder, header = member.run_folder(), report.header
            if folder is None or header.attempt == UNPLACED:
                sibling = self._placed_member()
                folder = sibling.run_folder() if sibling is not None else None
                attempt = sibling.header.attempt if sibling is not None else UNPLACED
                report = report.of_attempt(attempt)
            if folder is None or report.header.attempt == UNPLACED or report.header.rank < 0:
                still.append((member, report))
                continue
            with suppress(OSError):  # a folder that cannot be written: nobody to tell
                write_report(folder, report)
            if report.state == "lost" and member.is_gone():
                member.remove()
        self._waiting = still

    def _placed_member(self) -> Member | None:
        placed = (m for m in self._members.values() if m.header.attempt != UNPLACED)
        return next(placed, None)

    def _is_needed_after_all(self) -> bool:
        """Give the post up, then look again: a rank that came meanwhile relied on this watchdog.

        One that comes from now on starts a watchdog of its own; which of the two stays is decided
        by who makes the file.
        """
        (self._folder / STARTED).unlink(missing_ok=True)
        return self.look() and claimed(self._folder)

    def _others_began(self) -> bool:
        """Whether ranks or a watchdog of a later start meet in this folder now."""
        return (self._folder / STARTED).exists() or any(
            path not in self._gone for path in self._folder.glob("*.ring")
        )


def claimed(folder: Path) -> bool:
    """Whether the caller is the first of this folder's ranks, and so has the watchdog to start."""
    try:
        (folder / STARTED).touch(mode=0o600, exist_ok=False)
    except OSError:
        return False
    return True


def remove_leftovers(folder: Path) -> None:
    """Remove the meeting folders beside `folder` whose ranks and watchdog were killed together.

    A folder stays while one of its rings is of a living process or had a sign of life within
    LEFT_OVER_S (in another container its pid means nothing here), or while it is as young as that.
    """
    for other in folder.parent.glob("*"):
        with suppress(OSError):
            young = time.time() - other.stat().st_mtime < LEFT_OVER_S
            if other != folder and other.is_dir() and not young and not _has_life(other):
                remove_files(other)


def _has_life(folder: Path) -> bool:
    for ring in folder.glob("*.ring"):
        with suppress(OSError, ValueError):
            member = Member(ring)
            if not member.is_gone() or 0 <= member.silent_s(LEFT_OVER_S) < LEFT_OVER_S:
                return True
    return False


def remove_files(folder: Path) -> None:
    """Remove a meeting folder and the files in it."""
    for path in folder.glob("*"):
        with suppress(OSError):
            path.unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()
