"""The folder of a campaign: a run, and around it what no statement may read or change.

Statements name paths by words such as @SECRET@, which each folder replaces by its own: the same
statement can be tried in another folder.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.index import compaction
from ingest.index.indexer import Indexer
from tests.folders import REPO
from tests.frame_runs import frame_row
from tests.runs_builder import T0, RunBuilder, table
from trace_hooks.layout import ParallelLayout
from trace_hooks.schema import SegmentName, publish_table

NUM_RANKS, NUM_STEPS = 4, 12
SECRETS = {
    name: f"canary-{name}-7f3a91c4e2"
    for name in ("outside", "other-run", "content", "environment", "home", "work")
}
"""What must appear in no answer, by where it lies."""
VARIABLE = "RANKSCOPE_CANARY"
_FRAME = {
    **frame_row(SECRETS["content"].encode()),
    "labels": f'["{SECRETS["content"]}"]',
}


class Stage:
    """Folders and files for one process under attack."""

    def __init__(self, folder: Path, token: str) -> None:
        """`token`: in the name of everything that statements may try to make elsewhere."""
        self.folder = folder
        self.token = token
        self.run = folder / "runs" / "job"
        self.other = folder / "runs" / "other"
        self.outside = folder / "outside"
        self.home, self.work, self.tmp = folder / "home", folder / "work", folder / "tmp"
        self._pristine = folder.with_name(folder.name + "-pristine")
        self._make()
        shutil.copytree(folder, self._pristine, symlinks=True)
        self.words = self._words()

    def _make(self) -> None:
        for path in (self.outside, self.home, self.work, self.tmp):
            path.mkdir(parents=True)
        _job(self.run)
        _other(self.other)
        secret = pa.table({"secret": [SECRETS["outside"]] * 3, "n": [1, 2, 3]})
        pq.write_table(secret, self.outside / "secret.parquet")
        rows = "".join(f"{SECRETS['outside']},{n}\n" for n in range(3))
        (self.outside / "secret.csv").write_text(f"secret,n\n{rows}")
        (self.outside / "secret.txt").write_text(SECRETS["outside"])
        (self.outside / "opened.txt").write_text(SECRETS["outside"])
        (self.outside / "secret.json").write_text(json.dumps([{"secret": SECRETS["outside"]}] * 3))
        with duckdb.connect(str(self.outside / "secret.duckdb")) as connection:
            connection.execute(f"CREATE TABLE t AS SELECT '{SECRETS['outside']}' AS secret")
        (self.home / "secret.txt").write_text(SECRETS["home"])
        (self.work / "secret.txt").write_text(SECRETS["work"])
        (self.work / "secret.csv").write_text(f"secret\n{SECRETS['work']}\n")

    def _words(self) -> dict[str, str]:
        """Paths by the words that statements have for them."""
        folder = {
            "RUN": self.run,
            "OTHER": self.other,
            "OUT": self.outside,
            "HOME": self.home,
            "CWD": self.work,
            "TMP": self.tmp,
        }
        files = {
            "DATA": next((self.run / "compacted").glob("spans-*")),
            "SEGMENT": next((self.run / "segments").glob("marks-*")),
            "CONTENT": next((self.run / "segments").glob("frames-*")),
            "SNAPSHOT": max((self.run / "index").glob("snapshot-*.duckdb")),
            "INDEX": next((self.run / "index").glob("index-*.duckdb")),
            "RUNJSON": self.run / "run.json",
            "OTHERDATA": next((self.other / "segments").glob("spans-*")),
            "SECRET": self.outside / "secret.txt",
            "SECRETCSV": self.outside / "secret.csv",
            "SECRETPARQUET": self.outside / "secret.parquet",
            "SECRETJSON": self.outside / "secret.json",
            "SECRETDB": self.outside / "secret.duckdb",
        }
        return {key: str(path) for key, path in (folder | files).items()} | {"TOKEN": self.token}

    def concrete(self, text: str) -> str:
        """The statement with this folder's paths."""
        for word, path in self.words.items():
            text = text.replace(f"@{word}@", path)
        return text

    def environ(self) -> dict[str, str]:
        """Of the process under attack; its canary is a variable."""
        kept = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
        repository = str(REPO)
        return kept | {
            "HOME": str(self.home),
            "TMPDIR": str(self.tmp),
            "PYTHONPATH": repository,
            "PYTHONDONTWRITEBYTECODE": "1",
            VARIABLE: SECRETS["environment"],
        }

    def restore(self) -> None:
        """Everything as it was at first, at the same paths."""
        shutil.rmtree(self.folder)
        shutil.copytree(self._pristine, self.folder, symlinks=True)

    def remove(self) -> None:
        """Delete it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self._pristine, ignore_errors=True)


_merging_two = threading.Lock()  # stages are made by several threads


def _job(folder: Path) -> None:
    """A run of four ranks (PP 2 x TP 2) on two hosts; merged files, segments, and one damaged."""
    hosts = ["node-a", "node-a", "node-b", "node-b"]
    layout = ParallelLayout.from_sizes(pp=2, tp=2)
    run = RunBuilder(folder, NUM_RANKS, layout, hosts=hosts)
    for group_id, ranks in ((7, [0, 1]), (8, [2, 3])):
        run.group(group_id, ranks, "tp")
    for step in range(NUM_STEPS):
        for rank in range(NUM_RANKS):
            _add_step(run, rank, step, hosts[rank])
    run.rank_files()
    run.publish()
    with _merging_two, Indexer(folder) as indexer:  # so that there are merged files
        before, compaction.FIRST_FAN_IN = compaction.FIRST_FAN_IN, 2
        try:
            indexer.compaction.grace_s = 0.0
            indexer.refresh()
        finally:
            compaction.FIRST_FAN_IN = before
    _publish(
        folder,
        "marks",
        [
            {
                "attempt": 0,
                "rank": 1,
                "step": 5,
                "ts_ns": T0,
                "kind": "fault",
                "text": "slow rank",
                "args": '{"x": 1.6}',
            }
        ],
    )
    _publish(folder, "frames", [{"attempt": 0, "rank": 0, "step": 1} | _FRAME])
    damaged = _publish(folder, "clocks", [{"attempt": 0, "rank": 0, "step": -1, "ts_ns": T0}])
    with Indexer(folder) as indexer:
        indexer.refresh(merge=False)
    content = damaged.read_bytes()  # the footer stays good: the error comes with the rows
    damaged.write_bytes(b"PAR1" + bytes(300) + content[304:])


def _add_step(run: RunBuilder, rank: int, step: int, host: str) -> None:
    t, late = 100.0 * step, 20 if rank == 3 else 0
    run.step(rank, step, t, t + 100, loss=3.0 - step / 10, tokens=512.0, flops=1e9, lr=1e-3)
    run.span(rank, step, "data_wait", t, t + 10)
    run.span(
        rank,
        step,
        "forward",
        t + 10,
        t + 50 + late,
        name="layers.0",
        microbatch=0,
        cpu_ns=30_000,
        args='{"layer": 0}',
    )
    run.span(
        rank,
        step,
        "tp_comm",
        t + 60 + late,
        t + 90,
        depth=1,
        group_id=7 + rank // 2,
        coll_seq=step,
        num_bytes=4096,
    )
    run.collective(rank, step, 7 + rank // 2, step, t + 60 + late, t + 90)
    run.span(rank, step, "optimizer", t + 90, t + 100)
    run.add("memory", rank, step, ts_ns=T0 + step, allocated=(rank + 1) << 20, reserved=8 << 20)
    run.add(
        "host_metrics", rank, step, ts_ns=T0 + step, host=host, metric="gpu_util", value=90.0 - rank
    )


def _other(folder: Path) -> None:
    run = RunBuilder(folder, 1)
    run.span(0, 0, "forward", 0, 10, name=SECRETS["other-run"])
    run.rank_files()
    run.publish()


def _publish(folder: Path, name: str, rows: list[dict[str, object]]) -> Path:
    path = folder / "segments" / str(SegmentName(name, 0, 0, 90))
    publish_table(table(name, rows), path)
    return path
