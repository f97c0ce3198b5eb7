"""Plain files: whose they are, by prefixes of lines, names, folders and what NCCL writes."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path

import pytest

from ingest.errors import UserError
from ingest.imports.importer import import_paths
from ingest.imports.worker_command import HERE_VARIABLE
from ingest.run import open_run
from tests.ingest.readers.logs.log_files import column, imported_lines, lines_of, write_logs
from tests.reader_results import Imported

LOG = "2026-04-13 16:50:00,125 - INFO - step 1"
AT_NS = 1776099000_125_000_000


def test_prefixes_count_more_than_names(folder: Path, runs: Path) -> None:
    """The other forms are those of Lightning and mpirun."""
    text = f"[rank3]: {LOG}\n[rank: 4] seed 1\n[Rank 5] a\n[1,6]<stderr>:b\n{LOG} c\n[rank3]:{LOG}"
    lines = imported_lines(folder, runs, {"rank_0.log": text})
    assert column(lines, "rank") == [3, 4, 5, 6, -1, 3]
    assert column(lines, "text")[1:4] == ["seed 1", "a", "b"]
    assert lines[3].stream == "stderr"


def test_a_file_of_one_rank_has_it_in_its_lines(folder: Path, runs: Path) -> None:
    """Half of the lines are enough; a single line of C++ code among others is not."""
    logs = {"a.log": f"[rank3]: x\n{LOG}\n", "b.log": f"[rank4]: x\n{LOG} 1\n{LOG} b\n"}
    assert column(imported_lines(folder, runs, logs), "file", "rank") == [
        ("a.log", 3),
        ("a.log", 3),
        ("b.log", 4),
        ("b.log", -1),
        ("b.log", -1),
    ]


@pytest.mark.parametrize(
    ("name", "rank", "stream"),
    [
        ("rank_3.log", 3, "log"),
        ("rank3.err", 3, "stderr"),
        ("rank-0003.out.gz", 3, "stdout"),
        ("task.3.log", 3, "log"),
        ("proc3-stderr.txt", 3, "stderr"),
        ("frank.log", -1, "log"),
        ("rank.log", -1, "log"),
        ("rank_9999999.log", -1, "log"),
    ],
)
def test_names_of_files(folder: Path, runs: Path, name: str, rank: int, stream: str) -> None:
    content = gzip.compress(LOG.encode()) if name.endswith(".gz") else LOG
    (line,) = imported_lines(folder, runs, {name: content})
    assert (line.rank, line.stream, line.file) == (rank, stream, name)


def test_folders_of_hosts(folder: Path, runs: Path) -> None:
    logs = {f"node{n // 2}/rank_{n}.log": f"{LOG}\n" for n in range(4)}
    run = Imported(write_logs(folder, logs), into=runs)
    assert {rank: info["host"] for rank, info in run.ranks.items()} == {
        0: "node0",
        1: "node0",
        2: "node1",
        3: "node1",
    }
    assert {info["world_size"] for info in run.ranks.values()} == {4}
    assert any("the world size is taken to be 4" in guess for guess in run.guesses)


@pytest.mark.parametrize("names", [("stdout", "stderr"), ("run1", "run2"), ("2026-04-13", "x7")])
def test_other_folders_are_no_hosts(folder: Path, runs: Path, names: tuple[str, str]) -> None:
    lines = imported_lines(folder, runs, {f"{name}/a.log": f"{LOG}\n" for name in names})
    assert set(column(lines, "host")) == {""}


def _nccl(host: str, pid: int, rank: int, size: int) -> str:
    who = f"{host}:{pid}:{pid + 9} [{rank % 2}]"
    return (
        f"{who} NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n"
        f"{who} NCCL INFO ncclCommInitRank comm 0x55d3 rank {rank % 2} nranks 2 cudaDev 0 - Init\n"
        f"{who} NCCL INFO ncclCommInitRank comm 0x55d4 rank {rank} nranks {size} cudaDev 0 - Init\n"
        f"{who} NCCL WARN Call to ibv_reg_mr failed\n"
    )


def test_files_of_nccl(folder: Path, runs: Path) -> None:
    """NCCL_DEBUG_FILE=nccl.%h.%p: ranks in a communicator of all of them, hosts of the lines."""
    logs = {
        f"nccl.node{rank // 2}.{4000 + rank}": _nccl(f"node{rank // 2}", 4000 + rank, rank, 4)
        for rank in range(4)
    }
    run = Imported(write_logs(folder, logs), into=runs)
    assert sorted(set(column(lines_of(run), "file", "rank", "host"))) == [
        (f"nccl.node{rank // 2}.{4000 + rank}", rank, f"node{rank // 2}") for rank in range(4)
    ]
    assert any("in a communicator of them all" in guess for guess in run.guesses)


@pytest.mark.parametrize("size", [2, 8])
def test_a_communicator_of_others_says_no_rank(folder: Path, runs: Path, size: int) -> None:
    """Of two of the four processes, or of four processes without logs."""
    logs = {f"nccl.n.{rank}": _nccl("n", rank, rank % size, size) for rank in range(4)}
    assert set(column(imported_lines(folder, runs, logs), "rank")) == {-1}


def test_logs_in_a_tar(tmp_path: Path, runs: Path) -> None:
    """Also packed themselves; the empty one is no problem, and one that is cut off is one."""
    packed = gzip.compress(f"{LOG}\n".encode() * 400)
    members = {
        "logs/rank_0.log": f"{LOG}\n".encode(),
        "logs/rank_1.log.gz": packed,
        "logs/rank_2.log.gz": packed[: len(packed) // 2],
        "logs/rank_3.err": b"",
    }
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    (tmp_path / "logs.tgz").write_bytes(made.getvalue())
    run = Imported(tmp_path / "logs.tgz", into=runs)
    lines = lines_of(run)
    assert column(lines, "rank", "ts_ns", "count")[:2] == [(0, AT_NS, 1), (1, AT_NS, 400)]
    assert lines[0].file == "rank_0.log"
    (problem,) = run.problems
    assert "rank_2.log.gz: " in problem


def test_logs_that_name_no_rank_are_a_run(folder: Path, runs: Path) -> None:
    run = Imported(write_logs(folder, {"a.log": f"{LOG}\n"}), into=runs)
    assert list(run.ranks) == [0]
    assert run.rows("log_lines", "rank") == [(-1,)]
    assert run.info["source"] == "logs"


def test_empty_logs_alone_are_refused(folder: Path, runs: Path) -> None:
    write_logs(folder, {"a.log": "", "b.err": "\n"})
    with pytest.raises(UserError, match=r"a\.log is an empty file"):
        import_paths([folder], runs)


def test_processes_of_an_import_read_logs(
    folder: Path, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they make of a file is pickled."""
    monkeypatch.delenv(HERE_VARIABLE)
    logs = {"rank_0.log": f"{LOG}\n", "rank_1.log": _nccl("node1", 7, 1, 2), "kern.log": "[ 4.0] a"}
    run = Imported(write_logs(folder, logs), into=runs)
    assert run.problems == []
    assert set(column(lines_of(run), "rank", "host")) == {(0, ""), (1, "node1"), (-1, "")}


def test_queries_open_the_rows_of_a_rank(folder: Path, runs: Path) -> None:
    """Rows of all ranks lie in files of rank 0."""
    logs = {f"rank_{rank}.log": f"{LOG} {rank}\n" for rank in range(5)}
    run = Imported(write_logs(folder, logs), into=runs)
    with open_run(run.folder) as opened:
        (row,) = opened.ask("log_lines", ranks="3").to_pylist()
        assert (row["ranks"], row["file"]) == ([3], "rank_3.log")
    assert json.loads((run.folder / "run.json").read_text())["problems"] == []
