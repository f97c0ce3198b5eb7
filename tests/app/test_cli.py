"""How the command ends: exit codes of what only main() can tell."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from app.cli import EXIT_INTERRUPTED, main
from app.commands import info_verb

HEALTHY = Path(__file__).resolve().parents[2] / "sample_traces" / "recorded" / "healthy"


def test_ctrl_c_during_a_query_is_an_interruption(capsys: pytest.CaptureFixture[str]) -> None:
    endless = "SELECT count(*) FROM range(10000000) a, range(10000000) b, spans"
    timer = threading.Timer(1.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    assert main(["query", str(HEALTHY), endless]) == EXIT_INTERRUPTED
    timer.join()
    assert capsys.readouterr().err == "rankscope query: interrupted\n"


def test_a_bug_is_not_taken_for_an_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    def buggy(_arguments: object) -> int:
        raise RuntimeError("dictionary changed size")

    monkeypatch.setattr(info_verb, "run", buggy)
    with pytest.raises(RuntimeError, match="dictionary"):
        main(["info", str(HEALTHY)])
