"""A Ctrl-C that something swallowed is not lost; output that cannot be written is one sentence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from app import interrupts
from app.cli import EXIT_INTERRUPTED, main
from app.commands import query
from sample_traces import RECORDED


def swallowed() -> None:
    """A Ctrl-C as DuckDB treats it while it opens."""
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        return
    raise AssertionError("not interrupted")


def test_one_that_came_while_the_run_was_opened_ends_the_query(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opening = query.open_any

    def interrupted(path: Path) -> Any:
        opened = opening(path)
        swallowed()
        return opened

    monkeypatch.setattr(query, "open_any", interrupted)
    endless = "SELECT count(*) FROM range(10000000) a, range(10000000) b, spans"
    assert main(["query", str(RECORDED / "healthy"), endless]) == EXIT_INTERRUPTED
    assert capsys.readouterr().err == "rankscope query: interrupted\n"


def test_one_obeyed_is_forgotten_and_the_next_verb_starts_over() -> None:
    with interrupts.remembered():
        swallowed()
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()
        interrupts.forget()
        interrupts.check()
        swallowed()
    with interrupts.remembered():
        interrupts.check()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("verb", [["info"], ["query", "SELECT * FROM spans"]])
def test_a_full_disk_is_one_sentence(verb: list[str]) -> None:
    command = [sys.executable, "-c", "import sys; from app.cli import main; sys.exit(main())"]
    command += [verb[0], str(RECORDED / "healthy"), *verb[1:]]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, env=os.environ
        )
    assert done.returncode == 2
    assert done.stderr == (
        f"rankscope {verb[0]}: the output cannot be written (No space left on device); "
        "write it to a disk with free space\n"
    )
