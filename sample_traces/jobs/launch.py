"""Starts the ranks of a job on one machine: torch is imported once, then every rank is a fork.

Importing torch in each of eight ranks would take most of the start on a small machine; torchrun
works as well.
"""

from __future__ import annotations

import atexit
import ctypes
import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from multiprocessing.connection import wait
from typing import Any, NoReturn

import torch
import torch.distributed as dist

import trace_hooks.active_tracer  # noqa: F401 - with pyarrow, once for all ranks, too

GRACE_S = 5.0
"""What ranks get to end by themselves before they are killed."""

_SIGNALS = {signal.SIGINT, signal.SIGTERM}
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def init_process_group(device: torch.device, listener: socket.socket | None) -> None:
    """Join the job's process group: nccl on CUDA, gloo on CPU and where ranks share a GPU, which
    NCCL refuses.

    `listener`: socket of the store when the ranks were forked here; None under torchrun.
    """
    shares = int(os.environ.get("LOCAL_WORLD_SIZE", "1")) > torch.cuda.device_count()
    backend = "nccl" if device.type == "cuda" and not shares else "gloo"
    if listener is None:
        dist.init_process_group(backend)
        return
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    host, port = listener.getsockname()
    store = dist.TCPStore(
        host,
        port,
        world_size,
        is_master=rank == 0,
        timeout=timedelta(minutes=5),
        master_listen_fd=listener.detach() if rank == 0 else None,
    )
    dist.init_process_group(backend, store=store, rank=rank, world_size=world_size)


def launch(train: Callable[[Any, socket.socket], None], options: Any, num_ranks: int) -> int:
    """Run train(options, listener) in `num_ranks` forks; returns 0, or 1 as soon as one failed.

    When one fails, or on Ctrl-C (130) or SIGTERM (143), the others are ended; none is left over.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    context = multiprocessing.get_context("fork")
    ranks = [
        context.Process(target=_run_rank, args=(train, options, listener, rank, num_ranks))
        for rank in range(num_ranks)
    ]
    signal.signal(signal.SIGTERM, _terminate)
    try:
        with _signals_wait():
            for process in ranks:
                process.start()
        listener.close()
        return _wait(ranks)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        _end(ranks)


@contextmanager
def _signals_wait() -> Iterator[None]:
    """Signals come after the forks: Python drops what a handler raises in a hook of os.fork."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


def _terminate(_signal: int, _frame: Any) -> None:
    raise SystemExit(128 + signal.SIGTERM)


def _wait(ranks: list[Any]) -> int:
    waiting = {process.sentinel: (rank, process) for rank, process in enumerate(ranks)}
    while waiting:
        for sentinel in wait(list(waiting)):
            rank, process = waiting.pop(sentinel)  # type: ignore[call-overload]
            process.join()
            if process.exitcode:
                print(f"rank {rank} ended with code {process.exitcode}", file=sys.stderr)
                return 1
    return 0


def _end(ranks: list[Any]) -> None:
    """Signal the ranks that still run to end, then kill them."""
    running = [process for process in ranks if process.pid is not None and process.is_alive()]
    for process in running:
        process.terminate()
    deadline = time.monotonic() + GRACE_S
    for process in running:
        process.join(max(0.0, deadline - time.monotonic()))
        if process.is_alive():
            process.kill()
            process.join()


def _run_rank(
    train: Callable[[Any, socket.socket], None],
    options: Any,
    listener: socket.socket,
    rank: int,
    num_ranks: int,
) -> None:
    """One rank, in its fork."""
    die_with_parent()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the launcher decides, and sends SIGTERM
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(num_ranks),
        "LOCAL_WORLD_SIZE": str(num_ranks),
    }
    end_as_process(lambda: train(options, listener))


def end_as_process(work: Callable[[], None]) -> NoReturn:
    """Call it in a fork, which ends as a process of its own does: code 1 where it raised."""
    code = 0
    try:
        work()
    except BaseException:  # noqa: BLE001 - the interpreter's own last resort, which forks lack
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def die_with_parent() -> None:
    """A fork must not outlive the process that made it (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
