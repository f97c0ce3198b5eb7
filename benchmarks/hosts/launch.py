"""Starts the ranks of train_3d on several hosts that are one machine; needs root on Linux.

    python -m benchmarks.hosts.launch --hosts 4 --state FILE -- --steps 100 --pp 2 --dp 2 --tp 2

A host has a name, a network and groups for CPU, memory and disks of its own. Its interface eth0
leads to a bridge in the namespace of this process, so a limit on it slows what the host exchanges
with others, and its ranks among themselves do not notice. Everything ends with the processes.

Written to --state once all ranks run: {"switch": pid, "hosts": [{"name", "pid", "ranks": {rank:
pid}, "groups": {controller: folder}, "port": its end at the bridge}]}.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch  # noqa: F401 - once for all ranks

import trace_hooks.active_tracer  # noqa: F401
from sample_traces.jobs.launch import die_with_parent, end_as_process
from sample_traces.jobs.train_3d import parse_options, train

CGROUPS = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "cpuacct", "memory", "blkio")
NEW_MOUNTS, NEW_NAMES, NEW_NETWORK = 0x0002_0000, 0x0400_0000, 0x4000_0000  # linux/sched.h
PORT = 29_500

_LIBC = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """Leave namespaces of this process for new ones; raises OSError."""
    if _LIBC.unshare(flags):
        raise OSError(ctypes.get_errno(), "unshare: this needs root on Linux")


def run(*words: str) -> None:
    """A command that must succeed."""
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)


def address_of(host: int) -> str:
    """Of a host by its number."""
    return f"10.77.0.{host + 1}"


class Host:
    """One host: its process, which forks its ranks when its network is there."""

    def __init__(self, number: int, num_hosts: int, per_host: int, train_arguments: list[str]):
        self.number, self.name = number, f"node{number}"
        self.port = f"port{number}"
        self.groups = {
            controller: CGROUPS / controller / f"rankscope-{os.getpid()}-{self.name}"
            for controller in CONTROLLERS
            if (CGROUPS / controller / "cgroup.procs").exists()
        }
        self._per_host, self._num_hosts, self._arguments = per_host, num_hosts, train_arguments
        self._go = os.pipe()
        self._told = os.pipe()
        self.pid = 0
        self.ranks: dict[int, int] = {}

    def start(self) -> None:
        """Fork it, and connect it to the bridge of this process."""
        for folder in self.groups.values():
            folder.mkdir()
        self.pid = os.fork()
        if self.pid == 0:
            die_with_parent()
            code = 1
            try:
                code = self._run()
            finally:
                os._exit(code)
        os.close(self._told[1])
        self._wait_for(b"n")
        inside = f"host{self.number}"
        run("ip", "link", "add", self.port, "type", "veth", "peer", "name", inside)
        run("ip", "link", "set", inside, "netns", str(self.pid))
        run("ip", "link", "set", self.port, "master", "bridge", "up")
        os.write(self._go[1], b"g")

    def wait_for_ranks(self) -> None:
        """Until all its ranks run."""
        line = b""
        while not line.endswith(b"\n"):
            line += self._read()
        self.ranks = {int(rank): pid for rank, pid in json.loads(line).items()}

    def to_json(self) -> dict[str, Any]:
        """As it stands in the state file."""
        groups = {controller: str(folder) for controller, folder in self.groups.items()}
        return {
            "name": self.name,
            "pid": self.pid,
            "ranks": self.ranks,
            "groups": groups,
            "port": self.port,
        }

    def remove_groups(self) -> None:
        """They can go once no process is in them."""
        for folder in self.groups.values():
            for _ in range(50):
                try:
                    folder.rmdir()
                    break
                except OSError:
                    time.sleep(0.1)

    def _read(self) -> bytes:
        data = os.read(self._told[0], 1)
        if not data:
            raise SystemExit(f"{self.name} did not come up")
        return data

    def _wait_for(self, byte: bytes) -> None:
        if self._read() != byte:
            raise SystemExit(f"{self.name} did not come up")

    def _run(self) -> int:
        """In the host's own process: set it up, fork its ranks and wait for them."""
        unshare(NEW_MOUNTS | NEW_NAMES | NEW_NETWORK)
        name = self.name.encode()
        if _LIBC.sethostname(name, len(name)):
            raise OSError(ctypes.get_errno(), "sethostname")
        _own_sysfs()
        for folder in self.groups.values():
            (folder / "cgroup.procs").write_text(str(os.getpid()))
        os.write(self._told[1], b"n")
        os.read(self._go[0], 1)
        inside = f"host{self.number}"
        run("ip", "link", "set", inside, "name", "eth0")
        run("ip", "addr", "add", f"{address_of(self.number)}/24", "dev", "eth0")
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "set", "eth0", "up")
        first = self.number * self._per_host
        pids = {first + local: self._fork_rank(local) for local in range(self._per_host)}
        os.write(self._told[1], json.dumps(pids).encode() + b"\n")
        return _wait_for(pids)

    def _fork_rank(self, local: int) -> int:
        pid = os.fork()
        if pid:
            return pid
        die_with_parent()
        os.environ |= {
            "RANK": str(self.number * self._per_host + local),
            "LOCAL_RANK": str(local),
            "WORLD_SIZE": str(self._num_hosts * self._per_host),
            "LOCAL_WORLD_SIZE": str(self._per_host),
            "MASTER_ADDR": address_of(0),
            "MASTER_PORT": str(PORT),
            "GLOO_SOCKET_IFNAME": "eth0",
        }
        end_as_process(lambda: train(parse_options(self._arguments)))


def _own_sysfs() -> None:
    """/sys shows the interfaces of the namespace in which it was mounted; keep the cgroups."""
    run("mount", "--make-rprivate", "/")
    run("mount", "--bind", "/sys/fs/cgroup", "/mnt")
    for controller in CONTROLLERS:
        if (CGROUPS / controller).is_dir():
            run("mount", "--bind", str(CGROUPS / controller), f"/mnt/{controller}")
    run("mount", "-t", "sysfs", "sysfs", "/sys")
    run("mount", "--rbind", "/mnt", "/sys/fs/cgroup")


def _wait_for(pids: dict[int, int]) -> int:
    """Until all ranks have ended; 1 as soon as one failed."""
    left = set(pids.values())
    while left:
        pid, status = os.wait()
        left.discard(pid)
        if status and pid in pids.values():
            return 1
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--per-host", type=int, default=2, help="ranks")
    parser.add_argument("--state", type=Path, required=True)
    own, rest = parser.parse_known_args()
    arguments = [word for word in rest if word != "--"]
    os.environ["WORLD_SIZE"] = str(own.hosts * own.per_host)
    if parse_options(arguments).nice:
        os.nice(parse_options(arguments).nice)
    die_with_parent()
    unshare(NEW_NETWORK)
    run("ip", "link", "add", "bridge", "type", "bridge")
    run("ip", "link", "set", "bridge", "up")
    hosts = [Host(number, own.hosts, own.per_host, arguments) for number in range(own.hosts)]
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        for host in hosts:
            host.start()
        for host in hosts:
            host.wait_for_ranks()
        state = {"switch": os.getpid(), "hosts": [host.to_json() for host in hosts]}
        scratch = own.state.with_suffix(".tmp")
        scratch.write_text(json.dumps(state), encoding="utf-8")
        scratch.rename(own.state)
        return _wait_for({host.number: host.pid for host in hosts})
    finally:
        for host in hosts:
            for pid in (*host.ranks.values(), host.pid):
                if pid:
                    _kill(pid)
        for host in hosts:
            host.remove_groups()


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
