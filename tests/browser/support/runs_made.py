"""The runs the browser tests look at."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from ingest.imports.importer import import_paths
from ingest.run import open_run
from sample_traces import RECORDED
from tests.runs_builder import RunBuilder
from trace_hooks.layout import ParallelLayout

SCRIPT = "<script>alert(1)</script>"
IMAGE = '<img src=x onerror="alert(2)">'
HOSTILE = "<b onclick=alert(3)>ünï 漢字 & 100%"
"""Name of the run whose names are HTML and not ASCII; a folder's name can hold no slash."""
EMPTY = "empty"


def recorded(runs: Path, name: str) -> None:
    """A copy of a recorded run, indexed: pages show it at once, also where the machine is busy."""
    shutil.copytree(RECORDED / name, runs / name, ignore=shutil.ignore_patterns("index"))
    indexed(runs / name)


def indexed(folder: Path) -> str:
    """Name of a run, once it has its index."""
    open_run(folder).close()
    return folder.name


def hostile(runs: Path) -> None:
    """Two ranks with HTML in every name a job can choose."""
    run = RunBuilder(
        runs / HOSTILE, 2, ParallelLayout.from_sizes(tp=2), hosts=[SCRIPT, IMAGE], framework=SCRIPT
    )
    run.group(7, [0, 1], "tp")
    for step in range(4):
        begin = step * 1000.0
        for rank in range(2):
            run.step(rank, step, begin, begin + 1000, loss=1.0)
            run.span(rank, step, "forward", begin, begin + 400, name=SCRIPT, microbatch=0)
            run.span(rank, step, "backward", begin + 500, begin + 900, name=IMAGE, track=IMAGE)
            run.collective(rank, step, 7, step, begin + 400 + 50 * rank, begin + 500)
            run.span(
                rank,
                step,
                "tp_comm",
                begin + 400,
                begin + 500,
                name=SCRIPT,
                group_id=7,
                coll_seq=step,
            )
    run.add("marks", 0, 1, ts_ns=run_time(1500), kind="note", text=SCRIPT)
    run.rank_files(end={"ts_ns": run_time(4000), "status": "failed", "error": SCRIPT})
    run.publish()
    indexed(runs / HOSTILE)


def machines(runs: Path, name: str, num_hosts: int) -> str:
    """Hosts of two GPUs; GPU b of host 4 (rank 9) is throttled from step 20 on; names are HTML."""
    run = RunBuilder(
        runs / name, 2 * num_hosts, hosts=[f"<i>{r // 2}" for r in range(2 * num_hosts)]
    )
    for step in range(40):
        for rank in range(2 * num_hosts):
            run.step(rank, step, step * 1e6, (step + 1) * 1e6 - 10)
        for host in range(num_hosts):
            at = {"host": f"<i>{host}", "ts_ns": run_time(step * 1e6), "scope": "host"}
            for gpu in range(2):
                is_hot = (host, gpu) == (4, 1) and step >= 20
                clock = {"metric": "gpu_sm_clock_mhz", "value": 1110.0 if is_hot else 1980.0}
                device = {"device": f"gpu:{2 * host + gpu}-{SCRIPT}", "state": "value"}
                run.add("host_metrics", -1, step, **at, **device, **clock)
            port = {"metric": "nic_transmitted_bytes_total", "value": 4e9 * step, "state": "value"}
            run.add("host_metrics", -1, step, device="nic:mlx5_0/1", **at, **port)
        unreadable = {"state": "unreadable: Permission denied: /dev/kmsg", "value": float("nan")}
        run.add("host_metrics", -1, step, device="host", metric="kernel_log_readable",
                **at, **unreadable)  # fmt: skip
    run.rank_files(end={"ts_ns": run_time(4e7), "status": "finished", "error": None})
    for rank in range(2 * num_hosts):
        path = runs / name / "ranks" / f"0000-{rank:05d}.json"
        told = json.loads(path.read_text())
        path.write_text(json.dumps({**told, "device_uuid": f"{rank}-{SCRIPT}"}))
    run.publish()
    return indexed(runs / name)


def run_time(after_us: float) -> int:
    """Unix ns, us after the start of a built run."""
    from tests.runs_builder import T0, US

    return T0 + round(after_us * US)


def empty(runs: Path) -> None:
    """A job that has started and written nothing yet."""
    RunBuilder(runs / EMPTY, 2, ParallelLayout.from_sizes(tp=2)).rank_files()


def kineto_file(path: Path, rank: int = 0) -> Path:
    """A small torch.profiler trace of one rank: three steps with a kernel each."""
    events = []
    for step in range(3):
        begin = 1_000.0 * step
        place = {"ph": "X", "pid": 1, "tid": 1}
        events += [
            {
                **place,
                "cat": "user_annotation",
                "name": f"ProfilerStep#{step}",
                "ts": begin,
                "dur": 990.0,
            },
            {**place, "cat": "cpu_op", "name": "aten::mm", "ts": begin + 10, "dur": 300.0},
            {
                "ph": "X",
                "pid": 0,
                "tid": 7,
                "cat": "kernel",
                "name": "gemm",
                "ts": begin + 50,
                "dur": 500.0,
            },
        ]
    document = {
        "schemaVersion": 1,
        "deviceProperties": [],
        "traceEvents": events,
        "distributedInfo": {"rank": rank, "world_size": 2, "backend": "nccl"},
        "baseTimeNanoseconds": 1_719_853_884_000_000_000,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def big_kineto(path: Path, num_bytes: int) -> Path:
    """A torch.profiler trace of one rank of about this size: steps of operators and kernels."""
    head = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "GPU"}],
        "distributedInfo": {"rank": 0, "world_size": 1, "backend": "nccl"},
        "baseTimeNanoseconds": 1_719_853_884_000_000_000,
    }
    with path.open("w") as file:
        file.write(json.dumps(head)[:-1] + ', "traceEvents": [\n')
        number = 0
        while file.tell() < num_bytes:
            file.write("".join(_step_events(number)))
            number += 1
        file.write('{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}]}')
    return path


def _step_events(number: int, num_ops: int = 2000) -> Iterator[str]:
    """Lines of one step of 10 ms."""
    begin = 10_000.0 * number
    yield (
        f'{{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{number}", "pid": 1, '
        f'"tid": 1, "ts": {begin:.3f}, "dur": 9990.0}},\n'
    )
    for op in range(num_ops):
        ts, correlation = begin + 9900 * op / num_ops, number * num_ops + op
        yield (
            f'{{"ph": "X", "cat": "cpu_op", "name": "aten::op_{op % 90}", "pid": 1, "tid": 1, '
            f'"ts": {ts:.3f}, "dur": 4.0, "args": {{"External id": {correlation}}}}},\n'
            f'{{"ph": "X", "cat": "kernel", "name": "gemm_{op % 40}", "pid": 0, "tid": 7, '
            f'"ts": {ts + 5:.3f}, "dur": 3.5, "args": {{"device": 0, "stream": 7, '
            f'"correlation": {correlation}}}}},\n'
        )


def imported(runs: Path, scratch: Path) -> str:
    """A torch.profiler trace of two ranks, imported; returns the run's name."""
    files = [kineto_file(scratch / f"rank{rank}.json", rank) for rank in range(2)]
    return indexed(import_paths(files, runs))
