"""What launchers put in front of lines, hosts, actors, times; what follows a progress bar."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.readers.logs.heads import head_of, hosts_before_lines
from tests.ingest.readers.logs.log_files import TRACEBACK, column, imported_lines

BAR = " 43%|####      | 43/100 [07:10<09:30, 10.00s/it]"


@pytest.mark.parametrize(
    ("line", "rank", "host", "text"),
    [
        ("2026-05-02 08:00:01 [rank2]: KeyError", 2, "", "KeyError"),
        ("[2026-05-02 08:00:01,250] [rank2]: KeyError", 2, "", "KeyError"),
        ("giant.n-4 [stderr] [rank9]:[E502 08:00:01 x] y", 9, "", "[E502 08:00:01 x] y"),
        ("[3]<stderr>:KeyError", 3, "", "KeyError"),
        ("Sat May  2 08:00:01 2026[3]<stderr>:KeyError", 3, "", "KeyError"),
        ("(Worker pid=41, ip=10.0.0.7) KeyError", None, "10.0.0.7", "KeyError"),
        ("(Worker(train-1) pid=41) [rank1]: KeyError", 1, "", "KeyError"),
        ("(a remark) KeyError", None, "", "(a remark) KeyError"),
    ],
)
def test_in_front_of_a_line(line: str, rank: int | None, host: str, text: str) -> None:
    head = head_of(line)
    assert (head.rank, head.host, head.text) == (rank, host, text)


@pytest.mark.parametrize(
    ("lines", "hosts"),
    [
        (["[INFO] runner", "n7: a", "n8: b", "n7: c", "n8:"], {"n7", "n8"}),
        (["10.0.0.3: a", "10.0.0.3: b"] * 2, {"10.0.0.3"}),
        (["trainer  | a"] * 4, {"trainer"}),
        (["INFO: a"] * 9, set()),
        ([f"loss{number}: 2.5" for number in range(9)], set()),
        (["n7: a", "b", "c", "d"], set()),
    ],
)
def test_hosts_before_lines(lines: list[str], hosts: set[str]) -> None:
    assert hosts_before_lines(lines) == hosts


def test_tracebacks_of_hosts_in_turn(folder: Path, runs: Path) -> None:
    text = "".join(f"n{host}: {line}\n" for line in TRACEBACK.split("\n") for host in (7, 8))
    lines = imported_lines(folder, runs, {"launcher.log": text})
    assert column(lines, "host", "text") == [("n7", TRACEBACK), ("n8", TRACEBACK)]


def test_tracebacks_of_actors_in_turn(folder: Path, runs: Path) -> None:
    """Only a line by itself keeps the actor in front of it."""
    actors = [f"(Worker pid={pid}, ip=10.0.0.{pid}) " for pid in (4, 5)]
    text = "".join(f"{actor}{line}\n" for line in TRACEBACK.split("\n") for actor in actors)
    lines = imported_lines(folder, runs, {"a.log": f"{text}{actors[0]}step 1\n"})
    assert column(lines, "host", "text") == [
        ("10.0.0.4", TRACEBACK),
        ("10.0.0.5", TRACEBACK),
        ("10.0.0.4", f"{actors[0]}step 1"),
    ]


def test_what_follows_a_progress_bar_without_a_new_line(folder: Path, runs: Path) -> None:
    c10d = "[rank5]:[E502 08:00:01.25 ProcessGroupNCCL.cpp:607] [Rank 5] x"
    lines = imported_lines(folder, runs, {"a.log": f"{BAR}{c10d}\n{BAR}{TRACEBACK}\nend\n"})
    assert column(lines, "line", "rank", "text") == [
        (1, -1, BAR),
        (1, 5, c10d.removeprefix("[rank5]:")),
        (2, -1, BAR),
        (2, -1, TRACEBACK),
        (6, -1, "end"),
    ]
