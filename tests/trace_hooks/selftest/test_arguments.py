"""The command line of a self-test."""

from __future__ import annotations

from pathlib import Path

import pytest

from trace_hooks.selftest.arguments import read_options


def test_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACE_HOOKS_FOLDER", "/some/where")
    options = read_options([])
    assert (options.folder, options.name, options.device) == (Path("/some/where"), None, "auto")
    assert (options.budget_s, options.samples, options.message_bytes) == (60.0, 20, None)
    assert not options.anyway


def test_sizes() -> None:
    assert read_options(["--message-mib", "0.5"]).message_bytes == 1 << 19


@pytest.mark.parametrize(
    "wrong",
    [
        ["--budget-s", "0"],
        ["--samples", "1"],
        ["--message-mib", "0"],
        ["--name", "../elsewhere"],
        ["--device", "tpu"],
    ],
)
def test_what_is_refused(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read_options(wrong)
    assert ended.value.code == 2
    assert wrong[0] in capsys.readouterr().err
