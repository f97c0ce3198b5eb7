"""What the connections of running ranks cost a server: one of each rank, and one of each host.

    python benchmarks/rank_connections.py [--hosts 8] [--ranks 8] [--seconds 30] [--json]

The agents of the hooks, without a job: those of all ranks are in one process, and where the ranks
of a host share a connection, the relays of all hosts are in another. They send heartbeats; one rank
also sends a frame of 256 KiB every 50 ms. Counted at the server: its sockets for ranks, its
CPU time and memory. A command is sent to all ranks again and again: the time until all have
answered. A frame's age is the time from the rank until a client of /live/frames has it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from browser import REPO, Server, clean_environment, conditions, cpu_s, report, rss_mb, spread
from websockets.sync.client import connect

from trace_hooks.agent.connection import Agent
from trace_hooks.job.identity import Identity, Shared
from trace_hooks.job.process_info import Place
from trace_hooks.protocol.frames import Frame, decode, stored
from trace_hooks.protocol.server_address import Address
from trace_hooks.recording.commands import Live
from trace_hooks.recording.rank_state import RankState

RUN, TOKEN = "live", "a-secret-of-the-benchmark"
SECRET, START = "a-secret-that-all-ranks-of-the-run-have", "start-of-this"
FRAME_EVERY_S, SIDE = 0.05, 362
"""SIDE x SIDE values of 2 bytes are 256 KiB."""
_COMMAND = "echo"
_START_S = 120.0
_RELAYS = """
import sys, time
from pathlib import Path
from trace_hooks.protocol.server_address import Address
from trace_hooks.watchdog.relay import Relay
for folder in sys.argv[3:]:
    Relay(Path(folder), Address(*sys.argv[1:3])).start()
time.sleep(1e6)
"""


def be_ranks(address: Address, ranks: int, meetings: list[Path | None]) -> None:
    """Be the ranks of all hosts until the process is killed; rank 0 sends frames."""
    agents, world = [], ranks * len(meetings)
    for rank in range(world):
        live = Live()
        live.commands.register(_COMMAND, str)
        agent = Agent(address, RankState(), live, meeting=meetings[rank // ranks])
        shared = Shared(RUN, 0, 0, "d", 0, 0, START, SECRET)
        agent.place(Identity(shared, Place(rank, world, rank % ranks, True), Path("unused")))
        agent.start()
        agents.append(agent)
    kept = stored(np.random.default_rng(0).random((SIDE, SIDE), dtype=np.float32))
    for step in range(1 << 40):
        time.sleep(FRAME_EVERY_S)
        made_ns = time.time_ns()
        agents[0].offer(Frame(step, made_ns, "w", "mlp", 0, "mlp", (SIDE, SIDE), **vars(kept)))


@contextmanager
def ranks_of(
    server: Server, options: argparse.Namespace, scratch: Path, shared: bool
) -> Iterator[int | None]:
    """All ranks; the pid of their relays, where the ranks of a host share a connection."""
    address = f"ws://127.0.0.1:{server.port}"
    meetings = [scratch / f"host{number}" for number in range(options.hosts)]
    for meeting in meetings:
        meeting.mkdir()
    folders = [str(meeting) if shared else "-" for meeting in meetings]
    commands = [[sys.executable, __file__, "--be", address, str(options.ranks), *folders]]
    if shared:
        commands.append([sys.executable, "-c", _RELAYS, address, TOKEN, *folders])
    environ = {**clean_environment(), "PYTHONPATH": str(REPO), "OMP_NUM_THREADS": "1"}
    processes = [subprocess.Popen(command, env=environ) for command in commands]
    try:
        yield processes[1].pid if shared else None
    finally:
        for process in processes:
            process.kill()
            process.wait()


def asked(server: Server, path: str, body: object = None) -> bytes:
    """The server's answer."""
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{server.url}{path}", content)
    with urllib.request.urlopen(request, timeout=_START_S) as answer:
        return bytes(answer.read())


def num_sockets(server: Server) -> int:
    """Sockets of ranks and hosts that the server counts."""
    lines = asked(server, "/metrics").decode().splitlines()
    found = [line.split()[1] for line in lines if line.startswith("rankscope_rank_sockets ")]
    return int(found[0])


def wait_for(server: Server, num: int) -> None:
    """Until so many ranks are connected."""
    until_s = time.monotonic() + _START_S
    while json.loads(asked(server, f"/api/watch?run={RUN}")).get("connected") != num:
        if time.monotonic() > until_s:
            raise SystemExit(f"not all ranks connected; the server's output:\n{server.log}")
        time.sleep(0.2)


def answers_ms(server: Server, num: int, seconds: float) -> list[float]:
    """Times until all ranks have answered a command, once a second."""
    times_ms, until_s = [], time.monotonic() + seconds
    while time.monotonic() < until_s:
        begun_s = time.perf_counter()
        answer = json.loads(asked(server, f"/api/command?run={RUN}", {"name": _COMMAND}))
        times_ms.append((time.perf_counter() - begun_s) * 1e3)
        if len(answer["acks"]) != num:
            raise SystemExit(f"{answer['silent']} did not answer")
        time.sleep(1.0)
    return times_ms


def ages_ms(server: Server, seconds: float) -> list[float]:
    """Ages of the frames that a client gets."""
    found, until_s = [], time.monotonic() + seconds
    address = f"ws://127.0.0.1:{server.port}/live/frames?run={RUN}"
    with connect(address, max_size=None, compression=None) as opened:
        while time.monotonic() < until_s:
            message = opened.recv(_START_S)
            if isinstance(message, bytes):
                found.append((time.time_ns() - decode(message).ts_ns) / 1e6)
    return found[1:]  # the first was there before


def measured(options: argparse.Namespace, shared: bool) -> dict[str, Any]:
    """One way: heartbeats alone for so many seconds, then commands, then frames to a client."""
    num = options.hosts * options.ranks
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) / "runs"
        runs.mkdir()
        server = Server(runs, "--job-token", TOKEN).start()
        try:
            with ranks_of(server, options, Path(folder), shared) as relays:
                wait_for(server, num)
                before_s, relays_s = cpu_s(server.pid), cpu_s(relays) if relays else 0.0
                time.sleep(options.seconds)
                percent = 100 / options.seconds
                result: dict[str, Any] = {
                    "sockets at the server": num_sockets(server),
                    "CPU of the server, % of a core": round(
                        percent * (cpu_s(server.pid) - before_s), 1
                    ),
                    "memory of the server, MB": round(rss_mb(server.pid)),
                }
                if relays:
                    result["CPU of a relay, % of a core"] = round(
                        percent * (cpu_s(relays) - relays_s) / options.hosts, 2
                    )
                result["command, answered by all ranks"] = spread(
                    answers_ms(server, num, options.seconds)
                )
                result["age of a frame at a client"] = spread(ages_ms(server, options.seconds))
        finally:
            server.stop()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hosts", type=int, default=8)
    parser.add_argument("--ranks", type=int, default=8, help="of a host (%(default)s)")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each part (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--be", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.be:
        address, ranks, *folders = options.be
        meetings = [Path(folder) if folder != "-" else None for folder in folders]
        be_ranks(Address(address, TOKEN), int(ranks), meetings)
    facts = conditions(hosts=options.hosts, ranks=options.hosts * options.ranks)
    del facts["browser"], facts["webgl"]
    result = {"conditions": facts}
    result["a connection of each rank"] = measured(options, shared=False)
    result["a connection of each host"] = measured(options, shared=True)
    report(result, options.json)


if __name__ == "__main__":
    main()
