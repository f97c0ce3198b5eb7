"""Questions to runs that tests build."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ingest.run import open_run
from tests.runs_builder import RunBuilder


def answer(run: RunBuilder, question: str, **params: Any) -> pa.Table:
    """The answer of a saved query about all that was added to a run so far."""
    run.rank_files()
    run.publish()
    with open_run(run.folder) as opened:
        return opened.ask(question, **params)
