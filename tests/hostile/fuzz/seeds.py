"""Small good files of every format, for the mutations of campaign.py to begin with."""

from __future__ import annotations

import gzip
import io
import json
import pickle  # noqa: TID251  # to make dumps
import sqlite3
import tarfile
import tempfile
import zipfile
from functools import cache
from pathlib import Path

import pyarrow.parquet as pq

from ingest.exports.perfetto import write_perfetto
from ingest.exports.window import Window
from ingest.run import open_run
from tests.folders import FRAMEWORK_FILES, TRACES
from tests.ingest.readers import test_nccl_inspector as nccl
from tests.ingest.readers import test_ndtimeline as ndtimeline
from tests.ingest.readers import test_nsys as nsys
from tests.ingest.readers import test_prometheus as exporters
from tests.ingest.readers import test_rocpd as rocpd
from tests.ingest.readers import test_stack_dumps as stacks
from tests.ingest.readers import test_wandb_system as wandb
from tests.ingest.readers import test_xpu_timer as xpu
from tests.ingest.readers import test_xpu_timer_ascend as ascend
from tests.ingest.readers.flight_recorder import dumps as flight
from tests.ingest.readers.logs import test_training as training
from tests.ingest.readers.logs.log_files import small_logs
from tests.ingest.readers.nccl_ras import ras_polls as ras
from tests.ingest.readers.straggler_analysis import test_straggler_analysis as straggler
from tests.runs_builder import two_rank_run

_LARGEST = 64 << 10
_HEAD_LINES = 40


@cache
def seeds() -> dict[str, list[tuple[str, bytes]]]:
    """Format -> (name, content) of its seeds; real files where they are here."""
    found = _made()
    for name, pattern in (
        ("kineto", "kineto/hta/*"),
        ("flight_recorder", "flight_recorder/*/_dump_1*"),
        ("rocpd", "rocpd/*.rpd"),
    ):
        for path in sorted(TRACES.glob(pattern)):
            content = _inflated(path.read_bytes())
            if len(content) <= _LARGEST * (4 if name == "rocpd" else 1):
                found[name].append((path.name.removesuffix(".gz"), content))
    for path in sorted(TRACES.glob("fault_injection/*/injected/rank_000[07].jsonl")):
        lines = path.read_bytes().split(b"\n")[:_HEAD_LINES]
        found["phase_log"].append((path.name, b"\n".join(lines)))
    for path in sorted(TRACES.glob("megascan/pp4/*.json"))[:2]:
        rows = json.loads(path.read_bytes())[:260]
        found["megascan"].append((path.name, json.dumps(rows).encode()))
    for path in TRACES.glob("chrome/byteps_truncated.json"):
        found["chrome_trace"].append((path.name, path.read_bytes()[: _LARGEST // 2]))
    for path in TRACES.glob("straggler_analysis/trace-ST.parquet"):
        found["straggler_analysis"].append((path.name, path.read_bytes()))
    return found


def _inflated(content: bytes) -> bytes:
    return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content


def _made() -> dict[str, list[tuple[str, bytes]]]:
    event = {"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1.5, "dur": 2}
    args = {
        "Collective name": "allreduce",
        "In msg nelems": 100,
        "dtype": "Float",
        "Seq": 1,
        "Process Group Name": "1",
        "Process Group Ranks": "[0, 1]",
    }
    kernel = {**event, "cat": "kernel", "name": "ncclDevKernel_AllReduce", "args": args}
    step = {**event, "cat": "user_annotation", "name": "ProfilerStep#3", "dur": 90}
    info = {"rank": 1, "world_size": 2, "pg_config": [{"pg_name": "1", "ranks": [0, 1]}]}
    kineto = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0}],
        "distributedInfo": info,
        "traceEvents": [event, kernel, step] * 5,
        "baseTimeNanoseconds": 10**18,
    }
    text = json.dumps(kineto).encode()
    entries = [flight.entry(n) for n in range(6)] + [flight.entry(9, "nccl:send 0->1")]
    calls = [nccl.line(n, 1, at=100 * n) for n in range(8)]
    bare = [{"coll_perf": call["coll_perf"]} for call in calls[:4]]
    newer = [nccl.stats(1, colls=4, p2p=1), *bare, {"p2p_perf": nccl.message(2, 1, 0)["p2p_perf"]}]
    kernels = [xpu.kernel(n % 3, 7 + n % 3, n * 10, 5, xpu.nccl(9, n)) for n in range(20)]
    job = ndtimeline.MegatronJob(pp=2, dp=2, num_microbatches=2, num_steps=2)
    chrome = [
        {"ph": "B", "name": "x", "ts": 1, "pid": 1},
        {"ph": "E", "name": "x", "ts": 2, "pid": 1},
        {"ph": "X", "name": "y", "ts": 3, "dur": 4, "pid": 1, "args": {"step": 1}},
    ] * 6
    return {
        "kineto": [("rank-1.json", text)],
        "archives": _archives(text),
        "flight_recorder": [
            ("dump_1", pickle.dumps(flight.dump(*entries), protocol)) for protocol in (2, 4)
        ]
        + [("dump_2.json", json.dumps(flight.dump(*entries)).encode())],
        "megascan": [],
        "phase_log": [],
        "nccl_inspector": [
            (name, b"\n".join(json.dumps(line).encode() for line in lines))
            for name, lines in (("a.log", [*calls, nccl.message(3, 1, 0)]), ("b.log", newer))
        ],
        "nccl_ras": [("polls.json", _polls())],
        "stack_dumps": [
            ("rank_1.json", stacks.py_spy_json(stacks.WAITS).encode()),
            ("rank_2.txt", stacks.py_spy_text(stacks.WAITS).encode()),
            ("rank_3.txt", stacks.faulthandler_text(stacks.WAITS).encode()),
        ],
        "xpu_timer": [("00001-00002.timeline", xpu.timeline(1, kernels, [xpu.host(b"GC", 1, 2)]))],
        "xpu_timer_ascend": [
            ("ascend_trace.rank1.pid7.jsonl", (json.dumps(ascend.CALL) + "\n").encode() * 9)
        ],
        "nsys": [("a.sqlite", _database(nsys.nsys_tables()))],
        "rocpd": [("a.rpd", _database(rocpd.ROCPD))],
        "chrome_trace": [("a.json", json.dumps(chrome).encode())],
        "rankscope_trace": [("a.json", _exported())],
        "logs": [
            *((name, text.encode()) for name, text in small_logs().items()),
            *_framework_files("trainer.log", "deepspeed.log", "megatron_timers.log"),
            ("megatron.log", (training.MEGATRON + training.TIMERS + training.DEEPSPEED).encode()),
        ],
        "prometheus": [
            ("dcgm.prom", exporters.DCGM.encode()),
            ("node.prom", exporters.NODE.encode()),
            ("answer.json", json.dumps(exporters.range_answer()).encode()),
        ],
        "wandb_system": [
            ("rank1.jsonl", b"".join(json.dumps(wandb.ROW).encode() + b"\n" for _ in range(9))),
            ("system.csv", wandb.CSV.encode()),
        ],
        "ndtimeline": [("trace_step0_1", json.dumps(ndtimeline.events_of(job)).encode())],
        "tensorboard": _framework_files("writer.tfevents", "lightning.tfevents"),
        "hf_trainer_state": _framework_files("trainer_state.json"),
        "lightning_csv": _framework_files("metrics.csv"),
        "straggler_analysis": [
            ("meta-ST.yaml", b"dp_size: 2\npp_size: 4\ntp_size: 1\n"),
            *[(name, _parquet()) for name in ("a.parquet", "b.parquet")],
        ],
    }


def _framework_files(*names: str) -> list[tuple[str, bytes]]:
    return [(name, (FRAMEWORK_FILES / name).read_bytes()) for name in names]


def _polls() -> bytes:
    """Two that are equal, with a rank behind and one that does not answer."""
    ranks = ras.world({0: 9, 1: 9, 3: 8}, [ras.missing(2, 2)])
    return b"\n".join(json.dumps(ras.poll(at_s, ranks), indent=1).encode() for at_s in (0, 40))


def _parquet() -> bytes:
    """With its sizes in the metadata and its values as they are, so that they can be changed."""
    packed = io.BytesIO()
    sizes = {name: str(size) for name, size in straggler.SIZES.items()}
    table = straggler._table().replace_schema_metadata(sizes)
    pq.write_table(table, packed, compression="none", use_dictionary=False)
    return packed.getvalue()


def _exported() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        two_rank_run(Path(folder) / "run")
        out = Path(folder) / "out.json"
        with open_run(Path(folder) / "run") as run:
            write_perfetto(run, Window(), out)
        return out.read_bytes()


def _archives(text: bytes) -> list[tuple[str, bytes]]:
    tar, packed = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        for name in ("rank-0.json", "rank-1.json"):
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text))
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("rank-0.json", text)
        zipped.writestr("rank-1.json.gz", gzip.compress(text))
    return [
        ("a.tar", tar.getvalue()),
        ("a.tar.gz", gzip.compress(tar.getvalue(), mtime=0)),
        ("rank-1.json.gz", gzip.compress(text, mtime=0)),
        ("a.zip", packed.getvalue()),
    ]


def _database(tables: dict[str, tuple[str, list[tuple[object, ...]]]]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = nsys.database(Path(folder) / "a", tables)
        connection = sqlite3.connect(path)
        connection.execute("VACUUM")
        connection.close()
        return path.read_bytes()
