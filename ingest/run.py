"""Runs on disk as the rest of rankscope sees them: open one, query it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from ingest.errors import UserError
from ingest.free_sql.sql_process import SqlProcess
from ingest.index.snapshots import current_snapshot, discard_published, index_folder, is_up_to_date
from ingest.query.index_catalog import ForeignIndex
from ingest.query.instance_place import place_of_instance
from ingest.query.manifest import Narrowing
from ingest.query.saved_queries import SavedQuery, saved_query
from ingest.query.snapshot import Snapshot
from ingest.run_folder import native
from ingest.run_folder.rank_files import RankFiles, has_recorded_layout
from ingest.run_folder.run_files import (
    RUN_FILE,
    dense_decoder,
    existing,
    is_run_folder,
    read_run_info,
)
from ingest.run_folder.run_paths import require_no_links
from ingest.stopping import Interrupted, Stop
from trace_hooks.layout import ParallelLayout
from trace_hooks.schema import RankInfo, RunInfo

SILENT_S = 10.0
LOST_S = 60.0
TIME_LIMIT_S = 60.0
"""A query is stopped after this long unless it is given another limit."""
_FIRST_INDEX_WAIT_S = 30.0

STATES = ("running", "silent", "lost", "finished", "importing")


class Run:
    """One run, read through the last published snapshot of its index. Safe from many threads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.info: RunInfo = read_run_info(folder)
        self._rank_files = RankFiles(folder)
        self._index = index_folder(folder)
        self._lock = threading.Lock()
        self._snapshot: Snapshot | None = None
        self._sql: dict[bool, SqlProcess] = {}

    @property
    def snapshot(self) -> Snapshot:
        """The newest published snapshot; raises UserError while there is none."""
        while True:
            path = self._newest()
            with self._lock:
                if self._snapshot is not None and self._snapshot.path == path:
                    return self._snapshot
                try:
                    self._snapshot = Snapshot(path, self.folder, self._snapshot)
                except ForeignIndex as error:
                    discard_published(self._index)
                    raise UserError(
                        f"the index of {self.folder.name} cannot be opened: {error}; it was "
                        "discarded, and is made again when the run is opened next"
                    ) from error
                except (duckdb.Error, OSError) as error:  # being deleted, or the disk is full
                    if self._newest() == path:
                        reason = str(error).replace(str(path), path.name)
                        raise UserError(
                            f"the index of {self.folder.name} cannot be opened: {reason}"
                        ) from error
                    continue  # newer ones were published meanwhile, and this one removed
                return self._snapshot

    def _newest(self) -> Path:
        """File of the newest published snapshot; raises UserError."""
        require_no_links(self.folder)
        path = current_snapshot(self._index)
        if path is None:
            raise UserError(f"{self.folder.name} is not indexed yet; run `rankscope index` on it")
        return path

    def refresh(self) -> bool:
        """Bring the snapshot up to date; False where another process owns the index and does so."""
        if is_up_to_date(self._index, self.folder):
            return True
        from ingest.index.indexer import Busy, Indexer  # a fifth of the start-up, seldom needed

        try:
            with Indexer(self.folder) as indexer:
                indexer.refresh()
        except Busy:
            return False
        return True

    @property
    def ranks(self) -> list[RankInfo]:
        """What every rank of every attempt is, ordered by (attempt, rank)."""
        return self._rank_files.read()[0]

    @property
    def ranks_as_read(self) -> list[RankInfo]:
        """What the ranks' own files hold, whatever layout was corrected by hand."""
        return self._rank_files.as_read()

    @property
    def is_layout_corrected(self) -> bool:
        """Whether the layout of a rank was corrected by hand."""
        return any(
            shown is not as_read
            for shown, as_read in zip(self.ranks, self.ranks_as_read, strict=False)
        )

    @property
    def is_layout_recorded(self) -> bool:
        """Whether the hooks of the job recorded its layout."""
        return any(has_recorded_layout(info) for info in self.ranks_as_read)

    @property
    def attempts(self) -> list[int]:
        """Numbers of the attempts, oldest first."""
        rows = self.index_rows(
            "SELECT attempt FROM files UNION SELECT attempt FROM ranks ORDER BY 1"
        )
        return [int(row["attempt"]) for row in rows]

    @property
    def newest_attempt(self) -> int:
        """Number of the newest attempt, 0 where there is none yet."""
        return max(self.attempts, default=0)

    def layout(self, attempt: int | None = None) -> ParallelLayout | None:
        """Parallel layout of an attempt (default: the newest), None unknown."""
        wanted = self.newest_attempt if attempt is None else attempt
        for info in self.ranks:
            layout = info.get("layout")
            if info["attempt"] == wanted and layout:
                try:
                    return ParallelLayout.from_json(layout)
                except ValueError:
                    continue
        return None

    @property
    def problems(self) -> list[str]:
        """One sentence per file that was set aside, and what an import noted."""
        rows = self.index_rows(
            "SELECT text FROM problems UNION ALL"
            " SELECT problem FROM files WHERE problem IS NOT NULL ORDER BY 1"
        )
        return [*self.info.get("problems", []), *(row["text"] for row in rows)]

    def rank_states(self, now_ns: int | None = None) -> dict[int, str]:
        """State of each rank of the newest attempt, by when something of it arrived here last."""
        now_ns = time.time_ns() if now_ns is None else now_ns
        rows = self.index_rows(
            "SELECT r.rank, ended_ns IS NOT NULL AS ended,"
            " coalesce(arrived_ns, started_ns) + publish_every_ns AS seen"
            " FROM ranks r LEFT JOIN arrivals USING (attempt, rank)"
            " WHERE attempt = (SELECT max(attempt) FROM ranks) ORDER BY rank"
        )
        states = {}
        for row in rows:
            quiet_s = (now_ns - row["seen"]) / 1e9 if row["seen"] else float("inf")
            if row["ended"] or self.info["source"] != "hooks":
                states[row["rank"]] = "finished"
            else:
                states[row["rank"]] = (
                    "running" if quiet_s <= SILENT_S else "silent" if quiet_s <= LOST_S else "lost"
                )
        return states

    @property
    def state(self) -> str:
        """running, silent (a rank is silent or lost), lost (all unfinished are), finished, or
        importing (files are still read into it).
        """
        if self.info.get("importing"):
            return "importing"
        if self.info["source"] != "hooks":
            return "finished"
        states = set(self.rank_states().values()) or {"lost"}
        if states == {"finished"}:
            return "finished"
        states.discard("finished")
        if states in ({"running"}, {"lost"}):
            return states.pop()
        return "silent"

    def ask(
        self,
        name: str,
        *,
        limit_s: float | None = TIME_LIMIT_S,
        stop: Stop | None = None,
        **params: object,
    ) -> pa.Table:
        """Answer of a saved query (sql/NAME.sql); raises UserError."""
        text, values = self.prepared(name, **params)
        return self.snapshot.execute(text, values, limit_s, stop)

    def prepared(self, name: str, **params: object) -> tuple[str, dict[str, Any]]:
        """SQL of a saved query and the values that go with it, for `reading`; UserError."""
        query = saved_query(name)
        values = query.values(params)
        snapshot = self.snapshot
        if query.wants_newest and values["attempt"] is None:
            values["attempt"] = self._attempt_for(values)
        values |= self._files(query, values, snapshot)
        values |= {"run": self.info["run"], "clock": self.info["clock"]}
        values |= {f"model_{name}": size for name, size in dense_decoder(self.info).items()}
        return query.sql, {key: value for key, value in values.items() if key in query.used}

    def attempt_with(self, step: int) -> int:
        """Number of the newest attempt that has the step, else of the newest."""
        rows = self.index_rows(
            "SELECT max(attempt) AS attempt FROM step_rollup WHERE step = $step", step=step
        )
        attempt = rows[0]["attempt"]
        return self.newest_attempt if attempt is None else int(attempt)

    def _attempt_for(self, values: Mapping[str, Any]) -> int:
        """The newest attempt that has the given step, else the newest."""
        step = values.get("step", values.get("step_min"))
        return self.newest_attempt if step is None else self.attempt_with(step)

    def _files(
        self, query: SavedQuery, values: Mapping[str, Any], snapshot: Snapshot
    ) -> dict[str, list[str]]:
        """Files of the raw tables a question reads, narrowed by its own parameters."""
        if query.is_of_one_instance:
            place = place_of_instance(snapshot, values)
            return {table: snapshot.files(table, place) for table in query.reads}
        narrowing = Narrowing(
            attempt=values.get("attempt"),
            rank_min=values.get("rank", values.get("rank_min")),
            rank_max=values.get("rank", values.get("rank_max")),
            step_min=values.get("step", values.get("step_min")),
            step_max=values.get("step", values.get("step_max")),
            ts_min=values.get("from_ns"),
            ts_max=values.get("to_ns"),
        )
        if query.reads_steps_around:
            around = {"step_min": values["step_min"] - 1, "step_max": values["step_max"] + 1}
            narrowing = replace(narrowing, **around)
        return {table: snapshot.files(table, narrowing) for table in query.reads}

    def sql(
        self,
        text: str,
        limit_s: float | None = TIME_LIMIT_S,
        stop: Stop | None = None,
        with_content: bool = False,
    ) -> pa.Table:
        """Rows of any one SELECT over the raw tables (those of content only on request) and
        the rollups, run by a process of its own; raises UserError.
        """
        with self.sql_reading(text, limit_s, stop, with_content) as reader:
            return reader.read_all()

    @contextmanager
    def sql_reading(
        self,
        text: str,
        limit_s: float | None = TIME_LIMIT_S,
        stop: Stop | None = None,
        with_content: bool = False,
        session: str | None = None,
    ) -> Iterator[pa.RecordBatchReader]:
        """As `sql`, in batches computed while they are read; cheap statements of one `session` may
        share a process.
        """
        process, path = self._sql_process(with_content), self._snapshot_path()
        with ExitStack() as stack:
            try:
                reader = stack.enter_context(process.reading(text, path, limit_s, stop, session))
            except UserError as error:
                if isinstance(error, Interrupted) or path.exists():
                    raise
                path = self._snapshot_path()  # newer ones were published, and that one removed
                reader = stack.enter_context(process.reading(text, path, limit_s, stop, session))
            yield reader

    def _snapshot_path(self) -> Path:
        """File of the newest snapshot; makes the files of tables without rows, too."""
        return self.snapshot.path

    def get_sql_ready(self) -> None:
        """Start the process that the first SQL would wait for."""
        self._sql_process(False).get_ready(self._snapshot_path())

    def _sql_process(self, with_content: bool) -> SqlProcess:
        with self._lock:
            if with_content not in self._sql:
                self._sql[with_content] = SqlProcess(self.folder, self._index, with_content)
            return self._sql[with_content]

    def execute(self, text: str, values: Mapping[str, Any]) -> pa.Table:
        """Rows of SQL of this project over the raw tables and the rollups; raises UserError."""
        snapshot = self.snapshot
        snapshot.show_raw_tables()
        return snapshot.execute(text, values, None)

    @contextmanager
    def reading(
        self,
        text: str,
        values: Mapping[str, Any],
        limit_s: float | None = TIME_LIMIT_S,
        stop: Stop | None = None,
    ) -> Iterator[pa.RecordBatchReader]:
        """Rows of `prepared`, in batches computed while they are read."""
        with self.snapshot.reading(text, values, limit_s, stop) as reader:
            yield reader

    def index_rows(self, text: str, **values: object) -> list[dict[str, Any]]:
        """Rows of a SELECT over the index alone: no raw table, so no data file is opened."""
        return self.snapshot.index_rows(text, values, TIME_LIMIT_S)

    def close(self) -> None:
        """Close the snapshot and end the processes that run SQL."""
        with self._lock:
            for process in self._sql.values():
                process.close()
            self._sql = {}
            if self._snapshot is not None:
                self._snapshot.close()
                self._snapshot = None

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _written_at(run_folder: Path) -> float:
    try:
        return (run_folder / RUN_FILE).stat().st_mtime
    except OSError:  # it is being deleted
        return 0.0


def open_run(path: str | Path, refresh: bool = True) -> Run:
    """The run in a run folder, indexed as far as it has been written; raises UserError.

    Where another process owns the index (a server, `rankscope index`), its last snapshot is used.
    """
    run = Run(Path(path))
    if refresh and not run.refresh():
        deadline = time.monotonic() + _FIRST_INDEX_WAIT_S
        while current_snapshot(index_folder(run.folder)) is None and time.monotonic() < deadline:
            time.sleep(0.05)
    return run


class RunStore:
    """A folder of runs, or one run folder."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = existing(folder)
        if not self.folder.is_dir():
            raise UserError(f"{self.folder} is not a folder; give a run folder or a folder of runs")

    def folders(self) -> list[Path]:
        """Run folders, newest run.json first."""
        if is_run_folder(self.folder):
            return [self.folder]
        return sorted(native.runs_at(self.folder), key=_written_at, reverse=True)

    def open(self, name: str | None = None) -> Run:
        """The run of that folder name, or the only one; raises UserError."""
        folders = self.folders()
        if not folders:
            raise UserError(f"{self.folder} holds no run; give a run folder or a folder of runs")
        if name is None and len(folders) == 1:
            return open_run(folders[0])
        for folder in folders:
            if folder.name == name:
                return open_run(folder)
        names = ", ".join(folder.name for folder in folders[:10])
        if name is None:
            raise UserError(f"{self.folder} holds {len(folders)} runs; name one of them: {names}")
        raise UserError(f"{self.folder} has no run {name!r}; it has {names}")
