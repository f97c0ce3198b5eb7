"""Logs of ranks, hosts and launchers: lines of text become rows of log_lines.

Known layouts: torchrun's --log-dir (with error.json), Slurm, srun --label, Kubernetes, journalctl,
kernel logs, NCCL's files, and plain files, one per rank, host or job (docs/logs.md).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ingest.readers.base import Format, Sink
from ingest.readers.logs.attribution import Attribution, LogFacts
from ingest.readers.logs.error_file import error_in, level_of_error, seconds_of, text_of
from ingest.readers.logs.heads import is_records
from ingest.readers.logs.line_table import LineTable, error_table
from ingest.readers.logs.log_file import LogFile
from ingest.readers.logs.placed_rows import PlacedRows
from ingest.readers.logs.places import place_of
from ingest.readers.logs.signs import is_log
from ingest.readers.logs.timestamps import UNKNOWN_NS, Clock, nearest_year_ns
from ingest.readers.logs.training.job import TrainingJob
from ingest.readers.logs.training.lines import TrainingLines, TrainingLog
from ingest.readers.parsing.sources import Source
from ingest.readers.tables.rows import rank_info
from ingest.readers.tables.staged_rows import StagedRows
from trace_hooks.log_text.labels import label_of
from trace_hooks.log_text.line_rows import LONGEST_TEXT, level_of
from trace_hooks.schema import UNKNOWN

FORMAT = Format("logs", "Logs", is_generic=True, accompanies=True, layout_from="job")

_AT_ONCE = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LOOKED_AT = 1 << 16
_LOOKED_AT_LINES = 400


@dataclass
class _Log:
    """One file, read: its rows, and what is needed to say whose it is."""

    facts: LogFacts
    staged: StagedRows
    left_out: int = 0
    newest_ns: int = UNKNOWN_NS
    guessed_zone: bool = False
    guessed_year: bool = False
    training: TrainingLog = field(default_factory=TrainingLog)


def recognises(source: Source) -> bool:
    """Whether it is text, and lines of it or its name show that it is a log."""
    return is_log(source.name, source.head)


def read(source: Source, staged: StagedRows) -> _Log | None:
    """Read one file."""
    log = _Log(LogFacts(source.name, place_of(source.name)), staged.another())
    if (error := error_in(source.head)) is not None:
        _read_error(error, log)
    else:
        _read_lines(source, log)
    for problem in filter(None, (*source.damages(), log.training.problem)):
        staged.add_problem(f"{source.name}: {problem}")
    return log


def _read_error(error: dict[str, Any], log: _Log) -> None:
    text = text_of(error)
    level = level_of_error(text, level_of(text))
    table = error_table(log.facts.name, text, level, label_of(text), seconds_of(error))
    log.staged.add_rows("log_lines", 0, table)


def _read_lines(source: Source, log: _Log) -> None:
    head = source.head[:_LOOKED_AT].decode("utf-8", "replace")
    first_lines = head.splitlines()[:_LOOKED_AT_LINES]
    clock, facts = Clock(source.changed_s, first_lines), log.facts
    file = LogFile(first_lines, is_records(source.head))
    table = LineTable(file, facts.name, facts.place, clock, log.staged)
    training = TrainingLines(first_lines, is_records(source.head), facts.place, clock)
    for lines in _whole_lines(source):
        table.add(file.add(lines))
        training.add(lines)
    table.add(file.finish())
    table.write()
    log.training = training.finish()
    facts.num_lines, facts.ranks, facts.hosts = file.num_kept, dict(file.ranks), dict(file.hosts)
    facts.first_ranks, facts.communicators = dict(file.first_ranks), dict(file.communicators)
    facts.first_ranks_of_hosts = file.first_ranks_of_hosts
    log.left_out, log.newest_ns = file.left_out, table.newest_ns
    log.guessed_zone, log.guessed_year = clock.guessed_zone, clock.guessed_year


def _whole_lines(source: Source) -> Iterator[bytes]:
    """Many lines at a time, without the last one's end; of one that is very long both ends.

    NUL bytes, of which crashes leave blocks, and a byte order mark are left out.
    """
    rest = b""
    while data := source.read(_AT_ONCE):
        data = data.replace(b"\0", b"").removeprefix(_BYTE_ORDER_MARK)
        lines, end, rest = (rest + data).rpartition(b"\n")
        if len(rest) > _AT_ONCE:
            rest = rest[:LONGEST_TEXT] + rest[-LONGEST_TEXT:]
        if end:
            yield lines
    if rest:
        yield rest


class Import:
    """One import: the logs of a job."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._logs: list[_Log] = []

    def add_file(self, log: _Log) -> None:
        """One log."""
        self._logs.append(log)

    def finish(self) -> None:
        """Give every file its rank and host, and write its rows."""
        attribution = Attribution([log.facts for log in self._logs])
        folder = _common_folder([log.facts.name for log in self._logs])
        hosts: dict[int, str] = {}
        reference_ns = self._reference_ns()
        training = TrainingJob()
        for log in self._logs:
            owner = attribution.owners[log.facts.name]
            shift_ns = _shift_ns(log, reference_ns)
            placed = PlacedRows(self._sink, owner, log.facts.name[len(folder) :], shift_ns)
            log.staged.give_to(placed)
            training.add(log.training, placed.rank, shift_ns)
            for rank, host in placed.hosts.items():
                hosts[rank] = hosts.get(rank) or host
        self._add_ranks(hosts, training)
        training.add_guesses(self._sink)
        for guess in attribution.guesses:
            self._sink.add_guess(guess)
        self._add_guesses()

    def _reference_ns(self) -> int:
        """When the logs end whose times have a year: their median; UNKNOWN_NS without any."""
        known = [log.newest_ns for log in self._logs if not log.guessed_year]
        known = sorted(newest_ns for newest_ns in known if newest_ns != UNKNOWN_NS)
        return known[len(known) // 2] if known else UNKNOWN_NS

    def _add_ranks(self, hosts: dict[int, str], training: TrainingJob) -> None:
        """Each rank with its host; rank 0 where no log and no trace names any: a run has one."""
        has_trace = self._sink.ranks_by_pid() is not None  # which says which ranks there are
        if has_trace:
            training.leave_out(self._sink)
        if not hosts and not training.ranks:
            text = "no line of the logs names its rank: they are kept as lines of no known rank"
            if not has_trace:
                self._sink.add_rank(rank_info(0))
                text += ", and rank 0 is listed because a run has at least one"
            self._sink.add_guess(text)
            return
        extents = training.write(self._sink, hosts)
        ranks = sorted({*hosts, *extents})
        named = ranks[-1] + 1 if hosts or len(ranks) > 1 else UNKNOWN
        world_size = max(training.world_size, named)
        for rank in ranks:
            begin_ns, end_ns = extents.get(rank, (0, 0))
            info = rank_info(
                rank,
                host=hosts.get(rank, ""),
                world_size=world_size,
                layout=training.layout if training.world_size == world_size else None,
                started_ns=begin_ns,
                ended_ns=end_ns,
            )
            self._sink.add_rank(info)
        if self._sink.ranks_by_pid() is None and world_size > training.world_size:
            self._sink.add_guess(
                f"the world size is taken to be {world_size}, by the largest rank that logs name"
            )

    def _add_guesses(self) -> None:
        if any(log.guessed_zone for log in self._logs):
            self._sink.add_guess("times of lines that name no time zone are taken as UTC")
        if any(log.guessed_year for log in self._logs):
            self._sink.add_guess(
                "times without a year are taken to be of that of the other logs, or else of the "
                "year before the file's last change"
            )
        if left_out := sum(log.left_out for log in self._logs):
            self._sink.add_guess(
                f"{left_out:,} lines that differ from others of their file in numbers only were "
                "left out"
            )


def _shift_ns(log: _Log, reference_ns: int) -> int:
    """What to add to the times of a log so that its guessed year is that of the other logs."""
    if not log.guessed_year or UNKNOWN_NS in (log.newest_ns, reference_ns):
        return 0
    return nearest_year_ns(log.newest_ns, reference_ns)


def _common_folder(names: list[str]) -> str:
    """The folder that all of them lie in, with its slash; '' none."""
    try:
        shared = os.path.commonpath([name.rpartition("/")[0] for name in names])
    except ValueError:  # no names, or not all in one place
        return ""
    return f"{shared}/" if shared else ""
