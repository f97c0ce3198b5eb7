"""How the command ends: exit codes that only main() decides."""

from __future__ import annotations

import errno
import os
import signal
import threading
import time

import pytest

from app.cli import EXIT_INTERRUPTED, EXIT_USER_ERROR, main
from app.commands import info
from sample_traces import RECORDED

HEALTHY = RECORDED / "healthy"


def test_ctrl_c_during_a_query_is_an_interruption(capsys: pytest.CaptureFixture[str]) -> None:
    endless = "SELECT count(*) FROM range(10000000) a, range(10000000) b, spans"
    done, presses_made = threading.Event(), list[float]()

    def press() -> None:  # again where DuckDB swallowed one while the run was being opened
        while not done.wait(1.0):
            presses_made.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

    presses = threading.Thread(target=press)
    presses.start()
    try:
        code = main(["query", str(HEALTHY), endless])
    finally:
        done.set()
        presses.join()
    assert code == EXIT_INTERRUPTED
    assert len(presses_made) < 10  # not the limit of 60 s ended it
    assert capsys.readouterr().err == "rankscope query: interrupted\n"


def test_a_bug_is_not_taken_for_an_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    def buggy(_arguments: object) -> int:
        raise RuntimeError("dictionary changed size")

    monkeypatch.setattr(info, "run", buggy)
    with pytest.raises(RuntimeError, match="dictionary"):
        main(["info", str(HEALTHY)])


def test_a_file_that_the_system_refuses_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(_arguments: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied", "runs/\x1b[31ma/ranks")

    monkeypatch.setattr(info, "run", refused)
    assert main(["info", str(HEALTHY)]) == EXIT_USER_ERROR
    assert capsys.readouterr().err == (
        "rankscope info: runs/\\x1b[31ma/ranks cannot be used (Permission denied); check the path "
        "and its permissions\n"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["whatif", ""],
        ["diagnose", " "],
        ["diagnose", str(HEALTHY), "--baseline", ""],
        ["mfu", str(HEALTHY), "--against", ""],
        ["export", ""],
        ["import", ""],
        ["import", str(HEALTHY), "--into", ""],
        ["fleet", ""],
        ["gc", "", "--keep", "30d"],
        ["serve", ""],
    ],
)
def test_an_empty_path_is_refused_and_not_the_current_folder(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == EXIT_USER_ERROR
    assert "it is empty; give a path, or . for the current folder\n" in capsys.readouterr().err
