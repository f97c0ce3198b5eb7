"""Bundles become segments: once, whole, and whatever is wrong with them."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.index.bundles import bundles_of, unpack_bundles
from ingest.index.doctor import DAMAGED, NOT_INDEXED, examine, repair
from ingest.index.indexer import Indexer
from ingest.index.merging import publish_merged
from ingest.index.quarantine import Quarantine
from ingest.run import Run, open_run
from tests.runs_builder import RunBuilder
from trace_hooks.schema import TABLES, SegmentName
from trace_hooks.schema.bundles import BundleName, write_bundle

NAME = BundleName(0, 0, 1_000_000_000)


def heartbeats(*ranks: int) -> pa.Table:
    row: dict[str, Any] = {"attempt": 0, "step": 1, "ts_ns": 5, "phase": "step", "last_op": ""}
    row |= {"self_ns": 0, "dropped": 0, "hook_errors": 0}
    rows = [row | {"rank": rank} for rank in ranks]
    return pa.Table.from_pylist(rows, schema=TABLES["heartbeats"].schema)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    builder = RunBuilder(tmp_path / "run", 4)
    builder.step(0, 0, 0, 10)
    builder.publish()
    return builder.folder


def bundle(run: Path, name: BundleName = NAME, **tables: pa.Table) -> Path:
    path = run / "segments" / str(name)
    with path.open("xb") as file:
        write_bundle(file, name, tables or {"heartbeats": heartbeats(0, 1, 70)})
    return path


def archive(run: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as file:
        for name, data in members.items():
            file.writestr(name, data)
    path = run / "segments" / str(NAME)
    path.write_bytes(content.getvalue())
    return path


def segments(run: Path, table: str) -> list[Path]:
    return sorted((run / "segments").glob(f"{table}-*.parquet"))


def test_a_bundle_becomes_segments_of_a_band_of_ranks_each(run: Path) -> None:
    path = bundle(run)
    with Indexer(run) as indexer:
        indexer.refresh()
        assert not indexer.refresh().new_files
    assert not path.exists()
    ranks = [pq.read_table(file).column("rank").to_pylist() for file in segments(run, "heartbeats")]
    assert ranks == [[0, 1], [70]]
    with open_run(run) as opened:
        assert opened.sql("SELECT count(*) AS n FROM heartbeats").to_pylist() == [{"n": 3}]
        arrived = opened.index_rows("SELECT rank FROM arrivals ORDER BY rank")
        assert [row["rank"] for row in arrived] == [0, 1, 70]


def test_a_bundle_that_was_half_unpacked_gives_no_row_twice(run: Path) -> None:
    path = bundle(run)
    content = path.read_bytes()
    with Indexer(run) as indexer:
        indexer.refresh()
        segments(run, "heartbeats")[0].unlink()  # merged away, and known to the index
        path.write_bytes(content)  # it was not removed
        indexer.refresh()
    assert len(segments(run, "heartbeats")) == 1
    assert not path.exists()


def test_segments_are_as_old_as_their_bundle(run: Path) -> None:
    path = bundle(run)
    written_ns = path.stat().st_mtime_ns
    unpack_bundles(run, (), Quarantine(run))
    assert {file.stat().st_mtime_ns for file in segments(run, "heartbeats")} == {written_ns}


def test_what_is_sound_in_a_damaged_bundle_is_read(run: Path) -> None:
    steps = pq.read_table(segments(run, "steps")[0])
    path = bundle(run, steps=steps, heartbeats=heartbeats(0))
    content = bytearray(path.read_bytes())
    at = content.index(b"PAR1") + 10
    content[at] ^= 0xFF
    path.write_bytes(content)
    assert [trouble.what for trouble in examine(run, lambda *_: None).troubles] == [DAMAGED]
    repaired = repair(run, examine(run, lambda *_: None))
    assert repaired is not None
    assert not bundles_of(run)
    assert (repaired / path.name).exists()
    assert len(segments(run, "heartbeats")) == 1
    assert len(segments(run, "steps")) == 1
    with open_run(run) as opened:
        (problem,) = opened.problems
    assert "steps-0000-00000" in problem
    assert "Bad CRC-32" in problem


@pytest.mark.parametrize(
    ("members", "compression", "text"),
    [
        ({"../../evil.parquet": b""}, zipfile.ZIP_STORED, "no segment of it"),
        ({"run.json": b"{}"}, zipfile.ZIP_STORED, "no segment of it"),
        ({str(SegmentName("steps", 1, 0, 1)): b""}, zipfile.ZIP_STORED, "no segment of it"),
        ({str(SegmentName("steps", 0, 0, 1)): b"0" * 999}, zipfile.ZIP_DEFLATED, "compressed"),
    ],
)
def test_an_archive_that_no_collector_wrote_is_set_aside(
    run: Path, members: dict[str, bytes], compression: int, text: str
) -> None:
    path = archive(run, members, compression)
    before = sorted(run.rglob("*.parquet"))
    with Indexer(run) as indexer:
        indexer.refresh()
    assert (run / "quarantine" / path.name).exists()
    assert sorted(set(run.rglob("*.parquet")) - set((run / "index").rglob("*"))) == before
    with open_run(run) as opened:
        assert text in opened.problems[0]


def test_a_torn_archive_and_a_link_are_set_aside(run: Path) -> None:
    path = bundle(run)
    path.write_bytes(path.read_bytes()[:-30])
    path.with_name(str(BundleName(0, 0, 2_000_000_000))).symlink_to(path)
    with Indexer(run) as indexer:
        indexer.refresh()
    assert not bundles_of(run)
    with open_run(run) as opened:
        assert len(opened.problems) == 2


def test_the_doctor_says_what_is_not_unpacked(run: Path) -> None:
    with Indexer(run) as indexer:
        indexer.refresh()
    bundle(run)
    (trouble,) = examine(run, lambda *_: None).troubles
    assert trouble.what == NOT_INDEXED
    assert not trouble.is_lost


@pytest.fixture
def read_only(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run folder in which there can be no index: it goes to the cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (run / "index").write_text("in the way of a folder")
    return run


def num_heartbeats(opened: Run) -> list[int]:
    question = "SELECT count(*) AS n FROM heartbeats"
    by_sql = opened.sql(question).to_pylist()[0]["n"]
    return [by_sql, opened.execute(question, {}).to_pylist()[0]["n"]]


def test_a_run_folder_that_may_only_be_read_is_unpacked_next_to_its_index(read_only: Path) -> None:
    path = bundle(read_only)
    before = sorted(read_only.rglob("*"))
    with open_run(read_only) as opened:
        assert num_heartbeats(opened) == [3, 3]
        arrived = opened.index_rows("SELECT rank FROM arrivals ORDER BY rank")
        assert [row["rank"] for row in arrived] == [0, 1, 70]
        assert opened.problems == []
        opened.refresh()
        assert num_heartbeats(opened) == [3, 3]
    assert sorted(read_only.rglob("*")) == before
    assert path.exists()
    assert examine(read_only, lambda *_: None).is_sound


def test_rows_are_there_once_where_another_indexer_unpacks_and_merges_them(
    read_only: Path, tmp_path: Path
) -> None:
    path = bundle(read_only)
    with open_run(read_only) as opened:
        assert num_heartbeats(opened) == [3, 3]
        unpack_bundles(read_only, (), Quarantine(read_only))  # somebody who may write
        bundle(read_only, BundleName(0, 0, 2_000_000_000), heartbeats=heartbeats(2))
        opened.refresh()
        assert num_heartbeats(opened) == [4, 4]
        of_band = segments(read_only, "heartbeats")[0]
        (read_only / "compacted").mkdir()
        merged = read_only / "compacted" / "heartbeats-0000-band00000-1.parquet"
        publish_merged("heartbeats", [of_band], merged, [f"segments/{of_band.name}"])
        of_band.unlink()
        opened.refresh()
        assert num_heartbeats(opened) == [4, 4]
    assert not path.exists()


def test_damage_is_named_where_the_run_folder_may_only_be_read(read_only: Path) -> None:
    path = bundle(read_only)
    path.write_bytes(path.read_bytes()[:-30])
    with open_run(read_only) as opened:
        (problem,) = opened.problems
        opened.refresh()
        assert opened.problems == [problem]
    assert path.name in problem


def test_a_segment_that_is_said_to_lie_outside_of_its_bundle_is_damage(run: Path) -> None:
    path = archive(run, {str(SegmentName("heartbeats", 0, 0, NAME.number)): b"none"})
    content = path.read_bytes()
    at = content.index(b"PK\1\2")
    entry = bytearray(content[at : content.index(b"PK\5\6")])
    extra = struct.pack("<HHQ", 1, 8, 2**63 - 1)  # where the segment begins, in 64 bits
    struct.pack_into("<H", entry, 30, len(extra))
    struct.pack_into("<I", entry, 42, 0xFFFFFFFF)
    end = bytearray(content[content.index(b"PK\5\6") :])
    struct.pack_into("<I", end, 12, len(entry) + len(extra))
    path.write_bytes(content[:at] + entry + extra + end)
    unpack_bundles(run, set(), Quarantine(run))
    assert bundles_of(run) == []
    assert segments(run, "heartbeats") == []
