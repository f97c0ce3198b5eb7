"""The host's watchdog as a process of its own.

python -m trace_hooks.watchdog FOLDER SILENT_S LOST_S STALLED_S [telemetry] [collector] [relay]
"""

import os
import sys
import threading
from pathlib import Path

from trace_hooks.protocol.server_address import read_address
from trace_hooks.telemetry.telemetry import Telemetry
from trace_hooks.watchdog.collector_thread import CollectorThread
from trace_hooks.watchdog.watchdog import Watchdog, remove_leftovers

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
    address = read_address(os.environ) if "relay" in parts else None
    if address is None:
        watchdog.run()
    else:
        from trace_hooks.watchdog.relay import Relay  # websockets: only for jobs that use it

        relay = Relay(folder, address)
        relay.start()
        watchdog.run()
        relay.stop()
