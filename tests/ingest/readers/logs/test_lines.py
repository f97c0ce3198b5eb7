"""What becomes of single lines: progress bars, very long ones, damage, equal ones."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ingest.readers.logs.kinds import FIRST, LAST
from tests.ingest.readers.logs.log_files import column, imported_lines, lines_of, write_logs
from tests.reader_results import Imported
from trace_hooks.log_text.labels import label_of

LOG = "2026-04-13 16:50:00,125 - INFO - "


def test_a_progress_bar_that_rewrites_its_line(folder: Path, runs: Path) -> None:
    bar = "".join(f"\r train: {n}%|{'#' * (n // 10)}| {n}/100 " for n in range(101))
    text = f"{LOG}begin\n{bar}\x1b[0m\n{bar}\r\r\n\x1b[32m{LOG}end\x1b[0m\r\n"
    lines = imported_lines(folder, runs, {"rank_0.log": text})
    assert column(lines, "text", "count", "label") == [
        (f"{LOG}begin", 1, ""),
        (" train: 100%|##########| 100/100 ", 2, "progress"),
        (f"{LOG}end", 1, ""),
    ]


def test_a_bar_of_megabytes_has_its_last_state(folder: Path, runs: Path) -> None:
    states = (f"\r step {n} of 200000, loss {n % 7}.25" for n in range(1, 200_001))
    (line, end) = imported_lines(folder, runs, {"rank_0.log": "".join(states) + f"\n{LOG}end"})
    assert (line.text, line.line) == (" step 200000 of 200000, loss 3.25", 1)
    assert (end.line, end.timed) == (2, "own")


def test_a_line_of_a_million_characters(folder: Path, runs: Path) -> None:
    """Quickly, and the number of the next line is right."""
    begun_s = time.process_time()
    text = f"{LOG}{'x' * 10**6}\n{'y ' * 3_000_000}\n{LOG}{'1' * 10**6}\n{LOG}end\n"
    lines = imported_lines(folder, runs, {"rank_0.log": text})
    assert time.process_time() - begun_s < 10
    assert column(lines, "line") == [1, 2, 3, 4]
    assert [len(line.text) for line in lines[:3]] == [2048, 2048, 2048]
    assert lines[3].text == f"{LOG}end"


def test_bytes_that_are_no_text(folder: Path, runs: Path) -> None:
    """Invalid UTF-8, and blocks of NUL as a crash leaves them, also in front of everything."""
    text = (
        b"\0" * 5000
        + f"{LOG}caf\xe9 ".encode("latin-1")
        + f"caf\xe9\n{LOG}a\n".encode()
        + b"\0" * 70_000
        + f"\n{LOG}b".encode()
    )
    lines = imported_lines(folder, runs, {"node": text})
    assert column(lines, "text") == [f"{LOG}caf\ufffd caf\xe9", f"{LOG}a", f"{LOG}b"]


def test_utf_16(folder: Path, runs: Path) -> None:
    (line,) = imported_lines(folder, runs, {"a.log": f"{LOG}caf\xe9\r\n".encode("utf-16")})
    assert line.text == f"{LOG}caf\xe9"


def test_equal_lines_in_a_row_are_one(folder: Path, runs: Path) -> None:
    text = f"{LOG}a\n{LOG}a\n\n  \n{LOG}a\n{LOG}b\n{LOG}a\n"
    lines = imported_lines(folder, runs, {"rank_0.log": text})
    assert column(lines, "line", "count") == [(1, 3), (6, 1), (7, 1)]


def test_lines_without_a_time_have_that_of_the_line_before(folder: Path, runs: Path) -> None:
    text = f"first\n{LOG}a\nsecond\n[rank0]: third\n"
    lines = imported_lines(folder, runs, {"rank_0.log": text})
    assert column(lines, "timed") == ["none", "own", "file", "file"]
    assert len(set(column(lines[1:], "ts_ns"))) == 1


def test_usual_lines_are_kept_from_both_ends(folder: Path, runs: Path) -> None:
    """Numbers of any length, and hexadecimal ids, do not make them differ; the error counts."""
    count = 3 * FIRST + LAST
    steps = [f"{LOG}step {n} loss {n / 7:.3f} id {n * 7919:012x}" for n in range(count)]
    steps.insert(2 * FIRST, f"{LOG.replace('INFO', 'ERROR')}step {2 * FIRST} failed")
    run = Imported(write_logs(folder, {"rank_0.log": "\n".join(steps)}), into=runs)
    lines = lines_of(run)
    numbers = column([line for line in lines if line.level != "error"], "line")
    assert numbers == [*range(1, FIRST + 1), *range(count + 2 - LAST, count + 2)]
    (error,) = [line for line in lines if line.level == "error"]
    assert error.line == 2 * FIRST + 1
    assert any(f"{count - FIRST - LAST:,} lines that differ" in guess for guess in run.guesses)


def test_numbers_may_decide_what_a_line_means(folder: Path, runs: Path) -> None:
    """Of many lines that are equal but for digits, each is judged by its own."""
    text = "".join(f"NVRM: Xid (PCI:0000:cb:00): {code}, pid=1\n" for code in (13, 13, 79, 48))
    lines = imported_lines(folder, runs, {"kern.log": text})
    assert column(lines, "label") == ["xid_13", "xid_79", "xid_48"]


def test_what_many_lines_mean_is_settled(
    folder: Path, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless they varied, further lines are not looked at, which takes most of the time."""
    monkeypatch.setattr("ingest.readers.logs.kinds.SURE_AFTER", 10)
    xids = "".join(f"NVRM: Xid (PCI:0000:cb:00): {code}, pid=1\n" for code in (*([13] * 9), 79, 48))
    lines = imported_lines(folder, runs, {"kern.log": xids})
    assert column(lines, "label") == ["xid_13", "xid_79", "xid_48"]
    bars = "".join(f"{n}%|##| {n}/99\n" for n in range(10, 99))
    (folder / "kern.log").write_text(bars)
    texts: list[str] = []

    def looked_at(text: str) -> str:
        texts.append(text)
        return label_of(text)

    monkeypatch.setattr("ingest.readers.logs.log_file.label_of", looked_at)
    assert set(column(imported_lines(folder, runs, {}), "label")) == {"progress"}
    assert len(texts) == 10


def test_errors_are_all_kept(folder: Path, runs: Path) -> None:
    text = "".join(f"{LOG}ERROR sample {n} is damaged\n" for n in range(2000))
    assert len(imported_lines(folder, runs, {"rank_0.log": text.replace("INFO - ", "")})) == 2000


@pytest.mark.parametrize("word", ["INFO", "ERROR"])
def test_lines_of_always_new_words_stay_bounded(
    folder: Path, runs: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    """Kinds beyond the most are counted, not kept."""
    monkeypatch.setattr("ingest.readers.logs.kinds.MOST_KINDS", 50)
    monkeypatch.setattr("ingest.readers.logs.kinds.MOST_OTHER_ERRORS", 100)
    names = ("".join("abcdefghij"[int(digit)] for digit in f"{n:05}") for n in range(3000))
    text = "".join(f"{word}: {name} over\n" for name in names)
    run = Imported(write_logs(folder, {"rank_0.log": text}), into=runs)
    num_kept = run.table("log_lines").num_rows
    assert num_kept < 1000
    assert any(f"{3000 - num_kept:,} lines" in guess for guess in run.guesses)
