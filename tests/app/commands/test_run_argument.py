"""The argument RUN of verbs that read one run."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.commands.run_argument import open_run
from ingest.errors import UserError
from tests.runs_builder import two_rank_run


def test_a_run_folder_is_opened(tmp_path: Path) -> None:
    two_rank_run(tmp_path / "job")
    with open_run(tmp_path / "job") as run:
        assert run.info["run"] == "job"


def test_a_path_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere"):
        open_run(tmp_path / "nowhere")
