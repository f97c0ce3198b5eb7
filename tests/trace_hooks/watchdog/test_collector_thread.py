"""The thread that becomes the collector once rows wait."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.folders import REPO
from tests.trace_hooks.watchdog.spooled import batch, published
from trace_hooks.job.spool import Spool
from trace_hooks.watchdog.collector_thread import CollectorThread

SHORT_JOB = """
import sys
from pathlib import Path
import trace_hooks.watchdog.watchdog
from trace_hooks.telemetry.telemetry import Telemetry
from trace_hooks.watchdog.collector_thread import CollectorThread
collector = CollectorThread(Path(sys.argv[1]))
Telemetry(spool=collector.spool_of("telemetry"))
collector.start()
assert not collector.spool_of("watchdog").has_collector()
collector.stop()
print("pyarrow" in sys.modules)
"""


def test_the_watchdog_of_a_short_job_does_not_load_pyarrow(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SHORT_JOB, str(tmp_path)]
    assert subprocess.check_output(command, cwd=REPO, text=True) == "False\n"


def test_rows_that_wait_when_it_ends_are_published(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    collector = CollectorThread(tmp_path)
    collector.start()
    collector.spool_of("telemetry").put(batch(run, 0, 1))
    collector.stop()
    assert published(run) == [1]
    assert not Spool(tmp_path, "1-a").has_collector()
