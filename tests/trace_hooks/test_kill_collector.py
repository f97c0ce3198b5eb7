"""SIGKILL of collectors and ranks at random moments: every row is published, once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ingest.index.indexer import Indexer
from ingest.run import open_run
from tests.runs_builder import RunBuilder
from tests.trace_hooks.processes import begin, environment
from tests.waiting import wait_until

ROUNDS = int(os.environ.get("KILL_ROUNDS", "2"))

TRAINING = """
import os, time
import trace_hooks as th
tracer = th.start(run="busy")
step = 0
while not os.path.exists("stop"):
    with tracer.step():
        for _ in range(50):
            with tracer.span("work"):
                pass
    step += 1
    with open("done.tmp", "w") as file:
        file.write(f"{step} {time.time()}")
    os.replace("done.tmp", "done")
    time.sleep(0.01)
"""


def collector_of(folder: Path) -> int | None:
    """Pid of the host's watchdog, in which the collector runs."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if "trace_hooks.watchdog" in line and str(folder) in line:
            return int(path.parent.name)
    return None


def training(folder: Path, number: int) -> subprocess.Popen[str]:
    """A rank that has handed over for some time."""
    process = begin(folder, TRAINING)
    wait_until(lambda: any((folder / "runs").glob("busy/segments/bundle-*.zip")))
    time.sleep(random.Random(number).uniform(1.0, 4.0))
    return process


def spans_by_step(folder: Path) -> list[tuple[int, int]]:
    """(step, number of its spans); a step has one row."""
    with open_run(folder / "runs" / "busy") as run:
        twice = run.sql("SELECT step FROM steps GROUP BY step HAVING count(*) > 1").num_rows
        rows = run.sql(
            "SELECT step, count(*) AS n FROM spans WHERE name = 'work' GROUP BY step ORDER BY step"
        ).to_pylist()
    assert twice == 0
    return [(row["step"], row["n"]) for row in rows]


def waiting_batches(folder: Path, spools: str) -> list[Path]:
    """Whole ones; what a rank was writing when it was killed stays until the others are gone."""
    return [path for path in folder.glob(f"{spools}/*.*.*") if path.suffix != ".tmp"]


@pytest.mark.long
@pytest.mark.kill
@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_killed_collector_costs_no_row(tmp_path: Path, number: int) -> None:
    process = training(tmp_path, number)
    pid = collector_of(tmp_path)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: any((tmp_path / "runs").glob("busy/segments/spans-*.parquet")))
    (tmp_path / "stop").touch()
    out, error = process.communicate(timeout=60)
    assert process.returncode == 0, out + error
    steps = int((tmp_path / "done").read_text().split()[0])
    assert spans_by_step(tmp_path) == [(step, 50) for step in range(steps)]
    assert not waiting_batches(tmp_path, "rings/*/*/spool")


@pytest.mark.long
@pytest.mark.kill
@pytest.mark.parametrize("number", range(ROUNDS))
def test_what_a_killed_rank_had_handed_over_is_published(tmp_path: Path, number: int) -> None:
    process = training(tmp_path, number)
    process.kill()
    process.communicate()
    wait_until(lambda: collector_of(tmp_path) is None)
    steps = [step for step, count in spans_by_step(tmp_path) if count == 50]
    done = int((tmp_path / "done").read_text().split()[0])
    assert steps == list(range(len(steps)))  # nothing lost in between, nothing twice
    assert len(steps) >= done - 500  # a rank hands over every 0.7 s, later on a loaded machine
    assert not waiting_batches(tmp_path, "rings/*/*/spool")


RANK = """
import os, sys, time
from pathlib import Path
from tests.trace_hooks.watchdog.spooled import marks
from trace_hooks.job.handover import HandoverWriter
from trace_hooks.job.spool import Destination, Spool
from trace_hooks.recording.segment_writer import SegmentWriter
folder, rank = Path(sys.argv[1]), int(sys.argv[2])
run = folder / "run"
spool = Spool(folder, f"{os.getpid()}-{rank}")
writer = HandoverWriter(SegmentWriter(run, 0, rank), spool, Destination(run, 0, rank))
done, number = folder / f"done-{rank}", 0
while not (folder / "stop").exists():
    writer.write_all({"marks": [marks(number)]})
    number += 1
    done.with_suffix(".tmp").write_text(str(number))
    done.with_suffix(".tmp").replace(done)
    writer.check()
    time.sleep(0.02)
writer.finish()
"""

COLLECTOR = """
import sys
from pathlib import Path
from threading import Event
from trace_hooks.watchdog import collector
collector.IDLE_S = collector.TICK_S = 0.03
host = collector.Collector(Path(sys.argv[1]))
print("ready", flush=True)
host.run(Event())
"""


def start(folder: Path, code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, str(folder), *arguments],
        env=environment(folder),
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.long
@pytest.mark.kill
def test_kills_at_any_moment_cost_no_row_and_give_none_twice(tmp_path: Path) -> None:
    """A collector after the other, killed while it publishes; two of the ranks, too."""
    run = RunBuilder(tmp_path / "run", 4).folder
    stop, dice = threading.Event(), random.Random(1)
    with Indexer(run) as indexer:
        indexer.compaction.grace_s = 0.0
        follower = threading.Thread(target=indexer.follow, args=(stop, 0.05))
        follower.start()
        ranks = [start(tmp_path, RANK, str(rank)) for rank in range(4)]
        for number in range(10 * ROUNDS):
            collector = start(tmp_path, COLLECTOR)
            assert collector.stdout is not None
            collector.stdout.readline()
            time.sleep(dice.uniform(0.0, 0.6))
            collector.kill()
            collector.communicate()
            if number in (5, 15):
                ranks[number // 10].kill()
        (tmp_path / "stop").touch()
        for process in ranks:
            process.communicate(timeout=60)
        time.sleep(0.5)
        stop.set()
        follower.join()
    collector = start(tmp_path, COLLECTOR)  # for what the killed ranks left
    wait_until(lambda: not waiting_batches(tmp_path, "spool"))
    collector.kill()
    collector.communicate()
    with open_run(run) as opened:
        rows = opened.sql("SELECT rank, text FROM marks").to_pylist()
        assert not opened.problems
    for rank in range(4):
        found = sorted(int(row["text"]) for row in rows if row["rank"] == rank)
        done = int((tmp_path / f"done-{rank}").read_text())
        assert found == list(range(len(found)))  # each once
        assert len(found) in (done, done + 1)  # it may be killed before it counts
