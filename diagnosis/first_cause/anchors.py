"""Which lines may be the first cause: those that begin a failure, near the time of the failure.

Left out are lines after which their rank went on as usual (somebody handled them), warnings without
a known meaning, lines that a better one explains (a GPU's Xid explains the CUDA errors of its
host), and lines long before anything failed or after ranks had timed out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from diagnosis.first_cause.exits import exits_in
from diagnosis.first_cause.facts import names_exception, timeout_ms
from diagnosis.first_cause.handled import (
    Survival,
    is_announced,
    is_logged,
    waited_with_others,
)
from diagnosis.first_cause.lines import MOST_BETWEEN, UNKNOWN_CLOCK_NS, Line
from trace_hooks.log_text.labels import EXCEPTION

NEAR_NS = 300 * 10**9
"""What is older than this when the failure shows has not caused it."""

HOUR_NS, MOST_HOURS = 3600 * 10**9, 14
ZONE_NS = 90 * 10**9
"""So near the failure has to be what another time zone would explain: one line in twenty is, by
chance."""

OUTLIVED_NS = 10 * 10**9
"""A rank that an exception ends writes nothing more after so long."""

EXPLAINED_NS = 120 * 10**9
"""A kernel's line explains what programs of its host report so much earlier or later."""

_BY_GPU = {
    "cuda_error", "cuda_launch_failure", "illegal_address", "library_failure", "gpu_missing",
    "no_such_gpu", "cuda_ecc_error", "gpu_off_the_bus", "nvlink_error", "ecc_error",
    "aborted_on_gpu",
}  # fmt: skip
_OOM_KILLER = ("kernel_oom", "kernel_oom_cgroup", "slurm_oom", "job_memory_limit", "k8s_oom")
_BY_OOM_KILLER = {"dataloader_killed", "killed", "host_out_of_memory", "worker_died"}
_BY_SCHEDULER = {"slurm_oom", "job_memory_limit", "k8s_oom"}
_BY_NETWORK = {"ib_completion_error", "efa_error", "qp_timeout"}
_ENDED_BY_SOMEBODY = ("interrupted", "terminated")
_CRASHES = ("segfault", "bus_error")
_ABORT = "terminate called"
"""So C++ begins to say with which exception it ends a process."""
_AFTER_TIMEOUTS = {"gil_held", "collective_mismatch", "monitored_barrier"}


@dataclass(frozen=True)
class Episode:
    """Lines of one failure. `fails_ns`: when it began to show at the latest; infinite unknown.
    `ends_ns`: when the first rank gave up waiting, else soon after the last sign, infinite unknown.
    `explained`: what an anchor explains.
    `logged`: exceptions that somebody caught; `doubtful`: errors after which their programs meant
    to go on.
    """

    anchors: tuple[Line, ...]
    logged: tuple[Line, ...]
    doubtful: tuple[Line, ...]
    weak: tuple[Line, ...]
    echoes: tuple[Line, ...]
    context: tuple[Line, ...]
    explained: tuple[Line, ...]
    fails_ns: float
    ends_ns: float

    @property
    def all_lines(self) -> tuple[Line, ...]:
        """All that are known to mean something, without context."""
        return (*self.anchors, *self.echoes, *self.weak, *self.explained)


def episode_of(lines: Sequence[Line], survival: Survival | None = None) -> Episode:
    """The newest failure. `survival`: until when steps went on."""
    lines = _after_restart(lines)
    survival = replace(survival or Survival(), waited=waited_with_others(lines))
    echoes = tuple(line for line in lines if line.role in ("cascade", "teardown"))
    initiating = [
        line for line in lines if line.role == "initiating" and not survival.handled(line)
    ]
    weak = tuple(line for line in initiating if line.label and line.label.is_weak)
    fails_ns, ends_ns = _failure(echoes, weak)
    strong = [line for line in initiating if line.label and not line.label.is_weak]
    given_up = _given_up(weak)
    near = [line for line in strong if _is_near(line, fails_ns, ends_ns, given_up)]
    near = near or [line for line in strong if line.label and line.label.category == "preemption"]
    near = near or _of_another_zone(strong, fails_ns)
    doubtful = tuple(line for line in near if is_announced(line))
    near = [line for line in near if line not in doubtful and not _is_after_end(line, weak)]
    near = _without_torn([line for line in near if not _ends_an_abort(line, lines)])
    caught = [line for line in near if is_logged(line)]
    logged = tuple(line for line in caught if not _was_outlived(line, (*echoes, *weak)))
    near = [line for line in near if line not in caught]
    anchors = tuple(_unexplained(near))
    explained = tuple(line for line in lines if any(_explains(other, line) for other in anchors))
    context = tuple(line for line in lines if line.role == "context")
    return Episode(anchors, logged, doubtful, weak, echoes, context, explained, fails_ns, ends_ns)


def _after_restart(lines: Sequence[Line]) -> list[Line]:
    """Lines since the job was started again last, if something failed since then."""
    starts = [line.begin_ns for line in lines if line.name == "restarting"]
    for start in sorted(filter(math.isfinite, starts), reverse=True):
        since = [line for line in lines if line.end_ns >= start]
        if any(line.role in ("initiating", "cascade") and line.begin_ns >= start for line in since):
            return since
    return list(lines)


def _failure(echoes: Iterable[Line], weak: Iterable[Line]) -> tuple[float, float]:
    """When the failure began to show, and when the first rank gave up waiting, else some time
    after the last sign of it.
    """
    timeouts = [line for line in weak if line.label and line.label.category == "timeout"]
    gave_up = [line.begin_ns for line in timeouts if math.isfinite(line.begin_ns)]
    began = [line.begin_ns - timeout_ms(line.text) * 1e6 for line in timeouts]
    shown = [line.begin_ns for line in echoes if line.role == "cascade"] + began
    known = [at_ns for at_ns in shown if math.isfinite(at_ns)]
    signs = [line.begin_ns for line in (*echoes, *weak) if math.isfinite(line.begin_ns)]
    last_ns = max((line.end_ns for line in (*echoes, *weak)), default=math.inf)
    ends_ns = min(gave_up, default=last_ns + NEAR_NS)
    if not known:
        return min(signs, default=math.inf), ends_ns
    last = max(known)
    burst = [at_ns for at_ns in known if at_ns >= last - NEAR_NS - _longest_ns(timeouts)]
    return min(burst), ends_ns


def _longest_ns(timeouts: Iterable[Line]) -> float:
    return max((timeout_ms(line.text) * 1e6 for line in timeouts), default=0.0)


def _of_another_zone(lines: Iterable[Line], fails_ns: float) -> list[Line]:
    """Lines of kernels that stand at the failure if their clock is whole hours off, as where their
    log has the local time and the others have UTC.
    """
    found = []
    for line in lines:
        if not (line.is_of_kernel and math.isfinite(line.begin_ns) and math.isfinite(fails_ns)):
            continue
        hours = round((fails_ns - line.begin_ns) / HOUR_NS)
        begin_ns = line.begin_ns + hours * HOUR_NS
        if 0 < abs(hours) <= MOST_HOURS and abs(fails_ns - begin_ns) < ZONE_NS:
            end_ns = line.end_ns + hours * HOUR_NS
            found.append(replace(line, begin_ns=begin_ns, end_ns=end_ns, err_ns=ZONE_NS))
    return found


def _given_up(weak: Iterable[Line]) -> dict[str, int]:
    """Of each file the line in which a rank first gave up waiting."""
    found: dict[str, int] = {}
    for line in weak:
        if line.file and timeout_ms(line.text):
            found[line.file] = min(found.get(line.file, line.number), line.number)
    return found


def _is_near(line: Line, fails_ns: float, ends_ns: float, given_up: Mapping[str, int]) -> bool:
    """Whether a line stands where a cause may: not long before, and not after ranks gave up."""
    if line.name not in _AFTER_TIMEOUTS and line.number > given_up.get(line.file, line.number):
        return False
    if math.isinf(fails_ns):
        return True
    if line.end_ns < fails_ns - NEAR_NS - line.err_ns:
        return False
    if line.name in _AFTER_TIMEOUTS or math.isinf(ends_ns):
        return True
    return line.begin_ns <= ends_ns + UNKNOWN_CLOCK_NS


def _was_outlived(line: Line, later: Iterable[Line]) -> bool:
    """Whether its rank still wrote that others had failed, long after a line."""
    if line.rank < 0 or math.isinf(line.begin_ns):
        return False
    return any(
        echo.file == line.file
        and echo.rank == line.rank
        and echo.number > line.number
        and echo.begin_ns > line.begin_ns + OUTLIVED_NS
        for echo in later
    )


def _is_after_end(line: Line, weak: Iterable[Line]) -> bool:
    """Whether somebody had ended the job before."""
    ends = [end for end in weak if end.name in _ENDED_BY_SOMEBODY]
    return any(_stands_before(end, line) for end in ends)


def _ends_an_abort(line: Line, lines: Iterable[Line]) -> bool:
    """Whether a crash is only how a process ended that had just said why."""
    return line.name in _CRASHES and any(
        _ABORT in other.text and other.file == line.file and _is_just_before(other, line)
        for other in lines
    )


def _without_torn(lines: Sequence[Line]) -> list[Line]:
    """Without tracebacks whose exception others tore off, where their file has more than them."""
    says_more = [line for line in lines if line.name != EXCEPTION or names_exception(line.text)]
    files = {line.file for line in says_more}
    return [line for line in lines if line in says_more or line.file not in files]


def _is_just_before(other: Line, line: Line) -> bool:
    """Whether it stands a few lines before another one in its file, and may be of the same rank."""
    is_of_other_rank = other.rank != line.rank and -1 not in (other.rank, line.rank)
    return 0 < line.number - other.number <= MOST_BETWEEN and not is_of_other_rank


def _stands_before(end: Line, line: Line) -> bool:
    if end.file and end.file == line.file:
        return end.number < line.number
    return end.is_before(line)


def _unexplained(anchors: Sequence[Line]) -> list[Line]:
    """Without lines that a deeper one on the same host explains."""
    return [line for line in anchors if not any(_explains(other, line) for other in anchors)]


def _explains(deeper: Line, line: Line) -> bool:
    if _ABORT in deeper.text and line.name in _CRASHES and deeper.file == line.file:
        return bool(exits_in(line.text))
    if deeper is line or deeper.label is None or not _is_close(deeper, line):
        return False
    if deeper.is_of_kernel and (deeper.label.category == "hardware" or "xid" in deeper.name):
        return line.name in _BY_GPU and not line.is_of_kernel
    if deeper.name in _OOM_KILLER:
        is_kernel = deeper.name not in _BY_SCHEDULER
        return line.name in _BY_OOM_KILLER or (is_kernel and line.name in _BY_SCHEDULER)
    return deeper.name == "port_down" and line.name in _BY_NETWORK


def _is_close(deeper: Line, line: Line) -> bool:
    """On the same host (a network is everywhere), at about the same time."""
    same_place = deeper.host == line.host or line.host is None or deeper.name == "port_down"
    apart = max(deeper.begin_ns - line.end_ns, line.begin_ns - deeper.end_ns)
    return same_place and not apart > EXPLAINED_NS + deeper.err_ns


def explained_by(deeper: Line, lines: Iterable[Line]) -> list[Line]:
    """The lines that a deeper one explains: they tell the ranks that it hit."""
    return [line for line in lines if _explains(deeper, line)]
