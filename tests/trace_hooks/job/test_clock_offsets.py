"""Clock offsets: the arithmetic, and ping-pong between two processes with a forced offset."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from tests.forks import fork, succeeded
from tests.trace_hooks.processes import environment
from trace_hooks.job.clock_offsets import ClockOffsets
from trace_hooks.recording.clock import Anchor
from trace_hooks.recording.recorder import Recorder

TWO_HOSTS = """
import json, sys, time
import torch.distributed as dist
from trace_hooks.recording.clock import Anchor, now
from trace_hooks.job.identity import Identity, Shared
from trace_hooks.job.clock_offsets import ClockOffsets
from trace_hooks.job.process_info import Place
from trace_hooks.recording.recorder import Recorder
from pathlib import Path

kind, path, rank = sys.argv[1], sys.argv[2], int(sys.argv[3])
if kind == "file":
    store = dist.FileStore(path, 2)
else:
    store = dist.TCPStore("127.0.0.1", int(path), 2, rank == 0, wait_for_workers=False)
AHEAD_NS = 7_000_000_000 if rank else 0      # the other host booted seven seconds earlier
anchor = Anchor(offset_ns=1_000_000 - AHEAD_NS + 300 * rank)  # and its wall clock is 300 ns ahead
shared = Shared("run", 0, 0, "host 0", 1_000_000, 10)
identity = Identity(shared, Place(rank, 2, 0, True), Path("."))
recorder = Recorder()
offsets = ClockOffsets(
    recorder, anchor, "p", domain=f"host {rank}", clock=lambda: now() + AHEAD_NS, period_s=0.5
)
done, until = "p/done", time.monotonic() + 60
while time.monotonic() < until:
    offsets.poll(identity, lambda: store)
    if rank and sum(table == "clocks" for table, _ in recorder.rows) >= 2:
        store.set(done, "1")
    if store.check([done]):
        break
    time.sleep(0.05)
offsets.close()
print(json.dumps([row for table, row in recorder.rows]))
store.set(f"p/end{rank}", "1")
while rank == 0 and not store.check(["p/end1"]):
    time.sleep(0.02)
"""


def test_a_process_that_ends_while_a_thread_is_being_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SIGTERM may come at any moment; the drain thread starts, the main thread closes."""
    offsets = ClockOffsets(Recorder(), Anchor(), "run")

    class ClosedMeanwhile(threading.Thread):
        def start(self) -> None:
            offsets.close()
            super().start()

    monkeypatch.setattr(threading, "Thread", ClosedMeanwhile)
    asked: list[str] = []
    offsets._run(offsets._each_round, lambda: asked.append("store"), print)
    (thread,) = offsets._threads
    thread.join(60.0)
    assert not thread.is_alive()
    assert asked == []


@pytest.mark.sampled
@pytest.mark.torch
@pytest.mark.parametrize("kind", ["tcp", "file"])
def test_two_processes_with_a_forced_offset(tmp_path: Path, kind: str, free_port: int) -> None:
    script = tmp_path / "script.py"
    script.write_text(TWO_HOSTS)
    where = str(tmp_path / "store") if kind == "file" else str(free_port)
    processes = [
        fork(tmp_path / str(rank), [str(script), kind, where, str(rank)], environment(tmp_path))
        for rank in range(2)
    ]
    printed = [json.loads(ended.out) for ended in succeeded(processes)]
    (own,) = printed[0]
    assert (own["offset_ns"], own["err_ns"], own["method"]) == (0, 0, "same_host")
    assert len(printed[1]) >= 2  # estimated again after the period
    for row in printed[1]:
        assert row["method"] == "store_ping_pong"
        # rank 1's times are 300 ns ahead of rank 0's; the monotonic clocks' 7 s must cancel out
        assert abs(row["offset_ns"] + 300) <= row["err_ns"]
        assert 0 < row["err_ns"] < 100_000_000


@pytest.fixture
def free_port() -> int:
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
