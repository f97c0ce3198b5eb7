"""Where the parts of an indexing pass run whose work grows with the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from ingest.index.merging import Check, Merge, publish_merged
from ingest.index.rollup_pass import RollupPass
from ingest.query.manifest import Connection


class EngineFailure(OSError):
    """What runs a part of a pass has failed, whatever the files are like: one sentence."""


class Engine:
    """Runs them in this process: SQL in the DuckDB of the index, merges one by one."""

    merges_at_once = 1
    """Merges that are begun together; their files are read and written before any is recorded."""

    def update_rollups(
        self,
        connection: Connection,
        folder: Path,
        index_folder: Path,
        relative: bool,
        touched: Mapping[int, tuple[int, int]],
    ) -> None:
        """Replace the rows of step_rollup, kind_rollup and collective_rollup of these steps.

        `touched`: first and last step by attempt. Runs in the caller's transaction; raises
        duckdb.Error or OSError where a file cannot be read or the disk is full.
        """
        RollupPass(connection, folder, index_folder, relative).update(dict(touched))

    def merge(self, merges: Sequence[Merge], require_owner: Check) -> list[Exception | None]:
        """Publish the merged file of each; the error where that failed, and nothing is left.

        Raises what `require_owner` raises, which is asked before each is published.
        """
        return [_failure(merge, require_owner) for merge in merges]


def _failure(merge: Merge, require_owner: Check) -> Exception | None:
    try:
        publish_merged(merge.table, merge.paths, merge.merged, merge.inputs, None, require_owner)
    except (pa.ArrowException, OSError) as error:
        return error
    return None
