"""Archives that want to write, to follow, to unfold without end: nothing of it happens."""

from __future__ import annotations

import gzip
import io
import json
import stat
import struct
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from ingest import streams
from ingest.errors import UserError
from ingest.imports.importer import import_paths
from ingest.limits import Limits, limits
from ingest.readers.parsing import archives, sources
from tests.folders import NO_TRACES, TRACES
from tests.reader_results import Imported

EVENT = {"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1.5, "dur": 2}


def trace(rank: int) -> bytes:
    info = {"rank": rank, "world_size": 2}
    return json.dumps(
        {
            "schemaVersion": 1,
            "distributedInfo": info,
            "traceEvents": [EVENT],
            "baseTimeNanoseconds": 5,
        }
    ).encode()


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> Limits:
    """Limits a small file meets."""
    small = Limits(max_files=3, max_inflation=10, inflated_free_mib=2)
    for module in (archives, sources, streams):
        monkeypatch.setattr(module, "limits", lambda: small)
    return small


def zipped(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def tarred(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w") as archive:
        for info, content in members:
            info.size = info.size or len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def info_of(name: str, kind: bytes = tarfile.REGTYPE, **more: object) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type = kind
    for key, value in more.items():
        setattr(found, key, value)
    return found


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_zip_of_traces_is_one_run(tmp_path: Path, runs: Path, method: int) -> None:
    members = {
        "x/rank-1.json.gz": gzip.compress(trace(1)),
        "x/rank-0.json": trace(0),
        "x/.hidden": b".",
    }
    run = Imported(zipped(tmp_path / "job.zip", members, method), into=runs)
    assert set(run.ranks) == {0, 1}
    assert run.problems == []


@pytest.mark.skipif(not TRACES.is_dir(), reason=NO_TRACES)
def test_a_zip_of_a_real_job_is_what_its_tar_is(tmp_path: Path, runs: Path) -> None:
    path = tmp_path / "dlrm8.zip"
    with (
        tarfile.open(TRACES / "kineto/dlrm8.tar.gz") as tar,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
    ):
        for member in tar:
            content = tar.extractfile(member)
            if content is not None:
                archive.writestr(member.name, content.read())
    run = Imported(path, into=runs)
    events = (3290, 3424, 3268, 3474, 3310, 3250, 3272, 3250)
    assert run.info["events_per_rank"] == {str(rank): n for rank, n in enumerate(events)}
    assert run.problems == []


NAMES = [
    "../../canary",
    "/canary",
    "a/../../../canary",
    "C:\\canary",
    "x\x1b[2J\ncanary",
    "n" * 5000,
]


def test_names_lead_nowhere(tmp_path: Path, runs: Path) -> None:
    inside = tmp_path / "deep" / "deeper"
    inside.mkdir(parents=True)
    members = dict.fromkeys(NAMES, b"no trace") | {"rank-0.json": trace(0)}
    zipped(inside / "a.zip", members)
    tarred(inside / "b.tar", *[(info_of(name), b"no trace") for name in NAMES])
    run = Imported(inside, into=runs)
    assert set(run.ranks) == {0}
    assert len(run.problems) == 2 * len(NAMES)
    assert all(problem.isprintable() and len(problem) < 1500 for problem in run.problems)
    assert not list(tmp_path.rglob("*canary*"))
    assert not Path("/canary").exists()


def test_links_devices_and_sparse_files_are_reported_not_followed(
    tmp_path: Path, runs: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(trace(7))
    path = tarred(
        tmp_path / "a.tar",
        (info_of("soft", tarfile.SYMTYPE, linkname=str(secret)), b""),
        (info_of("hard", tarfile.LNKTYPE, linkname="soft"), b""),
        (info_of("fifo", tarfile.FIFOTYPE), b""),
        (info_of("device", tarfile.CHRTYPE, devmajor=1, devminor=5), b""),
        (info_of("folder", tarfile.DIRTYPE), b""),
        (info_of("rank-0.json"), trace(0)),
    )
    link = zipfile.ZipInfo("soft")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        archive.writestr(link, str(secret))
        archive.writestr("rank-1.json", trace(1))
    run = Imported(path, tmp_path / "b.zip", into=runs)
    assert set(run.ranks) == {0, 1}
    problems = [problem.rpartition("/")[2] for problem in run.problems]
    assert problems == [
        "soft: is a link inside an archive, left out",
        "hard: is a link inside an archive, left out",
        "fifo: is not a regular file inside an archive, left out",
        "device: is not a regular file inside an archive, left out",
        "soft: is a link inside an archive, left out",
    ]


BLANKS = b" " * (64 << 20)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("kind", ["gz", "zip", "tar.gz"])
def test_bombs_end_where_no_trace_would(
    tmp_path: Path, runs: Path, few: Limits, kind: str, layers: int
) -> None:
    bomb = trace(0)[:-1] + b"," + BLANKS
    for _ in range(layers):
        bomb = gzip.compress(bomb, 9)
    path = tmp_path / f"rank-0.{kind}"
    if kind == "gz":
        path.write_bytes(bomb)
    elif kind == "zip":
        zipped(path, {"rank-0.json.gz": bomb})
    else:
        tarred(path, (info_of("rank-0.json.gz"), bomb))
        path.write_bytes(gzip.compress(path.read_bytes()))
    tracemalloc.start()
    if layers == 1:
        run = Imported(path, into=runs)
        assert any("unfolds to more than 2 MiB, as no trace of its size" in p for p in run.problems)
        assert run.table("spans").num_rows == 1
    else:
        with pytest.raises(UserError, match="a gzip inside another gzip"):
            import_paths([path], runs)
    assert tracemalloc.get_traced_memory()[1] < 64 << 20
    tracemalloc.stop()


def test_a_zip_that_names_one_member_many_times(tmp_path: Path, runs: Path, few: Limits) -> None:
    """Overlapping members: a small file whose parts unfold again and again."""
    path = zipped(tmp_path / "a.zip", {"rank-0.json": trace(0), "z": BLANKS[: 1 << 20]})
    data = path.read_bytes()
    directory = data.rfind(b"PK\x01\x02")
    entry, end = data[directory : data.rfind(b"PK\x05\x06")], data[data.rfind(b"PK\x05\x06") :]
    first = data.find(b"PK\x01\x02")
    body = data[first:directory] + entry * 9
    sizes = struct.pack("<HHII", 10, 10, len(body), first)
    path.write_bytes(data[:first] + body + end[:8] + sizes + end[20:])
    run = Imported(path, into=runs)
    assert set(run.ranks) == {0}
    assert any("more files than RANKSCOPE_MAX_FILES=3" in problem for problem in run.problems)


@pytest.mark.parametrize("kind", ["zip", "tar", "folder"])
def test_more_files_than_allowed(tmp_path: Path, runs: Path, few: Limits, kind: str) -> None:
    names = [f"rank-{rank}.json" for rank in range(6)]
    path = tmp_path / f"a.{kind}"
    if kind == "zip":
        zipped(path, {name: trace(rank) for rank, name in enumerate(names)})
    elif kind == "tar":
        tarred(path, *[(info_of(name), trace(rank)) for rank, name in enumerate(names)])
    else:
        path.mkdir()
        for rank, name in enumerate(names):
            (path / name).write_bytes(trace(rank))
    run = Imported(path, into=runs)
    assert set(run.ranks) == {0, 1, 2}
    assert any("RANKSCOPE_MAX_FILES=3" in problem for problem in run.problems)


def test_a_header_that_claims_gigabytes(tmp_path: Path, runs: Path) -> None:
    huge = info_of("pax", tarfile.XHDTYPE)
    huge.size = (1 << 33) - 1
    path = tmp_path / "a.tar.gz"
    good = info_of("rank-0.json")
    good.size = len(trace(0))
    block = good.tobuf() + trace(0).ljust(512, b"\0")
    path.write_bytes(gzip.compress(block + huge.tobuf() + b"\0" * (32 << 20)))
    tracemalloc.start()
    run = Imported(path, into=runs)
    assert tracemalloc.get_traced_memory()[1] < 64 << 20
    tracemalloc.stop()
    assert set(run.ranks) == {0}
    assert any("read only in part: a header claims" in p for p in run.problems), run.problems


@pytest.mark.parametrize("place", ["header", "end"])
def test_a_tar_damaged_in_the_middle_is_a_problem(tmp_path: Path, runs: Path, place: str) -> None:
    names = ["rank-0.json", "rank-1.json", "rank-2.json"]
    path = tarred(
        tmp_path / "a.tar", *[(info_of(name), trace(rank)) for rank, name in enumerate(names)]
    )
    data = bytearray(path.read_bytes())
    if place == "header":
        data[2 * 1024 + 5] ^= 0xFF
    path.write_bytes(data if place == "header" else data[: 2 * 1024])
    run = Imported(path, into=runs)
    assert set(run.ranks) == {0, 1}
    assert "a.tar: is damaged and was read only in part:" in run.problems[0]


def test_headers_nested_in_headers(tmp_path: Path, runs: Path) -> None:
    """Each long name makes tarfile look for the header behind it: 3,000 of them end its stack."""
    name = info_of("././@LongLink", tarfile.GNUTYPE_LONGNAME)
    name.size = 1
    good = info_of("rank-0.json")
    good.size = len(trace(0))
    data = good.tobuf() + trace(0).ljust(512, b"\0")
    path = tmp_path / "a.tar"
    path.write_bytes(data + (name.tobuf() + b"x".ljust(512, b"\0")) * 3000)
    run = Imported(path, into=runs)
    assert set(run.ranks) == {0}
    assert any("read only in part: maximum recursion depth" in p for p in run.problems), (
        run.problems
    )


def test_damaged_zips_keep_what_is_good(tmp_path: Path, runs: Path) -> None:
    path = zipped(tmp_path / "a.zip", {"rank-0.json": trace(0), "rank-1.json": trace(1) * 9})
    data = bytearray(path.read_bytes())
    second = data.rfind(b"PK\x03\x04")
    data[second + 60] ^= 0xFF
    path.write_bytes(data)
    run = Imported(path, into=runs)
    assert 0 in run.ranks
    assert any("rank-1.json" in problem for problem in run.problems)
    path.write_bytes(data[: len(data) - 60])
    cut = Imported(path, into=runs / "cut")
    assert list(cut.ranks) == [0]
    assert any("rank-1.json" in problem for problem in cut.problems)


def test_zips_that_cannot_be_read(tmp_path: Path, runs: Path) -> None:
    path = zipped(tmp_path / "a.zip", {"rank-0.json": trace(0)}, zipfile.ZIP_BZIP2)
    with pytest.raises(UserError, match="compressed with a method that rankscope does not read"):
        import_paths([path], runs)
    data = bytearray(zipped(path, {"rank-0.json": trace(0)}).read_bytes())
    data[data.rfind(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(UserError, match="is encrypted inside its archive"):
        import_paths([path], runs)
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, 0xF0000000, 0, 0)
    path.write_bytes(b"PK\x03\x04" + end)
    with pytest.raises(UserError, match="claims a directory of"):
        import_paths([path], runs)


def test_honest_archives_meet_no_limit() -> None:
    assert limits() == Limits()
    assert streams.Allowance(1 << 20).most_bytes == (256 + 200) << 20
    assert streams.Allowance(1 << 40).most_bytes == 64 << 30


class _Pipe(io.BytesIO):
    """Where one cannot go back: sizes stand behind the files."""

    def tell(self) -> int:
        raise io.UnsupportedOperation


@pytest.mark.parametrize("made", [io.BytesIO, _Pipe])
def test_a_zip_that_was_cut_off_keeps_what_is_whole(
    tmp_path: Path, runs: Path, made: type[io.BytesIO]
) -> None:
    stream = made()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for rank in (0, 1, 2):
            archive.writestr(f"job/rank-{rank}.json", trace(rank))
    whole = stream.getvalue()
    (tmp_path / "a.zip").write_bytes(whole[: whole.rindex(b"PK\x03\x04") + 60])
    run = Imported(tmp_path / "a.zip", into=runs)
    assert list(run.ranks) == [0, 1]
    assert "rank-2.json: cut off or damaged inside its archive" in run.problems[0]
    assert "a.zip: is a zip archive without its end: it was cut off" in run.problems[-1]


@pytest.mark.usefixtures("few")
def test_a_zip_bomb_without_its_end_is_left(tmp_path: Path, runs: Path) -> None:
    stream = _Pipe()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(".hidden", b"0" * (50 << 20))
        archive.writestr("rank-0.json", trace(0))
    (tmp_path / "a.zip").write_bytes(stream.getvalue()[:-30])
    with pytest.raises(UserError, match="without its end"):
        import_paths([tmp_path / "a.zip"], runs)
