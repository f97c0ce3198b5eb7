"""The write-ahead ring: what is read back, what a torn record does, what a kill leaves."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pytest

from trace_hooks.recording.flight_ring import CAPACITY, Ring, read_ring


def write(ring: Ring, seq: int) -> None:
    ring.write(7, seq, "all_reduce", "float32", 4096, -1, -1, 3, 1000 + seq)


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    ring = Ring(tmp_path / "a.ring", start_ticks=2**40, clock_offset_ns=5, signal=40)
    for seq in range(3):
        write(ring, seq)
    ring.place("run", 1, 6, 8)
    ring.beat(99, 3, "step", "all_reduce")
    header, records = read_ring(ring.path)
    assert (header.run, header.attempt, header.rank, header.world_size) == ("run", 1, 6, 8)
    assert (header.beat_ns, header.step, header.phase, header.ended) == (99, 3, "step", False)
    assert (header.start_ticks, header.clock_offset_ns, header.signal) == (2**40, 5, 40)
    assert [(r.number, r.seq, r.time_ns, r.op, r.dtype) for r in records] == [
        (1 + seq, seq, 1000 + seq, "all_reduce", "float32") for seq in range(3)
    ]


def test_only_the_newest_are_kept_in_order(tmp_path: Path) -> None:
    ring = Ring(tmp_path / "a.ring", 1, 0)
    for seq in range(CAPACITY + 10):
        write(ring, seq)
    _, records = read_ring(ring.path)
    assert [r.seq for r in records] == list(range(10, CAPACITY + 10))


def test_a_torn_record_is_left_out(tmp_path: Path) -> None:
    ring = Ring(tmp_path / "a.ring", 1, 0)
    for seq in range(3):
        write(ring, seq)
    data = bytearray(ring.path.read_bytes())
    second = 256 + 2 * 128
    data[second + 120 : second + 128] = bytes(8)  # its end was never stored
    torn = tmp_path / "torn.ring"
    torn.write_bytes(data)
    assert [r.seq for r in read_ring(torn)[1]] == [0, 2]


def test_a_file_cut_short_still_gives_whole_records(tmp_path: Path) -> None:
    ring = Ring(tmp_path / "a.ring", 1, 0)
    for seq in range(5):
        write(ring, seq)
    cut = tmp_path / "cut.ring"
    cut.write_bytes(ring.path.read_bytes()[: 256 + 4 * 128 + 60])
    assert [r.seq for r in read_ring(cut)[1]] == [0, 1, 2]


def test_what_is_no_ring_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"hello" * 100)
    with pytest.raises(ValueError, match="not a ring"):
        read_ring(tmp_path / "x")


def test_no_bytes_bring_the_reader_down(tmp_path: Path) -> None:
    ring = Ring(tmp_path / "a.ring", 1, 0)
    write(ring, 1)
    whole = ring.path.read_bytes()[:2048]
    chance = random.Random(1)
    for number in range(300):
        data = bytearray(whole[: chance.randrange(len(whole))])
        for _ in range(chance.randrange(40)):
            if len(data) > 8:
                data[chance.randrange(8, len(data))] = chance.randrange(256)
        odd = tmp_path / "odd.ring"
        odd.write_bytes(data if number % 2 else data.ljust(256, b"\xff"))
        with suppress(ValueError):
            assert len(read_ring(odd)[1]) <= 16


def test_a_ring_is_recreated_for_its_user_only(tmp_path: Path) -> None:
    ring = Ring(tmp_path / "a.ring", 1, 0)
    assert ring.path.stat().st_mode & 0o777 == 0o600
    (tmp_path / "b.ring").symlink_to(tmp_path / "target")
    with pytest.raises(FileExistsError):
        Ring(tmp_path / "b.ring", 1, 0)
    assert not (tmp_path / "target").exists()


def test_a_full_memory_leaves_no_half_ring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(OSError, match="No space"):
        Ring(tmp_path / "a.ring", 1, 0)
    assert list(tmp_path.iterdir()) == []
