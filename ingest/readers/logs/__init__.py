"""Logs of ranks, hosts and launchers: lines of text become rows of log_lines.

Known layouts: torchrun's --log-dir (with error.json), Slurm, srun --label, Kubernetes, journalctl,
kernel logs, and plain files, one per rank, host or job (docs/logs.md). The rank is that of the
prefix of a line, else of the file's name; a rank that torchrun counts within its host becomes a
global one where lines of that host say which. What no file says stays unknown (-1).
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.limits import limits
from ingest.readers.base import Format, Sink
from ingest.readers.logs.heads import Head, is_journal
from ingest.readers.logs.log_file import Kept, LogFile
from ingest.readers.logs.places import Place, hosts_of, place_of, pod_of
from ingest.readers.logs.timestamps import UNKNOWN_NS, Clock, has_time
from ingest.readers.parsing.sources import Source
from ingest.readers.tables.rows import rank_info, rows
from ingest.readers.tables.staged_rows import StagedRows
from trace_hooks.log_text.labels import label_of
from trace_hooks.log_text.line_rows import TRACEBACK, level_of, shortened
from trace_hooks.log_text.secrets import masked
from trace_hooks.log_text.templates import template_of
from trace_hooks.schema import UNKNOWN

FORMAT = Format("logs", "Logs", is_generic=True, accompanies=True)

OF_FILE = -2
"""Rank of a row until it is known whose log the file is."""
_AT_ONCE = 1 << 22
_ROWS_AT_ONCE = 50_000
_LOOKED_AT = 1 << 16
_FEWEST_SHARE = 0.1
_NAME = re.compile(
    r"(?i)\.(?:log|out|err)(?:[.-]\d{1,8})*(?:\.gz)?$|(?:^|[/._-])(?:log|stdout|stderr|dmesg)(?:\.txt)?$"
)
"""Of text, these names are enough."""
_LABEL = r"^(?: *\d{1,6}: ?|\[[a-z]+\d+\]:? ?)?"
_SIGNS = re.compile(
    r"^\[(?:rank|role|default)\d+\]"
    rf"|{_LABEL}Traceback \(most recent call last\)"
    rf"|{_LABEL}[\[(<]?(?:DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL|CRITICAL)(?:[\])>]|:| - | \|)"
    rf"|{_LABEL}(?:srun|slurmstepd|sbatch|salloc): "
    r"|^.{0,160}\b(?:NCCL (?:INFO|WARN|TRACE|version)|NVRM: |Killed process \d)",
    re.MULTILINE,
)
"""What no other text has at the beginning of a line."""


@dataclass
class _Log:
    """One file, read. `rows`: staged, those without a rank of their own with rank OF_FILE."""

    name: str
    place: Place
    staged: StagedRows
    ranks: list[int] = field(default_factory=list)
    """named in prefixes of its lines, the most frequent first"""
    host: str = ""
    """named by most of those of its lines that name one"""
    left_out: int = 0
    guessed_zone: bool = False
    guessed_year: bool = False


def recognises(source: Source) -> bool:
    """Whether it is text, and lines of it or its name show that it is a log."""
    if is_journal(source.head) or _error_file(source.head) is not None:
        return True
    head = source.head[:_LOOKED_AT]
    if b"\0" in head or head.lstrip()[:1] in (b"{", b"<") or not head.strip():
        return False
    text = head.decode("utf-8", "replace")
    if text.count("\ufffd") > len(text) // 50:
        return False
    lines = [line for line in text.splitlines() if line.strip()]
    timed = sum(has_time(line) for line in lines[:200])
    if timed >= max(1, _FEWEST_SHARE * min(len(lines), 200)) or _SIGNS.search(text):
        return True
    return _NAME.search(source.name) is not None


def read(source: Source, staged: StagedRows) -> _Log | None:
    """Read one file."""
    log = _Log(source.name, place_of(source.name), staged.another())
    if (told := _error_file(source.head)) is not None:
        log.staged.add_rows("log_lines", 0, _table([_row_of_error(told, log)]))
        return log
    clock = Clock(_year_of(source))
    first = source.head[:_LOOKED_AT].decode("utf-8", "replace").splitlines()
    file = LogFile(first[:400], is_journal(source.head))
    for lines in _lines_of(source):
        file.add(lines)
    made: list[dict[str, Any]] = []
    for row in _rows_of(file, log, clock):
        made.append(row)
        if len(made) == _ROWS_AT_ONCE:
            log.staged.add_rows("log_lines", 0, _table(made))
            made = []
    log.staged.add_rows("log_lines", 0, _table(made))
    log.ranks = [rank for rank, _ in file.ranks.most_common()]
    log.host = next((host for host, _ in file.hosts.most_common(1)), "")
    log.left_out = file.left_out
    log.guessed_zone, log.guessed_year = clock.guessed_zone, clock.guessed_year
    for problem in source.damages():
        staged.add_problem(f"{source.name}: {problem}")
    return log


def _lines_of(source: Source) -> Iterator[list[bytes]]:
    """Lines without their ends, many at a time; one that is very long in pieces."""
    rest = b""
    while data := source.read(_AT_ONCE):
        lines = (rest + data).split(b"\n")
        rest = lines.pop()
        if len(rest) > _AT_ONCE:
            lines.append(rest)
            rest = b""
        yield lines
    if rest:
        yield [rest]


def _rows_of(file: LogFile, log: _Log, clock: Clock) -> Iterator[dict[str, Any]]:
    last_ns = UNKNOWN_NS
    before: dict[str, Any] | None = None
    for kept in file.finish():
        row = _row(kept, log, clock, last_ns)
        last_ns = row["ts_ns"] if row["ts_ns"] != UNKNOWN_NS else last_ns
        if before is not None and _is_again(before, row):
            before["count"] += 1
            continue
        if before is not None:
            yield before
        before = row
    if before is not None:
        yield before


def _is_again(before: dict[str, Any], row: dict[str, Any]) -> bool:
    """Whether a row says what the one before said, such as the next state of a progress bar."""
    return all(before[name] == row[name] for name in ("template", "rank", "label", "text"))


def _row(kept: Kept, log: _Log, clock: Clock, last_ns: int) -> dict[str, Any]:
    head = kept.head
    own_ns = clock.time_ns(head.time or kept.text)
    timed, ts_ns = "own", own_ns
    if own_ns == UNKNOWN_NS:
        earlier_ns = clock.time_ns(kept.timed) if kept.timed else UNKNOWN_NS
        ts_ns = max(earlier_ns, last_ns) if earlier_ns != UNKNOWN_NS else last_ns
        timed = "none" if ts_ns == UNKNOWN_NS else "file"
    text = masked(kept.text)
    return {
        "rank": _rank_of(head, log.place),
        "ts_ns": ts_ns,
        "timed": timed,
        "stream": head.stream or log.place.stream,
        "file": log.name,
        "line": kept.number,
        "level": kept.level,
        "label": kept.label,
        "template": template_of(text),
        "text": text,
        "count": 1,
    }


def _rank_of(head: Head, place: Place) -> int:
    if head.rank is not None:
        return head.rank if head.rank < limits().max_ranks else UNKNOWN
    return UNKNOWN if place.is_host_log else OF_FILE


def _table(made: Sequence[dict[str, Any]]) -> pa.Table:
    names = made[0] if made else ()
    return rows("log_lines", len(made), {name: [row[name] for row in made] for name in names})


def _error_file(head: bytes) -> dict[str, Any] | None:
    """What torchelastic noted of a rank that failed; None where it is another file."""
    if not head.lstrip().startswith(b'{"message"'):
        return None
    try:
        told = json.loads(head)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict):
        return None
    message = told["message"]
    return message if isinstance(message, dict) else {"message": str(message)}


def _row_of_error(told: dict[str, Any], log: _Log) -> dict[str, Any]:
    """The exception of an error file, as if it stood in the log; its time is in seconds."""
    extra = told.get("extraInfo")
    extra = extra if isinstance(extra, dict) else {}
    stack = str(extra.get("py_callstack") or told.get("message") or "")
    text = shortened(masked(stack.strip()))
    stamp = str(extra.get("timestamp") or "")
    ts_ns = int(stamp) * 10**9 if stamp.isdecimal() and len(stamp) < 12 else UNKNOWN_NS
    return {
        "rank": OF_FILE,
        "ts_ns": ts_ns,
        "timed": "own" if ts_ns != UNKNOWN_NS else "none",
        "stream": "stderr",
        "file": log.name,
        "line": 1,
        "level": "error" if text.startswith(TRACEBACK) else level_of(text) or "error",
        "label": label_of(text),
        "template": template_of(text),
        "text": text,
        "count": 1,
    }


def _year_of(source: Source) -> int | None:
    """Of the file's last change; None in an archive."""
    if source.path is None:
        return None
    try:
        return datetime.fromtimestamp(source.path.stat().st_mtime, UTC).year
    except (OSError, ValueError, OverflowError):
        return None


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
        by_folder = hosts_of([log.name for log in self._logs])
        hosts = {log.name: _host_of(log, by_folder[log.name]) for log in self._logs}
        first_ranks = self._first_ranks(hosts)
        seen: dict[int, str] = {}
        folder = _common_folder([log.name for log in self._logs])
        for log in self._logs:
            rank = self._rank(log, hosts[log.name], first_ranks)
            for known in {*log.ranks, rank} - {UNKNOWN}:
                if known < limits().max_ranks:
                    seen[known] = seen.get(known) or hosts[log.name]
            file = log.name[len(folder) :]
            log.staged.give_to(_Placed(self._sink, rank, hosts[log.name], file))
        self._add_ranks(seen)
        self._add_guesses()

    def _add_ranks(self, hosts: dict[int, str]) -> None:
        """Each rank with its host, and rank 0 where no log names any: a run has a rank."""
        for rank, host in sorted(hosts.items()):
            self._sink.add_rank(rank_info(rank, host=host, world_size=max(hosts) + 1))
        if not hosts:
            self._sink.add_rank(rank_info(0))
            self._sink.add_guess(
                "no log names a rank: shown as a run of rank 0, with lines of none"
            )

    def _first_ranks(self, hosts: dict[str, str]) -> dict[str, int]:
        """Global rank of local rank 0 of each host, where lines of its files agree on it."""
        told: dict[str, Counter[int]] = {}
        local_hosts = set()
        for log in self._logs:
            if log.place.local_rank is None:
                continue
            local_hosts.add(hosts[log.name])
            for rank in log.ranks[:1]:
                counter = told.setdefault(hosts[log.name], Counter())
                counter[rank - log.place.local_rank] += 1
        found = {host: only[0] for host, firsts in told.items() if len(only := list(firsts)) == 1}
        if len(local_hosts) == 1 and not told:
            self._sink.add_guess(
                "torchrun's folders number the ranks of a host; with one host these are taken as "
                "the ranks of the job"
            )
            found = dict.fromkeys(local_hosts, 0)
        return found

    def _rank(self, log: _Log, host: str, first_ranks: dict[str, int]) -> int:
        place = log.place
        if place.is_host_log:
            return UNKNOWN
        if place.rank is not None:
            return place.rank if place.rank < limits().max_ranks else UNKNOWN
        if place.local_rank is not None:
            first = first_ranks.get(host)
            return UNKNOWN if first is None else first + place.local_rank
        return log.ranks[0] if len(log.ranks) == 1 else UNKNOWN

    def _add_guesses(self) -> None:
        if any(log.guessed_zone for log in self._logs):
            self._sink.add_guess("times of lines that name no time zone are taken as UTC")
        if any(log.guessed_year for log in self._logs):
            self._sink.add_guess(
                "times without a year are taken to be of the year of the file's last change"
            )
        if left_out := sum(log.left_out for log in self._logs):
            self._sink.add_guess(
                f"{left_out:,} lines that differ from others of their file in numbers only were "
                "left out"
            )


def _common_folder(names: list[str]) -> str:
    """The folder that all of them lie in, with its slash; '' none."""
    try:
        shared = os.path.commonpath([name.rpartition("/")[0] for name in names])
    except ValueError:  # no names, or not all in one place
        return ""
    return f"{shared}/" if shared else ""


def _host_of(log: _Log, by_folder: str) -> str:
    """As its lines say, else as its folder does."""
    return log.host or by_folder or pod_of(log.name)


class _Placed(StagedRows):
    """Hands rows of a file on with its rank, its host and its name as it is to be shown."""

    def __init__(self, sink: Sink, rank: int, host: str, file: str) -> None:
        super().__init__(Path())
        self._sink, self._rank = sink, rank
        self._texts = {"host": host, "file": file}

    def adopt_rows(self, table: str, rank: int, path: Path) -> None:
        """Rows that lie in a file."""
        found = pq.read_table(path)
        path.unlink()
        ranks = found.column("rank")
        here = pc.if_else(pc.equal(ranks, OF_FILE), self._rank, ranks).cast(ranks.type)
        index = found.schema.get_field_index
        found = found.set_column(index("rank"), found.schema.field("rank"), here)
        for name, text in self._texts.items():
            column = pa.array([text] * found.num_rows, pa.string()).dictionary_encode()
            of_schema = found.schema.field(name)
            found = found.set_column(index(name), of_schema, column.cast(of_schema.type))
        self._sink.add_rows(table, 0, found)
