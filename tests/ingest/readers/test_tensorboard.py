"""Event files: of a real SummaryWriter and of Lightning, and each kind of damage by hand."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from ingest.readers.parsing.crc32c import crc32c, masked_crc32c
from tests.folders import FRAMEWORK_FILES
from tests.reader_results import Imported

T_S = 1_700_000_000


def record(data: bytes) -> bytes:
    """One record of a TFRecord file."""
    length = struct.pack("<Q", len(data))
    crcs = [struct.pack("<I", masked_crc32c(part)) for part in (length, data)]
    return length + crcs[0] + data + crcs[1]


def field(number: int, value: bytes) -> bytes:
    """A field of bytes, shorter than 128."""
    return bytes([number << 3 | 2, len(value)]) + value


def scalar(tag: str, value: float, step: int, at_s: float = T_S) -> bytes:
    """An event with one scalar, as SummaryWriter writes it; `step`: below 128."""
    simple = field(1, tag.encode()) + b"\x15" + struct.pack("<f", value)
    return event(field(5, field(1, simple)), step, at_s)


def event(summary: bytes, step: int, at_s: float = T_S) -> bytes:
    """An event with a summary."""
    return record(b"\x09" + struct.pack("<d", at_s) + bytes([0x10, step]) + summary)


VERSION = record(b"\x09" + struct.pack("<d", T_S) + field(3, b"brain.Event:2"))


def events(*steps: int) -> bytes:
    """A file with losses, one second apart."""
    return VERSION + b"".join(scalar("loss", 4 - n / 4, n, T_S + n) for n in steps)


def imported(tmp_path: Path, runs: Path, **files: bytes) -> Imported:
    """An import of files by their names."""
    for name, content in files.items():
        path = tmp_path / "in" / name.replace("__", "/") / "events.out.tfevents.1.node1.7.0"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return Imported(tmp_path / "in", into=runs)


def test_the_checksum_is_the_one_of_the_standard() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def test_a_file_of_a_real_writer(runs: Path) -> None:
    run = Imported(FRAMEWORK_FILES / "writer.tfevents", into=runs)
    assert (run.info["source"], run.info["clock"]) == ("tensorboard", "absolute")
    rows = run.rows("steps", "step", "loss", "lr", "grad_norm", "dur_ns")
    assert rows == [(n, 5 - n / 2, pytest.approx(1e-4 * n), 1.5, 250_000_000) for n in range(1, 6)]
    assert run.problems == []
    assert any("other scalars were left out (lm loss vs samples)" in g for g in run.guesses)


def test_a_file_of_lightning_has_the_numbers_of_its_table(runs: Path) -> None:
    run = Imported(FRAMEWORK_FILES / "lightning.tfevents", into=runs)
    table = Imported(FRAMEWORK_FILES / "metrics.csv", into=runs)
    assert [
        (step, pytest.approx(loss) if loss is not None else None)
        for step, loss in table.rows("steps", "step", "loss")
    ] == run.rows("steps", "step", "loss")
    assert any("the time since the line before" in guess for guess in run.guesses)


def test_times_and_lengths_come_from_the_events(tmp_path: Path, runs: Path) -> None:
    run = imported(tmp_path, runs, run=events(1, 2, 4))
    s = 10**9
    assert run.rows("steps", "step", "start_ns", "dur_ns") == [
        (1, (T_S + 1) * s, 0),
        (2, (T_S + 1) * s, s),
        (4, (T_S + 3) * s, s),
    ]
    assert run.ranks[0]["host"] == "node1"


def test_files_of_a_folder_are_attempts_of_one_training(tmp_path: Path, runs: Path) -> None:
    (tmp_path / "in").mkdir()
    later = VERSION + scalar("loss", 9, 2, T_S + 50) + scalar("loss", 8, 3, T_S + 51)
    (tmp_path / "in" / "events.out.tfevents.1.a.1.0").write_bytes(later)
    (tmp_path / "in" / "events.out.tfevents.2.a.1.0").write_bytes(events(1, 2))
    run = Imported(tmp_path / "in", into=runs)
    assert run.rows("steps", "step", "loss") == [(1, 3.75), (2, 9.0), (3, 8.0)]
    assert run.rows("marks", "kind", "step") == [("restart", 2)]


def test_folders_of_ranks_are_ranks_and_other_folders_other_trainings(
    tmp_path: Path, runs: Path
) -> None:
    files = {"tb__rank_0": events(1), "tb__rank_3": events(1, 2), "other": events(5)}
    run = imported(tmp_path, runs, **files)
    assert run.rows("steps", "rank", "step") == [(0, 1), (3, 1), (3, 2)]
    assert "is of another training" in run.problems[0]


@pytest.mark.parametrize(
    ("damage", "steps", "problem"),
    [
        (lambda data: data[:-5], [1, 2], "cut off at byte"),
        (lambda data: data[: len(VERSION) + 4], [], "cut off at byte"),
        (lambda data: data[:-6] + b"\0" + data[-5:], [1, 2], "1 records with a wrong CRC"),
        (lambda data: data + b"\xff" * 20, [1, 2, 3], "the CRC of a record's length is wrong"),
        (lambda data: data + record(b"\xff" * 9), [1, 2, 3], "1 damaged events were left out"),
    ],
)
def test_of_a_damaged_file_what_is_whole_is_kept(
    tmp_path: Path, runs: Path, damage: object, steps: list[int], problem: str
) -> None:
    run = imported(tmp_path, runs, a__rank_0=damage(events(1, 2, 3)), a__rank_1=events(9))  # type: ignore[operator]
    assert [step for rank, step in run.rows("steps", "rank", "step") if rank == 0] == steps
    assert problem in run.problems[0]


def test_long_records_are_passed_over(tmp_path: Path, runs: Path) -> None:
    data = VERSION + record(b"\x09" + bytes(100_000)) + scalar("loss", 1, 1)
    assert imported(tmp_path, runs, run=data).rows("steps", "step") == [(1,)]


def test_scalars_of_tensorflow_are_tensors(tmp_path: Path, runs: Path) -> None:
    floats = {
        "loss": b"\x08\x01" + field(4, struct.pack("<f", 1.5)),
        "lr": b"\x08\x02" + field(6, struct.pack("<d", 0.25)),
        "grad_norm": b"\x08\x01" + field(4, struct.pack("<2f", 1, 2)),
    }
    data = VERSION
    for tag, tensor in floats.items():
        data += event(field(5, field(1, field(1, tag.encode()) + field(8, tensor))), 7)
    rows = imported(tmp_path, runs, run=data).rows("steps", "step", "loss", "lr", "grad_norm")
    assert rows == [(7, 1.5, 0.25, None)]


def test_logs_next_to_files_without_known_scalars_are_read(tmp_path: Path, runs: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "events.out.tfevents.1.a.1.0").write_bytes(
        VERSION + scalar("accuracy", 1, 1)
    )
    (tmp_path / "in" / "train.log").write_text("2026-01-01 00:00:00 step: 1  loss: 2.5\n")
    run = Imported(tmp_path / "in", into=runs)
    assert run.rows("log_lines", "text") == [("2026-01-01 00:00:00 step: 1  loss: 2.5",)]
    assert "has no loss, learning rate or speed by steps" in run.problems[0]
    assert any("takes its steps from one kind of files" in guess for guess in run.guesses)
