"""Reading by processes: the same result; one lost process costs one file; nothing is left."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ingest.errors import UserError
from ingest.imports import importer, pool
from ingest.imports.importer import import_paths
from ingest.imports.worker_command import HERE_VARIABLE
from ingest.index.snapshots import OwnerLock
from ingest.limits import limits
from tests.folders import NO_TRACES, TRACES
from tests.hostile.fuzz.seeds import seeds

WORKER = Path(__file__).with_name("planted_worker.py")


@pytest.fixture(autouse=True)
def _in_processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small files, too, are read by several processes, which may be made to go wrong."""
    monkeypatch.delenv(HERE_VARIABLE)
    monkeypatch.setattr(pool, "_BYTES_PER_PROCESS", 1)
    monkeypatch.setattr(pool, "num_cores", lambda: 2)
    monkeypatch.setattr(pool, "worker_command", lambda: [sys.executable, "-P", str(WORKER)])
    yield
    limits.cache_clear()


def _limited(monkeypatch: pytest.MonkeyPatch, name: str, value: int) -> None:
    monkeypatch.setenv(name, str(value))
    limits.cache_clear()


def _planted(folder: Path, *whats: str) -> Path:
    folder.mkdir()
    for rank, what in enumerate(whats):
        (folder / f"{rank}.txt").write_text(f"planted {rank} {what}")
    return folder


def _run_info(run: Path) -> dict[str, Any]:
    info: dict[str, Any] = json.loads((run / "run.json").read_text())
    return info


def _ranks(run: Path) -> list[int]:
    return sorted(int(path.stem.split("-")[1]) for path in (run / "ranks").iterdir())


def _children() -> set[int]:
    texts = [path.read_text() for path in Path("/proc/self/task").glob("*/children")]
    return {int(pid) for text in texts for pid in text.split()}


def _content(run: Path) -> dict[str, Any]:
    """All a run holds but when it was imported."""
    content: dict[str, Any] = {}
    for path in sorted(run.rglob("*")):
        if path.suffix == ".json":
            content[path.name] = json.loads(path.read_text())
        elif path.suffix == ".parquet":
            table = pq.read_table(path)
            content[path.name] = (table.schema, repr(table.to_pydict()))  # so that nan is nan
    content["run.json"]["provenance"].pop()
    return content


def _all_formats(folder: Path) -> dict[str, Path]:
    """A folder of files of every format that the fuzzer mutates."""
    found = {}
    for name, files in seeds().items():
        found[name] = folder / name
        for number, (file_name, content) in enumerate(files):
            path = found[name] / f"{number}" / file_name
            path.parent.mkdir(parents=True)
            path.write_bytes(content)
    return found


@pytest.mark.long
def test_processes_find_what_one_process_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = 0
    for name, folder in _all_formats(tmp_path / "in").items():
        results: list[Any] = []
        for here in ("0", "1"):
            monkeypatch.setenv(HERE_VARIABLE, here)
            try:
                run = import_paths([folder], tmp_path / f"runs{here}")
                results.append(_content(run))
                compared += 1
            except UserError as error:
                results.append(str(error))
        assert results[0] == results[1], name
    assert compared > 10


@pytest.mark.long
@pytest.mark.skipif(not TRACES.is_dir(), reason=NO_TRACES)
@pytest.mark.parametrize("name", ["kineto/dlrm8.tar.gz", "kineto/hta", "megascan/pp4"])
def test_processes_find_the_same_in_real_traces(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart = _content(import_paths([TRACES / name], tmp_path / "apart"))
    monkeypatch.setenv(HERE_VARIABLE, "1")
    assert apart == _content(import_paths([TRACES / name], tmp_path / "here"))


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("crash", "the reader ended with signal 6 (SIGABRT)"),
        ("leave", "the reader ended with status 5"),
        ("hang", "the reader was stopped after 3 s; raise RANKSCOPE_MAX_FILE_SECONDS"),
        ("spin", "the reader was stopped after 3 s; raise RANKSCOPE_MAX_FILE_SECONDS"),
        ("eat", "the planted reader needed more than 1,024 MiB of memory"),
        ("write", "the planted reader failed on it (OSError: [Errno 27] File too large)"),
    ],
)
def test_what_a_reader_does_costs_its_own_file(
    what: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if what in ("hang", "spin"):
        _limited(monkeypatch, "RANKSCOPE_MAX_FILE_SECONDS", 3)
    _limited(monkeypatch, "RANKSCOPE_MAX_READER_MIB", 1024)
    _limited(monkeypatch, "RANKSCOPE_MAX_SPOOLED_MIB", 8)
    folder = _planted(tmp_path / "in", "fine", what, "fine", "fine")
    before = _children()
    run = import_paths([folder], tmp_path / "runs")
    assert _ranks(run) == [0, 2, 3]
    (problem,) = _run_info(run)["problems"]
    assert problem.startswith(f"{folder}/1.txt: {message}")
    assert len(list((run / "segments").iterdir())) == 3
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [run.name]
    assert _children() == before


def test_one_bad_file_of_128_costs_one(tmp_path: Path) -> None:
    whats = ["crash" if rank == 64 else "fine" for rank in range(128)]
    run = import_paths([_planted(tmp_path / "in", *whats)], tmp_path / "runs")
    assert _ranks(run) == [rank for rank in range(128) if rank != 64]
    assert len(_run_info(run)["problems"]) == 1


def _archive(folder: Path, *whats: str) -> Path:
    archive = folder / "all.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(_planted(folder / "in", *whats), "job")
    return archive


def test_of_an_archive_one_bad_file_costs_one(tmp_path: Path) -> None:
    archive = _archive(tmp_path, "fine", "crash", "fine", "fine")
    run = import_paths([archive], tmp_path / "runs")
    (problem,) = _run_info(run)["problems"]
    assert _ranks(run) == [0, 2, 3]
    assert problem == f"{archive}/job/1.txt: the reader ended with signal 6 (SIGABRT)"


def test_an_archive_that_ends_one_process_after_the_other_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "num_cores", lambda: 1)
    archive = _archive(tmp_path, "fine", *["crash"] * 7, "fine")
    run = import_paths([archive], tmp_path / "runs")
    problems = _run_info(run)["problems"]
    assert _ranks(run) == [0]
    assert len(problems) == 3
    assert problems[-1] == (
        f"{archive}/job/3.txt: the reader ended with signal 6 (SIGABRT); "
        f"nothing after it in {archive} was read"
    )


def test_the_members_of_one_archive_are_read_at_once(tmp_path: Path) -> None:
    archive = _archive(tmp_path, "meet", "meet", "fine")
    run = import_paths([archive], tmp_path / "runs")
    assert _run_info(run)["problems"] == []
    assert _ranks(run) == [0, 1, 2]


@pytest.mark.parametrize("is_archive", [False, True])
def test_what_was_read_is_not_lost_with_the_process_that_shows_it(
    tmp_path: Path, is_archive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importer, "_SHOWN_FROM_BYTES", 0)
    (tmp_path / "1.txt").write_text("planted 777 fine")
    (tmp_path / "2.txt").write_text("planted 2 fine")
    given = [tmp_path / "1.txt", tmp_path / "2.txt"]
    if is_archive:
        given = [tmp_path / "all.tar"]
        with tarfile.open(given[0], "w") as tar:
            for number in (1, 2):
                tar.add(tmp_path / f"{number}.txt", f"{number}.txt")
    run = import_paths(given, tmp_path / "runs")
    assert _ranks(run) == [2, 777]
    assert _run_info(run)["problems"] == []


def test_nothing_but_bad_files_is_one_sentence(tmp_path: Path) -> None:
    folder = _planted(tmp_path / "in", "crash", "crash")
    with pytest.raises(UserError, match=r"0\.txt: the reader ended with signal 6 .*and 1 more"):
        import_paths([folder], tmp_path / "runs")
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_crash_while_putting_together_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "666.txt"
    path.write_text("planted 666 fine")
    with pytest.raises(UserError, match=r"what was read could not be put together: .* signal 6"):
        import_paths([path], tmp_path / "runs")
    assert list((tmp_path / "runs").iterdir()) == []


def test_formats_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    folder = _planted(tmp_path / "in", "fine")
    (folder / "meta.yaml").write_text("dp_size: 1\npp_size: 1\ntp_size: 1\n")
    with pytest.raises(UserError, match="import each format by itself"):
        import_paths([folder], tmp_path / "runs")


def test_a_process_that_does_not_start_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [sys.executable, "-c", "raise SystemExit('it is broken')"]
    monkeypatch.setattr(pool, "worker_command", lambda: command)
    with pytest.raises(UserError, match=r"could not be started: it is broken$"):
        import_paths([_planted(tmp_path / "in", "fine")], tmp_path / "runs")


@pytest.mark.parametrize("error", [KeyboardInterrupt, UserError])
def test_cancelling_ends_processes_at_once(tmp_path: Path, error: type[BaseException]) -> None:
    folder = _planted(tmp_path / "in", "hang", "hang", "hang")
    seen: list[str] = []

    def stop(_done: int, _total: int) -> None:
        if seen:
            raise error("stop")

    before = _children()
    begun_s = time.monotonic()
    with pytest.raises(error):
        import_paths([folder], tmp_path / "runs", stop, on_file=seen.append)
    assert time.monotonic() - begun_s < 300  # the readers would sleep for 600 s
    assert _children() == before
    assert list((tmp_path / "runs").iterdir()) == []


def test_progress_counts_bytes_and_files(tmp_path: Path) -> None:
    folder = _planted(tmp_path / "in", *["fine"] * 5)
    total = sum(path.stat().st_size for path in folder.iterdir())
    seen: list[tuple[int, int]] = []
    names: list[str] = []
    import_paths([folder], tmp_path / "runs", lambda *now: seen.append(now), on_file=names.append)
    assert seen == sorted(seen)
    assert seen[0] == (0, total)
    assert seen[-1] == (total, total)
    assert {Path(name).parent for name in names} == {folder}


def test_progress_counts_bytes_as_they_lie_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "0.txt.gz"
    path.write_bytes(gzip.compress(b"planted 0 fine" + b" " * 10**6))
    seen: list[tuple[int, int]] = []
    import_paths([path], tmp_path / "runs", lambda *now: seen.append(now))
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)


def test_processes_end_with_the_one_that_imports(tmp_path: Path) -> None:
    """Even where that is killed, so that it can end nothing itself."""
    folder = _planted(tmp_path / "in", "spin")
    program = (
        "import sys; from ingest.imports import importer, pool\n"
        f"pool.worker_command = lambda: [sys.executable, '-P', {str(WORKER)!r}]\n"
        f"importer.import_paths([{str(folder)!r}], {str(tmp_path / 'runs')!r},"
        " on_file=lambda name: print(name, flush=True))"
    )
    importing = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert importing.stdout is not None
    assert importing.stdout.readline().strip().endswith(b"0.txt")
    children = Path(f"/proc/{importing.pid}/task/{importing.pid}/children").read_text().split()
    assert len(children) == 1
    importing.kill()
    importing.wait()
    importing.stdout.close()
    until_s = time.monotonic() + 60
    while Path(f"/proc/{children[0]}/stat").exists() and time.monotonic() < until_s:
        time.sleep(0.05)
    try:
        os.kill(int(children[0]), 0)
    except ProcessLookupError:
        return
    os.kill(int(children[0]), signal.SIGKILL)
    raise AssertionError("a reader lives on")


def test_what_a_killed_import_left_is_removed_by_the_next(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    killed, going_on = runs / ".import-killed", runs / ".import-going-on"
    for folder in (killed, going_on):
        (folder / "reading").mkdir(parents=True)
    with OwnerLock(going_on / "reading") as lock:
        lock.acquire()
        for folder in (killed, going_on):
            os.utime(folder, (0, 0))
        run = import_paths([_planted(tmp_path / "in", "fine")], runs)
    assert {path.name for path in runs.iterdir()} == {run.name, going_on.name}
