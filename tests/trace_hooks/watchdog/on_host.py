"""What a watchdog finds on its host, and the watchdogs that run there."""

from __future__ import annotations

import os
import time
from pathlib import Path

from trace_hooks.recording.clock import now
from trace_hooks.recording.flight_ring import Ring


def ring_in(folder: Path, pid_ticks: int, hours_old: float) -> Ring:
    """A ring of a rank whose last heartbeat is so old, as is the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    ring = Ring(folder / f"{pid_ticks}.ring", pid_ticks, 0)
    ring.beat(now() - round(hours_old * 3600e9), 0, "step", "")
    old_s = time.time() - hours_old * 3600
    os.utime(folder, (old_s, old_s))
    return ring


def watchdogs_of(folder: Path) -> list[str]:
    """Command lines of the watchdogs that meet their ranks below `folder`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if "trace_hooks.watchdog" in line and str(folder) in line and str(os.getpid()) not in line:
            found.append(line)
    return found
