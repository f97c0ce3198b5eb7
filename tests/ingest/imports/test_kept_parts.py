"""Parts between the processes of an import: claimed once, kept whole, few files however many."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from ingest.imports import pool
from ingest.imports.importer import import_paths
from ingest.imports.kept_parts import KeptParts, kept_parts
from ingest.imports.parts import Part, format_of, parts_of
from ingest.imports.time_zero import Starts
from ingest.readers.tables.staged_rows import StagedRows
from tests.hostile.files.test_archives import trace
from tests.hostile.fuzz.seeds import seeds

NUM = 50_000


def part(name: str) -> Part:
    return Part(name, "", StagedRows(Path("nowhere")))


def test_parts_come_in_the_order_of_files_and_members(tmp_path: Path) -> None:
    for folder in ("00000001", "00000000"):
        (tmp_path / folder).mkdir()
        with KeptParts(tmp_path / folder) as kept:
            for number in (2, 0, 1):
                kept.keep(part(f"{folder}/{number}"), number)
    names = [one.name for one in kept_parts(tmp_path)]
    assert names == [f"0000000{file}/{number}" for file in (0, 1) for number in (0, 1, 2)]


def test_a_part_that_a_killed_process_left_unfinished_is_dropped(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    with KeptParts(tmp_path / "0") as kept:
        kept.keep(part("whole"), 0)
        (path,) = (tmp_path / "0").glob("*.parts")
        whole = path.stat().st_size
        kept.keep(part("cut"), 1)
    content = path.read_bytes()
    for size in range(whole, len(content)):
        path.write_bytes(content[:size])
        assert [one.name for one in kept_parts(tmp_path)] == ["whole"]


@pytest.mark.parametrize("format_name", sorted(seeds()))
def test_what_every_reader_returns_can_be_kept(tmp_path: Path, format_name: str) -> None:
    staged, parts = tmp_path / "staged", tmp_path / "parts"
    staged.mkdir()
    (parts / "0").mkdir(parents=True)
    num_read = 0
    with KeptParts(parts / "0") as kept:
        for number, (name, content) in enumerate(seeds()[format_name]):
            (tmp_path / name).write_bytes(content)
            for _, one in parts_of(tmp_path / name, staged, lambda _: None, _is_mine):
                num_read += one.value is not None
                kept.keep(one, number)
    values = [one.value for one in kept_parts(parts)]
    assert sum(value is not None for value in values) == num_read > 0


def _is_mine(_number: int, _name: str) -> bool:
    return True


CLAIM = """
import sys
from pathlib import Path
from ingest.imports.kept_parts import KeptParts
with KeptParts(Path(sys.argv[1])) as kept:
    print([number for number in range(2000) if kept.claim(number)])
"""


def test_each_member_is_claimed_once_by_all_processes_together(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CLAIM, str(tmp_path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    claimed = [number for one in running for number in json.loads(one.communicate()[0])]
    assert sorted(claimed) == list(range(2000))
    with KeptParts(tmp_path) as kept:  # those processes have ended, and have had them
        assert not kept.claim(1999)
        assert kept.claim(2000)


def archive(path: Path, content: bytes) -> Path:
    members = [("rank-0.json", trace(0)), *((f"{n}.json", content) for n in range(NUM))]
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as packed:
            for name, held in members:
                packed.writestr(name, held)
        return path
    with tarfile.open(path, "w") as packed:
        for name, held in members:
            info = tarfile.TarInfo(name)
            info.size = len(held)
            packed.addfile(info, io.BytesIO(held))
    return path


@pytest.mark.long
@pytest.mark.parametrize(("name", "content"), [("a.tar", b""), ("a.zip", b"x")])
def test_an_archive_of_very_many_members(
    name: str, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seconds, as benchmarks.many_members shows; here that the work per member stays the same."""
    monkeypatch.delenv("RANKSCOPE_READ_HERE", raising=False)
    members, num_files = [], []

    def counted(found: object) -> str:
        members.append(1)
        return format_of(found)  # type: ignore[arg-type]

    together = pool.Pool.put_together

    def looked_at(own: pool.Pool, format_name: str, run: Path) -> object:
        num_files.append(sum(1 for _ in own._folder.rglob("*")))
        return together(own, format_name, run)

    monkeypatch.setattr(pool, "format_of", counted)
    monkeypatch.setattr(pool.Pool, "put_together", looked_at)
    run = import_paths([archive(tmp_path / name, content)], tmp_path / "runs")
    problems = json.loads((run / "run.json").read_text())["problems"]
    assert problems[0].endswith("0.json is an empty file, left out" if not content else "left out")
    assert len(problems) == 1001  # and how many more
    assert len(members) <= 4  # not once for each member
    assert num_files[0] < 20


def test_starts_are_known_as_soon_as_all_before_have_come() -> None:
    starts = Starts([10])
    starts.note(0, 2, 5)
    assert starts.first_ns is None
    starts.note(0, 0, None)
    assert starts.first_ns is None
    starts.note(0, 1, None)
    assert starts.first_ns == 5
    gaps = Starts([10])
    gaps.note(0, 3, 7)  # its process was lost with what stood before
    assert gaps.first_ns is None
    gaps.end(0)
    assert gaps.first_ns == 7
