"""Questions to runs that tests build."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from ingest.run import open_run
from tests.runs_builder import RunBuilder


def pipeline_layers(is_local: bool) -> Iterator[tuple[int, int, int]]:
    """Stage, number over all stages, and number as the stage has it, of three stages' layers."""
    for layer in range(6):
        stage = layer // 2
        yield stage, layer, layer % 2 if is_local else layer


def answer(run: RunBuilder, question: str, **params: Any) -> pa.Table:
    """The answer of a saved query about all that was added to a run so far."""
    run.rank_files()
    run.publish()
    with open_run(run.folder) as opened:
        return opened.ask(question, **params)
