"""Lines that belong together, of several writers at once."""

from __future__ import annotations

from pathlib import Path

from tests.ingest.readers.logs.log_files import TRACEBACK, column, imported_lines

LOG = "2026-04-13 16:50:00,125 - INFO - step"
CHAIN = (
    f"{TRACEBACK}\n\nThe above exception was the direct cause of the following exception:\n\n"
    f"{TRACEBACK.replace('RuntimeError', 'ValueError')}"
)


def test_tracebacks_of_several_ranks_line_by_line_in_turn(folder: Path, runs: Path) -> None:
    """Also where one of them never ends, since its rank died."""
    blocks = {1: TRACEBACK, 2: CHAIN, 3: TRACEBACK.rpartition("\n    main")[0]}
    parts = {rank: text.split("\n") for rank, text in blocks.items()}
    text = ""
    for number in range(max(map(len, parts.values()))):
        for rank, lines in parts.items():
            if number < len(lines):
                text += f"[rank{rank}]: {lines[number]}\n"
        text += f"[rank9]: {LOG} {number}\n"
    lines = imported_lines(folder, runs, {"a.log": text})
    kept = {line.rank: line for line in lines if line.rank != 9}
    assert {rank: line.text for rank, line in kept.items()} == blocks
    assert {line.level for line in kept.values()} == {"error"}
    assert {line.label for line in (kept[1], kept[2])} == {"device_assert"}
    assert sum(line.rank == 9 for line in lines) == max(map(len, parts.values()))


def test_tracebacks_one_after_the_other(folder: Path, runs: Path) -> None:
    text = f"{LOG} 1\n{TRACEBACK}\n{TRACEBACK} again\n{LOG} 2\n"
    lines = imported_lines(folder, runs, {"rank_0.log": text})
    assert column(lines, "line", "timed")[1:3] == [(2, "file"), (6, "file")]
    assert column(lines, "text")[1:3] == [TRACEBACK, f"{TRACEBACK} again"]


def test_a_logger_in_front_of_a_traceback(folder: Path, runs: Path) -> None:
    logged = f"2026-04-13 16:50:01,125 ERROR [train.py:7] {TRACEBACK}"
    lines = imported_lines(folder, runs, {"rank_0.log": f"{LOG} 1\n{logged}\n{LOG} 2\n"})
    assert column(lines, "text")[1] == logged
    assert column(lines, "line", "timed", "level", "label")[1:] == [
        (2, "own", "error", "device_assert"),
        (6, "own", "info", ""),
    ]


def test_a_traceback_of_a_writer_that_died_does_not_last(folder: Path, runs: Path) -> None:
    """Long afterwards another process writes as the same rank, with an indented line first."""
    others = "".join(f"[rank2]: {LOG} {n}\n" for n in range(3000))
    text = f'[rank1]: Traceback (most recent call last):\n{others}[rank1]:   File "x"\n'
    lines = imported_lines(folder, runs, {"a.log": text})
    assert column([line for line in lines if line.rank == 1], "line") == [1, 3002]


def test_a_traceback_without_end_is_cut(folder: Path, runs: Path) -> None:
    frames = "".join(f'  File "a.py", line {n}, in f\n    f()\n' for n in range(5000))
    text = f"Traceback (most recent call last):\n{frames}RecursionError: too deep\n"
    lines = imported_lines(folder, runs, {"rank_0.log": text})
    assert len(lines[0].text) <= 8192
    assert lines[-1].text == "RecursionError: too deep"


def test_rows_of_equals_signs_are_no_box(folder: Path, runs: Path) -> None:
    """Only that of torchrun, which says FAILED, is read to its end."""
    rule = "=" * 40
    text = (
        f"{rule}\nModel summary\n{rule}\n{LOG} 1\nERROR: bad\n{rule}\ntrain.py FAILED\nx\n{rule}\n"
    )
    lines = imported_lines(folder, runs, {"rank_0.log": text})
    assert column(lines, "text") == [
        rule,
        "Model summary",
        rule,
        f"{LOG} 1",
        "ERROR: bad",
        f"{rule}\ntrain.py FAILED\nx\n{rule}",
    ]
