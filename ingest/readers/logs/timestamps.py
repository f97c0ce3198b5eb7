"""Times of lines of logs: ISO, Python logging, c10d and glog, syslog, dmesg -T.

A time without a zone is taken as UTC. One without a year (c10d, glog, syslog, vLLM) gets the year
in which it is nearest to the line before it in the file, where a line up to there has one, else to
a line near the beginning that has one, else that of the other logs of the import, else the newest
year with which it is not later than the file's last change.
The kernel's time since boot says nothing by itself.
"""

from __future__ import annotations

import re
from calendar import timegm
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache

UNKNOWN_NS = -1
_S = 1_000_000_000
_DAY_S = 86_400
_LOOKED_AT = 160
_MONTHS = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1
    )
}
_CLOCK = r"(?P<h>\d\d):(?P<mi>\d\d):(?P<s>\d\d)(?:[.,](?P<f>\d{1,9}))?"
_ZONE = r"(?: ?(?P<z>Z\b|[+-]\d\d:?\d\d\b)|(?P<hours>[+-]\d\d)(?=[\s\]),;]|$))?"
_ISO = r"(?P<y>\d{4})[-/](?P<mo>\d\d)[-/](?P<d>\d\d)[T _]" + _CLOCK + _ZONE
_FORMS = tuple(
    re.compile(form)
    for form in (
        r"^.{0,100}?\b" + _ISO,
        r"^.{0,40}?\[?\b[EWIF](?P<mo>\d{1,2})(?P<d>\d\d) " + _CLOCK,
        r"^\[?(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?P<m>[A-Z][a-z]{2}) +(?P<d>\d{1,2}) "
        + _CLOCK
        + r" (?P<y>\d{4})",
        r"^(?P<m>[A-Z][a-z]{2}) +(?P<d>\d{1,2}) " + _CLOCK,
        r"^.{0,20}?\b(?P<mo>\d\d)/(?P<d>\d\d)/(?P<y>\d{4}) " + _CLOCK,
        r"^.{0,40}?\b(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<mo>\d\d)-(?P<d>\d\d) " + _CLOCK,
        r"(?m)^\s*time\s*: " + _ISO,
    )
)
_ANY_CLOCK = re.compile(r"\d\d:\d\d:\d\d")


class Clock:
    """Times of the lines of one file. `changed_s`: Unix time of its last change; None unknown;
    `first_lines`: of its beginning.
    """

    def __init__(self, changed_s: float | None, first_lines: Iterable[str] = ()) -> None:
        self._changed_s = changed_s
        self._near_s = next(filter(None, map(_own_day_s, first_lines)), None)
        """day of the newest line, once the year is known"""
        self.guessed_zone = False
        self.guessed_year = False

    def time_ns(self, text: str) -> int:
        """Unix ns of the time that a line says, UNKNOWN_NS where it says none."""
        head = text[:_LOOKED_AT]
        if _ANY_CLOCK.search(head) is None:
            return UNKNOWN_NS
        for form in _FORMS:
            match = form.match(head)
            if match is not None and (ns := self._ns(match.groupdict())) is not None:
                return ns
        return UNKNOWN_NS

    def _ns(self, parts: dict[str, str | None]) -> int | None:
        month = _MONTHS.get(parts["m"] or "") if "m" in parts else int(parts["mo"] or 0)
        clock = [int(parts[name] or 0) for name in ("h", "mi", "s")]
        if month is None or clock[0] > 23 or clock[1] > 59 or clock[2] > 60:
            return None
        day_s = self._day_s(parts.get("y"), month, int(parts["d"] or 0))
        if day_s is None:
            return None
        zone = parts.get("z") or parts.get("hours")
        if zone is None:
            self.guessed_zone = True
        seconds = day_s + clock[0] * 3600 + clock[1] * 60 + clock[2]
        return (seconds - _zone_s(zone)) * _S + int((parts["f"] or "0").ljust(9, "0"))

    def _day_s(self, own_year: str | None, month: int, day: int) -> int | None:
        if own_year is not None:
            day_s = _day_s(int(own_year), month, day)
        elif self._near_s is not None:
            day_s = _nearest_day_s(self._near_s, month, day)
        else:
            return self._guessed_day_s(month, day)
        self._near_s = self._near_s if day_s is None else day_s
        return day_s

    def _guessed_day_s(self, month: int, day: int) -> int | None:
        if self._changed_s is None:
            return None
        self.guessed_year = True
        return _newest_day_s(self._changed_s + _DAY_S, month, day)


def has_time(text: str) -> bool:
    """Whether a line says when it was written."""
    head = text[:_LOOKED_AT]
    return _ANY_CLOCK.search(head) is not None and any(form.match(head) for form in _FORMS)


def _own_day_s(text: str) -> int | None:
    """The day of a line that names its year; None where it names none."""
    head = text[:_LOOKED_AT]
    if _ANY_CLOCK.search(head) is None:
        return None
    match = next(filter(None, (form.match(head) for form in _FORMS)), None)
    parts = {} if match is None else match.groupdict()
    if not parts.get("y"):
        return None
    month = _MONTHS.get(parts["m"], 0) if "m" in parts else int(parts["mo"])
    return _day_s(int(parts["y"]), month, int(parts["d"]))


def nearest_year_ns(at_ns: int, reference_ns: int) -> int:
    """By how much to shift a time whose year was guessed, by whole years, to be near another."""
    when = datetime.fromtimestamp(at_ns // _S, UTC)
    day_s = _nearest_day_s(reference_ns // _S // _DAY_S * _DAY_S, when.month, when.day)
    return 0 if day_s is None else (day_s - at_ns // _S // _DAY_S * _DAY_S) * _S


@lru_cache(maxsize=512)
def _day_s(year: int, month: int, day: int) -> int | None:
    if not (1970 <= year <= 2200 and 1 <= month <= 12 and 1 <= day <= 31):
        return None
    return timegm((year, month, day, 0, 0, 0))


@lru_cache(maxsize=512)
def _nearest_day_s(near_s: int, month: int, day: int) -> int | None:
    """The day in the year in which it is nearest to another one."""
    near = datetime.fromtimestamp(near_s, UTC).year
    years = (near, near - 1, near + 1)
    days_s = [day_s for year in years if (day_s := _day_s(year, month, day)) is not None]
    return min(days_s, key=lambda day_s: abs(day_s - near_s), default=None)


@lru_cache(maxsize=512)
def _newest_day_s(until_s: float, month: int, day: int) -> int | None:
    """The day in the newest year in which it is not after `until_s`."""
    try:
        year = datetime.fromtimestamp(until_s, UTC).year
    except (ValueError, OverflowError, OSError):
        return None
    day_s = _day_s(year, month, day)
    return day_s if day_s is None or day_s <= until_s else _day_s(year - 1, month, day)


def _zone_s(zone: str | None) -> int:
    if zone is None or zone == "Z":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[3:].removeprefix(":") or 0)
    return (hours * 3600 + minutes * 60) * (-1 if zone[0] == "-" else 1)
