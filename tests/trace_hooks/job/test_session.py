"""A process and the files that describe it in its run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trace_hooks.job.session import Session
from trace_hooks.layout import ParallelLayout
from trace_hooks.recording.clock import Anchor
from trace_hooks.recording.drain_thread import Drain
from trace_hooks.recording.recorder import Recorder
from trace_hooks.settings import read_settings


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    settings = read_settings({"TRACE_HOOKS_FOLDER": str(tmp_path), "TRACE_HOOKS_RUN": "night"})
    recorder, anchor = Recorder(), Anchor()
    drain = Drain(recorder, anchor)
    yield Session(settings, recorder, anchor, drain, {"layers": 3}, 0)
    drain.close()


def rank_file(folder: Path) -> dict[str, Any]:
    (path,) = folder.glob("night/ranks/*.json")
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def test_writing_begins_once_the_identity_is_known(tmp_path: Path, session: Session) -> None:
    ids: list[str] = []
    session.on_identity.append(lambda identity: ids.append(identity.shared.run))
    assert session._drain.writer is None
    session.find_identity(last_call=True)
    assert ids == ["night"]
    assert session._drain.writer is not None
    assert session._rank_state.writes_rows
    run = json.loads((tmp_path / "night" / "run.json").read_text())
    assert (run["run"], run["model"]) == ("night", {"layers": 3})


def test_the_rank_file_follows_what_becomes_known(tmp_path: Path, session: Session) -> None:
    session.find_identity(last_call=True)
    assert rank_file(tmp_path)["layout"] is None
    session.set_layout(ParallelLayout((("tp", 1),)))
    session.write_files()
    assert rank_file(tmp_path)["coords"] == {"tp": 0}
    assert rank_file(tmp_path)["end"] is None
    session.end("failed", "it broke")
    session.write_files()
    end = rank_file(tmp_path)["end"]
    assert (end["status"], end["error"]) == ("failed", "it broke")
