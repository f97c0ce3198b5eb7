"""What runs the heavy parts of a pass can fail, for all files or for one merge."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ingest.errors import UserError
from ingest.index import compaction
from ingest.index.engine import Engine, EngineFailure
from ingest.index.indexer import Indexer
from ingest.index.merging import Check, Merge
from ingest.run import open_run
from tests.runs_builder import RunBuilder, two_rank_run


class GoneCluster(Engine):
    """A cluster that does not answer."""

    def update_rollups(self, *_: object) -> None:
        raise EngineFailure("Spark: the master is gone")


class OneOfTwo(Engine):
    """Begins two merges together and fails in the second, as where a disk is full."""

    merges_at_once = 2

    def merge(self, merges: Sequence[Merge], require_owner: Check) -> list[Exception | None]:
        assert len(merges) == 2
        return [*super().merge(merges[:1], require_owner), OSError("no space left")]


def test_a_failed_cluster_is_a_sentence_and_takes_nothing(tmp_path: Path) -> None:
    folder = two_rank_run(tmp_path / "run").folder
    with (
        Indexer(folder, engine=GoneCluster()) as indexer,
        pytest.raises(UserError, match="the master is gone; see the cluster's logs"),
    ):
        indexer.refresh()
    with Indexer(folder) as indexer:
        assert indexer.refresh().new_files == 8


def test_of_merges_begun_together_those_that_succeed_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "CLOSED_S", -1.0)
    builder = RunBuilder(tmp_path / "run", 1)
    for step in range(3):
        builder.span(0, step, "forward", step, step + 1)
        builder.step(0, step, step, step + 1)
        builder.publish()
    with (
        Indexer(builder.folder, engine=OneOfTwo()) as indexer,
        pytest.raises(UserError, match="no space left"),
    ):
        indexer.refresh()
    assert len(list((builder.folder / "compacted").iterdir())) == 1
    with open_run(builder.folder) as run:
        counts = "SELECT (SELECT count(*) FROM spans) AS s, (SELECT count(*) FROM steps) AS t"
        assert run.execute(counts, {}).to_pylist() == [{"s": 3, "t": 3}]
