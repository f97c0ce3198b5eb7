"""Whether somebody handled an error: its rank, or the whole job, went on as usual afterwards.

Signs: the rank repeats its usual lines; the line before it says that something is retried, skipped
or replaced; the rank waited in the same collective as the others later; steps went on.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from diagnosis.first_cause.facts import introduction_of, work_of
from diagnosis.first_cause.lines import UNKNOWN_CLOCK_NS, Line
from trace_hooks.log_text.labels import EXCEPTION

HANDLED_NS = 5 * 10**9
HANDLED_LINES = 3
"""A rank that repeats its usual lines for longer than this has survived."""

USUAL_LINES = 5
"""A rank that still logs so many lines of level info has survived; one that ends logs a few."""

GOES_ON_NS = 30 * 10**9
"""A job whose steps go on for longer than this has survived: ranks stop within a step or two."""

_LASTING = ("hardware", "network", "preemption")
"""Programs may go on for a while after these."""

_GOES_ON = re.compile(
    r"\bretry(?:ing)?\b|\battempt \d+ (?:of|/) ?\d+|\bskip(?:ping|ped) |\bfall(?:s|ing)? back"
    r"|\bignor(?:ed|ing)\b|non-?fatal|\bcontinuing\b|will continue|\brecovered\b",
    re.IGNORECASE,
)
_LOGGED = re.compile(r"\b(?:WARN(?:ING)?|ERROR|CRITICAL)\b")
_OFTEN_CAUGHT = (EXCEPTION, "module_missing", "download_failed", "http_error", "object_store_error")
_OFTEN_PRINTED = (EXCEPTION, "http_error")
"""Programs print these of errors that they caught."""
_WITHOUT_MODULE = re.compile(
    r"(?:could not|failed to|unable to|can(?:no|')t) (?:import|load)|\boptional\b|not installed"
    r"|not available|\bfall(?:s|ing)? back|\bfallback\b",
    re.IGNORECASE,
)
_IMPORT_ERROR = re.compile(r"(?m)^(?:ImportError|ModuleNotFoundError|OSError: lib)")
_IF_WARNING = (
    EXCEPTION, "not_a_number", "rendezvous_failed", "peer_closed", "library_missing",
    "module_missing", "download_failed",
)  # fmt: skip
"""What a program merely warns of has not ended it."""


@dataclass(frozen=True)
class Survival:
    """What shows that ranks, or the job, went on. `steps_ns`: when steps still went on at the
    latest; `steps_lines`: the same as lines of files; `waited`: file, rank and line at which a rank
    waited in a collective with most others.
    """

    steps_ns: float = -math.inf
    steps_lines: Mapping[str, int] = field(default_factory=dict)
    waited: Mapping[tuple[str, int], int] = field(default_factory=dict)

    def handled(self, line: Line) -> bool:
        """Whether a line that looks like the end of a rank was not."""
        if line.label is None or line.is_of_kernel or line.label.category in _LASTING:
            return False
        if line.level in ("warning", "info", "debug") and line.name in _IF_WARNING:
            return True
        if line.before.startswith("Exception ignored in"):
            return True
        return _went_on(line) or self._job_went_on(line) or self._waited_later(line)

    def _job_went_on(self, line: Line) -> bool:
        if self.steps_lines.get(line.file, -1) > line.number:
            return True
        return line.end_ns + GOES_ON_NS + UNKNOWN_CLOCK_NS < self.steps_ns

    def _waited_later(self, line: Line) -> bool:
        return self.waited.get((line.file, line.rank), -1) > line.number


def _went_on(line: Line) -> bool:
    if line.rank >= 0 and line.usual_after >= USUAL_LINES:
        return True
    if math.isinf(line.begin_ns):
        return line.went_on_lines >= HANDLED_LINES
    if line.went_on_lines:  # in the same file, so certainly later
        return line.went_on_ns > HANDLED_NS
    return line.begin_ns + line.went_on_ns > line.end_ns + HANDLED_NS


def is_announced(line: Line) -> bool:
    """Whether the line before a traceback says that the program goes on without it."""
    if line.before.startswith("Exception in thread"):
        return True
    before = introduction_of(line.text, line.before[:400].strip())
    if before is None:
        return False
    if _WITHOUT_MODULE.search(before) and _IMPORT_ERROR.search(line.text):
        return True
    return before.endswith(":") and bool(_GOES_ON.search(before))


def is_logged(line: Line) -> bool:
    """Whether a program caught an exception and logged it, or only printed such a line; what it did
    then is not known.
    """
    if line.name in _OFTEN_PRINTED and "Traceback (most recent call last)" not in line.text:
        return line.stream != "hooks"
    before = introduction_of(line.text, line.before[:200])
    if before is None or line.name not in _OFTEN_CAUGHT:
        return False
    return _LOGGED.search(before) is not None


def waited_with_others(lines: Iterable[Line]) -> dict[tuple[str, int], int]:
    """Where ranks timed out in the collective in which most did: by file and rank its last line."""
    timeouts = [
        (line, (work.group, work.seq, work.op))
        for line in lines
        if line.name == "watchdog_timeout" and line.rank >= 0
        if (work := work_of(line.text)) is not None
    ]
    ranks = {(line.rank, key) for line, key in timeouts}
    most, number = next(iter(Counter(key for _, key in ranks).most_common(1)), (None, 0))
    found: dict[tuple[str, int], int] = {}
    for line, key in timeouts:
        if number > 1 and key == most:
            place = (line.file, line.rank)
            found[place] = max(found.get(place, -1), line.number)
    return found
