"""A run of two ranks with three steps each, and the processes of its SQL, one by one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ingest.free_sql import wire
from ingest.free_sql.holder_handle import HolderHandle
from ingest.free_sql.statement_handle import StatementHandle
from ingest.run import Run, open_run
from tests.runs_builder import two_rank_run


@pytest.fixture(scope="module")
def opened_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """For all tests of a module, which must not close it."""
    builder = two_rank_run(tmp_path_factory.mktemp("runs") / "job")
    with open_run(builder.folder) as opened:
        yield opened


@pytest.fixture(scope="module")
def holder(opened_run: Run) -> Iterator[HolderHandle]:
    """The process that holds its snapshot."""
    handle = HolderHandle(opened_run.folder, opened_run.snapshot.path.parent, False, wire.LAYERS)
    yield handle
    handle.close()


@pytest.fixture
def statement(opened_run: Run, holder: HolderHandle) -> Iterator[StatementHandle]:
    """A process that waits for its first statement."""
    handle = holder.statement(opened_run.snapshot.path, lambda: False)
    yield handle
    handle.end()
