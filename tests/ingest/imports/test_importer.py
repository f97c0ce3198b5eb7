"""Importing: what is recognised, refused, repeated and cleaned up."""

from __future__ import annotations

import gc
import gzip
import hashlib
import io
import json
import pickle  # noqa: TID251  # to make a snapshot
import sqlite3
import tarfile
import zipfile
from pathlib import Path

import pytest

from ingest.errors import UserError
from ingest.imports.importer import import_paths, open_any
from ingest.limits import limits
from ingest.readers import FORMATS, reader_of, readers
from ingest.readers.base import Format, Sink
from ingest.readers.parsing import sources
from ingest.readers.tables.rows import rank_info
from ingest.readers.tables.staged_rows import StagedRows
from ingest.readers.unsupported import what_it_is
from ingest.run_folder.content_hash import content_hash

TRACE = (
    '{"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": ['
    '{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1.5, "dur": 2}'
    '], "baseTimeNanoseconds": 1719853884000000000}'
)


def _file(tmp_path: Path, content: str | bytes, name: str = "rank-0.json") -> Path:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_every_format_has_a_reader_of_its_name() -> None:
    assert tuple(reader.FORMAT.name for reader in readers()) == FORMATS


def test_a_run_records_where_it_is_from(tmp_path: Path, runs: Path) -> None:
    path = _file(tmp_path, TRACE)
    folder = import_paths([path], runs)
    info = json.loads((folder / "run.json").read_text())
    assert folder.parent == runs
    digest = hashlib.blake2b(TRACE.encode()).digest()
    assert folder.name == info["run"] == f"rank-0-{content_hash([digest])}"
    source = f"{path} ({len(TRACE)} bytes, blake2b {digest.hex()[:16]})"
    assert info["provenance"][0] == source
    assert info["source"] == "kineto"


def test_the_same_content_is_imported_once(tmp_path: Path, runs: Path) -> None:
    first = import_paths([_file(tmp_path, TRACE)], runs)
    read: list[int] = []
    renamed = _file(tmp_path, TRACE, "rank-0-copy.json")
    assert import_paths([renamed], runs, lambda done, _: read.append(done)) == first
    assert read == []
    other = import_paths([_file(tmp_path, TRACE + " ")], runs, name="another: name/../x")
    assert other.name.startswith("another-name-..-x-")
    assert sorted(path.name for path in runs.iterdir()) == sorted([first.name, other.name])


def test_progress_ends_with_every_byte_read(tmp_path: Path, runs: Path) -> None:
    path = _file(tmp_path, TRACE)
    seen: list[tuple[int, int]] = []
    import_paths([path], runs, lambda done, total: seen.append((done, total)))
    assert seen[-1] == (len(TRACE), len(TRACE))
    assert seen == sorted(seen)


@pytest.mark.parametrize("error", [KeyboardInterrupt, UserError])
def test_an_interrupted_import_leaves_nothing(
    tmp_path: Path, runs: Path, error: type[BaseException]
) -> None:
    def stop(_done: int, _total: int) -> None:
        raise error("stop")

    with pytest.raises(error):
        import_paths([_file(tmp_path, TRACE)], runs, stop)
    assert list(runs.iterdir()) == []


def test_detection_goes_by_content(tmp_path: Path) -> None:
    path = _file(tmp_path, TRACE, "holiday.jpeg")
    (source,) = sources.sources([path], lambda _: None)
    reader = reader_of(source)
    assert reader is not None
    assert reader.FORMAT.name == "kineto"


def test_formats_are_not_mixed(tmp_path: Path, runs: Path) -> None:
    _file(tmp_path, TRACE)
    _file(tmp_path, "dp_size: 1\npp_size: 1\ntp_size: 1\n", "meta.yaml")
    with pytest.raises(UserError, match="import each format by itself"):
        import_paths([tmp_path], runs)


def _sqlite(tmp_path: Path) -> bytes:
    path = tmp_path / "made.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE kernels (name)")
    connection.commit()
    connection.close()
    return path.read_bytes()


def _tar(content: bytes) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        member = tarfile.TarInfo("rank-0.json")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return made.getvalue()


def _zip_of(content: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("inner.tar", content)
    return made.getvalue()


LOOKALIKES = {
    "an empty file": b" \n",
    "a Python pickle, which could run code and is not opened": b"\x80\x04\x95\x10cos\nsystem",
    "a zip archive inside another file (unpack it first)": gzip.compress(b"PK\x03\x04...."),
    "a gzip inside another gzip (unpack it first)": gzip.compress(gzip.compress(b"{}")),
    "compressed with xz (decompress it first)": b"\xfd7zXZ\0\0",
    "a report of Nsight Compute, which describes single kernels only": b"NVR\0\x08\0\0\0",
    "a recording of Linux perf, which holds samples and no operations": b"PERFILE2h\0\0\0",
    "a PyTorch execution trace (operators without GPU times), not a profiler trace": (
        b'{\n "schema": "1.1.0-chakra.0.0.4", "pid": 1, "nodes": [{"id": 2}]}'
    ),
    "a PyTorch memory timeline, which holds no operations": b"[[-1, 1, 37888, 7], [-1, 1, 5, 7]]",
    "JSON with events of a Chrome trace, but not where a trace has them": (
        b'{"x": [{"name": "x", "ph": "B", "ts": 1}]}'
    ),
    "a file of JSON lines": b'{"step": 1}\n{"step": 2}\n',
    "JSON, but not a trace": b'{"a": 1}',
    "a speedscope profile": (
        b'{"$schema": "https://www.speedscope.app/file-format-schema.json", "profiles": []}'
    ),
    "a tar archive inside another file (unpack it first)": _zip_of(_tar(b"x")),
    "a pointer of Git LFS, not the file itself (`git lfs pull` fetches it)": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n"
    ),
    "an HTML page, perhaps a login page": b"\n<!DOCTYPE html><html><body>",
    "a Chakra execution trace (operators without GPU times): import the profiler trace that it was "
    "made from (`chakra_jsonizer --input_filename FILE --output_filename FILE.json` only shows it "
    "as JSON)": (b"\x07\x0a\x050.0.4\x0a\x08\x01\x12\x04root\x18\x01"),
    "a file of TensorBoard events that is damaged at its beginning": (
        b"\x18\0\0\0\0\0\0\0\xa3\x7fK\xff\x09\0\0\xc0\x12\x11\xa2\xd8A\x1a\rbrain.Event:2ec"
    ),
    "a native Perfetto trace (convert it with `traceconv json FILE OUTPUT`)": b"\x0a\x04\x32\x02ab"
    * 5,
    "a profile of JAX or TensorFlow (XPlane): import the trace.json.gz next to it, or what Python "
    'gives for `xprof.convert.raw_to_tool_data.xspace_to_tool_data([FILE], "trace_viewer", {})`': (
        b"\x0a\xff\xff\x7f\x08\x01\x12\x10/device:TPU:0\0\0\0"
    ),
    "a PyTorch memory snapshot, which says what was allocated but not when operations ran (look at "
    "it with `python -m torch.cuda._memory_viz trace_plot FILE -o memory.html`)": (
        pickle.dumps({"segments": [{"address": 1, "segment_type": "large"}], "device_traces": []})
    ),
    "a pprof profile, which holds samples and no operations": (
        b"\x0a\x04\x08\x01\x10\x02\x12\x04\x0a\x02\x01\x02"
    ),
    "plain text, neither a trace nor a log": b"The run was slow.\nWe restarted it at noon.\n",
    "in a format that rankscope does not know": b"\x00\x00\x00\x01",
}


@pytest.mark.parametrize("name", LOOKALIKES)
def test_lookalikes_are_called_what_they_are(tmp_path: Path, runs: Path, name: str) -> None:
    path = _file(tmp_path, LOOKALIKES[name], "rank-0.json")
    (source,) = sources.sources([path], lambda _: None)
    assert what_it_is(source) == name
    with pytest.raises(UserError) as caught:
        import_paths([path], runs)
    assert name in str(caught.value)
    assert list(runs.iterdir()) == []


def test_what_can_be_read_is_listed_in_words(tmp_path: Path, runs: Path) -> None:
    path = _file(tmp_path, b"The run was slow.", "rank-0.json")
    with pytest.raises(UserError) as caught:
        import_paths([path], runs)
    _, _, listed = str(caught.value).partition("rankscope reads run folders and these ")
    titles = ", ".join(reader.FORMAT.title for reader in readers())
    assert listed == f"formats: {titles}"
    assert "PyTorch Flight Recorder" in titles
    assert "_trace" not in titles


def test_databases_are_called_databases(tmp_path: Path, runs: Path) -> None:
    path = _file(tmp_path, _sqlite(tmp_path), "rank-0.json")
    with pytest.raises(UserError, match="is a SQLite database"):
        import_paths([path], runs)


def test_run_folders_are_opened_as_they_lie(tmp_path: Path, runs: Path) -> None:
    folder = import_paths([_file(tmp_path, TRACE)], runs)
    for path in (folder, runs):
        with open_any(path) as run:
            assert run.folder == folder
    with pytest.raises(UserError, match="is a run folder already"):
        import_paths([folder], runs)
    import_paths([_file(tmp_path, TRACE + " ")], runs)
    with pytest.raises(UserError, match="holds 2 runs; name one"):
        open_any(runs)


def test_anything_else_is_imported_for_now(tmp_path: Path) -> None:
    with open_any(_file(tmp_path, TRACE)) as run:
        assert run.info["source"] == "kineto"
        assert run.sql("SELECT name, dur_ns FROM spans").to_pylist() == [
            {"name": "a", "dur_ns": 2000}
        ]
        temporary = run.folder.parent
    assert temporary.is_dir()
    del run
    gc.collect()
    assert not temporary.exists()


def test_a_place_that_cannot_be_written_is_the_users_to_change(tmp_path: Path) -> None:
    blocked = _file(tmp_path, "x", "blocked")
    with pytest.raises(UserError, match="cannot be written"):
        import_paths([_file(tmp_path, TRACE)], blocked)


class _Fails:
    """A reader of files that begin with `boom`: it fails on those that say so, and at the end."""

    FORMAT = Format("boom", "boom")

    def __init__(self, error: Exception, at_the_end: bool = False) -> None:
        self._error, self._at_the_end = error, at_the_end

    def recognises(self, source: sources.Source) -> bool:
        if source.head.startswith(b"puzzle"):
            raise self._error
        return source.head.startswith(b"boom")

    def Import(self, sink: Sink) -> _Fails:
        self._sink = sink
        return self

    def read(self, source: sources.Source, _staged: StagedRows) -> int:
        if b"bad" in source.head:
            raise self._error
        return int(source.head.split()[1])

    def add_file(self, found: int) -> None:
        self._sink.add_rank(rank_info(found))

    def finish(self) -> None:
        if self._at_the_end:
            raise self._error


ERRORS = [RecursionError(), MemoryError(), KeyError("x"), ValueError("a\nb\x1b[2J"), OSError("x")]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("at_the_end", [False, True])
def test_a_reader_that_fails_costs_one_file(
    tmp_path: Path, runs: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, at_the_end: bool
) -> None:
    reader = _Fails(error, at_the_end)
    monkeypatch.setattr("ingest.readers.readers", lambda: [reader])
    for name, content in (("a", "boom 0"), ("b", "boom 1 bad"), ("c", "boom 2"), ("d", "puzzle")):
        _file(tmp_path, content, f"in-{name}")
    folder = import_paths(sorted(tmp_path.glob("in-*")), runs)
    assert len(list((folder / "ranks").iterdir())) == 2
    problems = json.loads((folder / "run.json").read_text())["problems"]
    problem = f"failed on it ({type(error).__name__}"
    if isinstance(error, MemoryError):
        problem = "needed more than 4,096 MiB of memory; raise RANKSCOPE_MAX_READER_MIB"
    assert f"{tmp_path}/in-b: the boom reader {problem}" in problems[0]
    assert f"{tmp_path}/in-d: recognising its format {problem}" in problems[1]
    assert len(problems) == 2 + at_the_end
    assert all(problem.isprintable() for problem in problems)


def test_a_users_mistake_still_ends_the_import(
    tmp_path: Path, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.readers.readers", lambda: [_Fails(UserError("two traces"))])
    with pytest.raises(UserError, match="two traces"):
        import_paths([_file(tmp_path, "boom 1 bad")], runs)
    assert list(runs.iterdir()) == []


def test_a_full_disk_is_no_fault_of_the_file(
    tmp_path: Path, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ingest.run_folder.run_writer.publish_table", full)
    with pytest.raises(
        UserError, match=r"cannot be written \(No space left on device\); make room"
    ):
        import_paths([_file(tmp_path, TRACE)], runs)
    assert list(runs.iterdir()) == []


def test_sentences_are_single_lines_and_not_endless(
    tmp_path: Path, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.run_folder.run_writer._MOST_SENTENCES", 3)
    for number in range(9):
        _file(tmp_path, f"no trace {number}", f"x{number}\x1b[2J\n")
    _file(tmp_path, TRACE, "y.json")
    folder = import_paths(sorted(tmp_path.iterdir()), runs)
    problems = json.loads((folder / "run.json").read_text())["problems"]
    assert problems[3] == "there are more of these, which are not listed"
    assert len(problems) == 4
    assert all(problem.isprintable() for problem in problems)


def test_ranks_no_job_has_are_refused(
    tmp_path: Path, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = _Fails(ValueError())
    monkeypatch.setattr("ingest.readers.readers", lambda: [reader])
    for name, content in (("a", "boom 0"), ("b", "boom 9000000")):
        _file(tmp_path, content, f"in-{name}")
    folder = import_paths(sorted(tmp_path.glob("in-*")), runs)
    info = json.loads((folder / "run.json").read_text())
    assert [path.name for path in (folder / "ranks").iterdir()] == ["0000-00000.json"]
    assert "rank 9000000 of -1 is beyond RANKSCOPE_MAX_RANKS=131072" in info["problems"][0]


@pytest.mark.parametrize(
    ("text", "message"), [("many", "is not a whole number"), ("0", "1 or more")]
)
def test_limits_are_settings(monkeypatch: pytest.MonkeyPatch, text: str, message: str) -> None:
    monkeypatch.setenv("RANKSCOPE_MAX_RANKS", "7")
    assert limits.__wrapped__().max_ranks == 7
    monkeypatch.setenv("RANKSCOPE_MAX_FILES", text)
    with pytest.raises(UserError, match=f"RANKSCOPE_MAX_FILES.*{message}"):
        limits.__wrapped__()
