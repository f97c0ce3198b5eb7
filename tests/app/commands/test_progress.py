"""Progress of reading files on stderr."""

from __future__ import annotations

import pytest

from app.commands.progress import reading_progress


def test_progress_is_one_line_of_a_terminal_and_few_lines_of_a_log(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for is_terminal, shown in ((True, 4), (False, 1)):
        monkeypatch.setattr("sys.stderr.isatty", lambda tty=is_terminal: tty)
        now_s = iter(range(100, 200, 3))
        monkeypatch.setattr("time.monotonic", lambda now=now_s: float(next(now)))
        with reading_progress() as progress:
            progress(0, 100_000_000)
            progress.on_file("folder/rank-3.json")
            for done in (1, 25_000_000, 50_000_000):
                progress(done, 100_000_000)
        output = capsys.readouterr().err
        assert output.count("of 100 MB") == shown - is_terminal
        assert "reading 50 of 100 MB, 8 MB/s, 6 s left: rank-3.json" in output
        assert output.endswith("\r\x1b[K" if is_terminal else "rank-3.json\n")
