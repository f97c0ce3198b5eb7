"""A rank's side of the watchdog: its ring, its signal for stacks, and the watchdog's start.

A Python thread cannot write the stack of a hung rank, since it waits for the GIL like the others:
faulthandler writes that of the main thread at C level when the watchdog sends a signal. Those of
the other threads come from other_threads.py.

The signal must not come while the main thread runs Python. CPython links the frame of a function
that C code calls before the frame is filled: of 43,000 signals to processes that did nothing but
such calls, 23 ended the process (Python 3.11). Nor does CPython's handler restore errno (its write
sets it to 0; with chain=True it does, and races with itself on several threads). So the watchdog
sends it only while the main thread waits, or where the heartbeat says that it keeps the GIL in C;
the drain thread writes the stack of one that runs (rank_status.py).
"""

from __future__ import annotations

import faulthandler
import json
import logging
import os
import signal
import stat
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from trace_hooks.job.identity import Identity
from trace_hooks.job.process_info import find_place, launch_key, start_ticks
from trace_hooks.job.spool import Spool
from trace_hooks.recording.clock import Anchor, now
from trace_hooks.recording.flight_ring import UNPLACED, Ring
from trace_hooks.recording.rank_state import RankState
from trace_hooks.recording.wakeup import opened_as
from trace_hooks.settings import Settings
from trace_hooks.watchdog.other_threads import OtherThreads
from trace_hooks.watchdog.watchdog import claimed

log = logging.getLogger("trace_hooks")

START_S = 5.0
"""The end of a very short job waits this long for its watchdog to have started."""


class RankSide:
    """What this process gives to the host's watchdog. Raises OSError where there is no room."""

    def __init__(self, settings: Settings, rank_state: RankState, anchor: Anchor) -> None:
        self._settings = settings
        self._rank_state = rank_state
        self.folder = meeting_folder(settings.ring_folder, launch_key(os.environ))
        pid, ticks = os.getpid(), start_ticks(os.getpid()) or 0
        self._stem = self.folder / f"{pid}-{now()}"
        self._signal = number = free_signal()
        self._open_stacks(os.O_CREAT | os.O_EXCL)
        self._others = OtherThreads(self._stem.with_suffix(".threads"))
        self.ring = Ring(self._stem.with_suffix(".ring"), ticks, anchor.offset_ns, number)
        self.spool = Spool(self.folder, self._stem.name) if settings.collector else None
        self._starting: subprocess.Popen[bytes] | None = None
        place = find_place(os.environ)
        if place is not None:
            self.ring.place("", UNPLACED, place.rank, place.world_size)
        rank_state.ring = self.ring
        self.beat()

    def _open_stacks(self, flags: int = 0) -> None:
        """Have the signal write the stack of the main thread to a file.

        A bare descriptor, never closed: the handler may run until the process is gone.
        """
        flags |= os.O_NOFOLLOW | os.O_WRONLY
        flags |= os.O_APPEND  # the watchdog cuts it off where it becomes long
        self._stacks = os.open(self._stem.with_suffix(".stacks"), flags, 0o600)
        self._stacks_are = opened_as(self._stacks)
        if self._signal:
            # not of all threads: to read the frames of one that runs ends the process
            faulthandler.register(self._signal, file=self._stacks, all_threads=False, chain=False)

    @property
    def has_relay(self) -> bool:
        """Whether the ranks of this host share one connection to the server."""
        settings = self._settings
        return settings.server is not None and (settings.collector or settings.ships)

    def start_watchdog(self) -> None:
        """Start the host's watchdog, if this is the first rank of this launch on this host."""
        if claimed(self.folder):
            self._starting = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "trace_hooks.watchdog",
                    str(self.folder),
                    str(self._settings.silent_s),
                    str(self._settings.lost_s),
                    str(self._settings.stalled_s),
                    *(["telemetry"] if self._settings.telemetry else []),
                    *(["collector"] if self._settings.collector else []),
                    *(["relay"] if self.has_relay else []),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=_environ_of_watchdog(),
                start_new_session=True,
            )

    def place(self, identity: Identity) -> None:
        """Tell the watchdog which run this is and where its folder lies."""
        shared, place = identity.shared, identity.place
        note = self._stem.with_suffix(".json")
        temporary = note.with_suffix(".tmp")
        told = {
            "run_folder": str(identity.folder),
            "log_files": self._rank_state.log_files,
            "allow_content": self._settings.allow_content,
        }
        temporary.write_text(json.dumps(told), encoding="utf-8")
        temporary.replace(note)
        self.ring.place(shared.run, shared.attempt, place.rank, place.world_size)

    def beat(self) -> None:
        """Record a heartbeat (drain thread)."""
        state = self._rank_state
        self.ring.beat(now(), state.step, state.phase, state.last_op)
        if opened_as(self._stacks) != self._stacks_are:  # the job has closed it, and may use it
            with suppress(OSError):  # it has no descriptor left
                self._open_stacks()
        with suppress(OSError):  # no room on node-local memory
            self._others.see(state.step, state.phase, state.last_op, self.ring.num_entered)
        if self._starting is not None and self._starting.poll() is not None:
            self._starting = None  # the watchdog has detached from this process

    def end(self) -> None:
        """Remove the ring: the rank ends in order.

        The signal stays registered, because its default action would end the process.
        """
        if self._starting is not None:
            with suppress(subprocess.TimeoutExpired):
                self._starting.wait(START_S)
        self._rank_state.ring = None
        self.ring.beat(now(), self._rank_state.step, "ended", "", ended=True)
        self._others.remove()
        if self.spool is not None:
            self.spool.close()
        for suffix in (".ring", ".stacks", ".json"):
            self._stem.with_suffix(suffix).unlink(missing_ok=True)


def meeting_folder(base: Path | None, launch: str) -> Path:
    """Folder on node-local memory where the ranks of one launch meet their watchdog.

    Only this user may enter it. Raises OSError.
    """
    memory = Path("/dev/shm")
    root = base or (memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir()))
    mine = root / f"trace_hooks-{os.getuid()}"
    mine.mkdir(mode=0o700, parents=True, exist_ok=True)
    state = mine.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid():
        raise PermissionError(f"{mine} belongs to another user")
    if state.st_mode & 0o077:
        mine.chmod(0o700)
    folder = mine / launch
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def free_signal() -> int:
    """A real-time signal that no code handles; 0 where there is none."""
    for number in range(signal.SIGRTMAX - 3, signal.SIGRTMIN, -1):
        if signal.getsignal(number) is signal.SIG_DFL:
            return int(number)
    return 0


def _environ_of_watchdog() -> dict[str, str]:
    """Environment in which this package is importable, and tracing is off."""
    package_root = str(Path(__file__).resolve().parents[2])
    paths = [package_root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TRACE_HOOKS": "0"}
