"""Folders of logs built by hand, and the lines that an import makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.reader_results import Imported

TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "/opt/train/train.py", line 312, in <module>\n'
    "    main()\n"
    "RuntimeError: CUDA error: device-side assert triggered"
)


class Line(NamedTuple):
    """The columns that most tests look at."""

    file: str
    line: int
    rank: int
    host: str
    stream: str
    ts_ns: int
    timed: str
    level: str
    label: str
    text: str
    count: int


def write_logs(folder: Path, logs: Mapping[str, str | bytes]) -> Path:
    """Files of these names below `folder`; returns it."""
    for name, content in logs.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def lines_of(run: Imported) -> list[Line]:
    """All rows of log_lines by file and line."""
    return sorted(Line(*row) for row in run.rows("log_lines", *Line._fields))


def imported_lines(folder: Path, runs: Path, logs: Mapping[str, str | bytes]) -> list[Line]:
    """What an import of these logs makes of them."""
    return lines_of(Imported(write_logs(folder, logs), into=runs))


def column(lines: list[Line], *names: str) -> list[Any]:
    """Some fields of each line; of one name its values."""
    rows = [tuple(getattr(line, name) for name in names) for line in lines]
    return [row[0] for row in rows] if len(names) == 1 else rows


def small_logs() -> dict[str, str]:
    """A small log of every layout, by names of files."""
    log = "2026-04-13 16:50:00,125 - INFO - step 1 | loss 2.5"
    c10d = "[rank3]:[E413 16:51:14.061727749 ProcessGroupNCCL.cpp:683] [Rank 3] Watchdog caught"
    bar = "\r 5%|#  | 5/100\r 6%|#  | 6/100"
    traceback = "".join(f"[rank3]: {line}\n" for line in TRACEBACK.split("\n"))
    rule = "=" * 20
    box = f"{rule}\na.py FAILED\n  host : n1\n  rank : 3 (local_rank: 1)\n{rule}\n"
    key = "-----BEGIN PRIVATE KEY-----\nAbCd0123\n-----END PRIVATE KEY-----\n"
    kernel = "NVRM: Xid (PCI:0000:cb:00): 79, pid=4711, GPU has fallen off the bus."
    entry = '{"__REALTIME_TIMESTAMP": "1776099080000000", "_HOSTNAME": "n1", "MESSAGE": "a b"}\n'
    docker = '{"log": "a\\n", "stream": "stderr", "time": "2026-04-13T16:51:20.25Z"}\n'
    cri = "2026-04-13T16:51:20.25Z stderr P abc\n2026-04-13T16:51:20.25Z stderr F def\n"
    extra = '{"py_callstack": "Traceback", "timestamp": "1776099080"}'
    return {
        "rank_3.log": f"{log}\n{c10d}\n{bar}\n{traceback}{box}{key}hf_{'aB3' * 8}\n{log}\n",
        "labels.out": "".join(f"{task}: {log}\n" for task in range(6)),
        "kern.log": f"Apr 13 16:51:20 n1 kernel: [ 4000.3] {kernel}\n[ 4000.4] {kernel}\n",
        "journal.json": entry * 3,
        "a-json.log": docker * 3,
        "0.log": cri * 3,
        "pods.txt": f"[pod/a-worker-1/main] 2026-04-13T16:51:20.250000Z [rank9]: {log}\n" * 3,
        "console.log": f"[default1]:{log}\n[default1]:{c10d}\n",
        "nccl.n1.77": "n1:77:80 [0] NCCL INFO comm 0x5 rank 3 nranks 8 - Init\n" * 3,
        "error.json": f'{{"message": {{"message": "a", "extraInfo": {extra}}}}}',
    }
