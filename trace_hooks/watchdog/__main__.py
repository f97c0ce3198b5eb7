"""The host's watchdog as a process of its own.

python -m trace_hooks.watchdog FOLDER SILENT_S LOST_S STALLED_S [telemetry] [collector] [relay]
"""

from __future__ import annotations

import os
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from trace_hooks.protocol.server_address import read_address
from trace_hooks.recording import guard
from trace_hooks.telemetry.telemetry import Telemetry
from trace_hooks.watchdog.collector_thread import CollectorThread
from trace_hooks.watchdog.watchdog import Watchdog, remove_leftovers

if TYPE_CHECKING:
    from trace_hooks.watchdog.relay import Relay


def _started_relay(folder: Path) -> Relay | None:
    """The relay of this host; None where its ranks have no server."""
    address = read_address(os.environ)
    if address is None:
        return None
    from trace_hooks.watchdog.relay import Relay  # websockets: only for jobs that use it

    relay = Relay(folder, address)
    relay.start()
    return relay


if __name__ == "__main__":
    if os.fork():  # the rank reaps this parent, so the watchdog never becomes its zombie
        os._exit(0)
    folder, parts = Path(sys.argv[1]), sys.argv[5:]
    # the disk to which rows of an earlier job belong may hang
    threading.Thread(target=remove_leftovers, args=[folder], daemon=True).start()
    collector = CollectorThread(folder) if "collector" in parts else None
    spool = collector.spool_of("telemetry") if collector is not None else None
    telemetry = Telemetry(spool=spool) if "telemetry" in parts else None
    silent_s, lost_s, stalled_s = map(float, sys.argv[2:5])
    watchdog = Watchdog(folder, silent_s, lost_s, stalled_s, telemetry, collector)
    relay = (
        guard.attempt("relay.start", partial(_started_relay, folder)) if "relay" in parts else None
    )
    watchdog.run()
    if relay is not None:
        relay.stop()
