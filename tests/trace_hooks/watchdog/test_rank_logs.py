"""Lines of a rank's own log files: each once, also of a file that grows while it is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from trace_hooks.watchdog.rank_logs import RankLogs


def test_what_is_written_while_a_file_is_read_comes_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rank.log"
    path.write_text("first\n")
    logs = RankLogs({"stderr": str(path)}, keeps_all=True)
    opened = Path.open

    def open_late(self: Path, mode: str) -> object:
        with opened(path, "a") as file:
            file.write("second\n")
        return opened(self, mode)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", open_late)
        rows = logs.take()
    rows += logs.take(is_over=True)
    assert [row["text"] for row in rows] == ["first", "second"]
