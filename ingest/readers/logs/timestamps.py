"""Times of lines of logs: ISO, Python logging, c10d and glog, syslog, dmesg -T.

A time without a zone is taken as UTC. One without a year (c10d, glog, syslog) gets the year of a
line of the same file that has one, else of the file's last change; else it is unknown. The kernel's
time since boot says nothing by itself.
"""

from __future__ import annotations

import re
from calendar import timegm
from functools import lru_cache

UNKNOWN_NS = -1
_S = 1_000_000_000
_MONTHS = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1
    )
}
_CLOCK = r"(?P<h>\d\d):(?P<mi>\d\d):(?P<s>\d\d)(?:[.,](?P<f>\d{1,9}))?"
_ISO = r"(?P<y>\d{4})[-/](?P<mo>\d\d)[-/](?P<d>\d\d)[T _]" + _CLOCK + r"(?P<z>Z|[+-]\d\d:?\d\d)?"
_FORMS = tuple(
    re.compile(form)
    for form in (
        r"^.{0,60}?" + _ISO,
        r"^.{0,40}?\[?[EWIF](?P<mo>\d{1,2})(?P<d>\d\d) " + _CLOCK,
        r"^\[?(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?P<m>[A-Z][a-z]{2}) +(?P<d>\d{1,2}) "
        + _CLOCK
        + r" (?P<y>\d{4})",
        r"^(?P<m>[A-Z][a-z]{2}) +(?P<d>\d{1,2}) " + _CLOCK,
        r"(?m)^\s*time\s*: " + _ISO,
    )
)


class Clock:
    """Times of the lines of one file. `year`: of those that have none; None unknown."""

    def __init__(self, year: int | None) -> None:
        self._year = year
        self.has_own_year = False
        self.guessed_zone = False
        self.guessed_year = False

    def time_ns(self, text: str) -> int:
        """Unix ns of the time that a line says, UNKNOWN_NS where it says none."""
        for form in _FORMS:
            found = form.match(text[:120])
            if found is not None and (ns := self._ns(found.groupdict())) is not None:
                return ns
        return UNKNOWN_NS

    def _ns(self, parts: dict[str, str | None]) -> int | None:
        month = _MONTHS.get(parts["m"] or "") if "m" in parts else int(parts["mo"] or 0)
        year = self._year_of(parts)
        if month is None or year is None:
            return None
        day_s = _day_s(year, month, int(parts["d"] or 0))
        clock = [int(parts[name] or 0) for name in ("h", "mi", "s")]
        if day_s is None or clock[0] > 23 or clock[1] > 59 or clock[2] > 60:
            return None
        seconds = day_s + clock[0] * 3600 + clock[1] * 60 + clock[2]
        zone = parts.get("z")
        if zone is None:
            self.guessed_zone = True
        return (seconds - _zone_s(zone)) * _S + int((parts["f"] or "0").ljust(9, "0"))

    def _year_of(self, parts: dict[str, str | None]) -> int | None:
        if (told := parts.get("y")) is not None:
            if not self.has_own_year:
                self._year, self.has_own_year = int(told), True
            return int(told)
        if not self.has_own_year:
            self.guessed_year = True
        return self._year


def has_time(text: str) -> bool:
    """Whether a line says when it was written."""
    return any(form.match(text[:120]) for form in _FORMS)


@lru_cache(maxsize=512)
def _day_s(year: int, month: int, day: int) -> int | None:
    if not (1970 <= year <= 2200 and 1 <= month <= 12 and 1 <= day <= 31):
        return None
    return timegm((year, month, day, 0, 0, 0))


def _zone_s(zone: str | None) -> int:
    if zone is None or zone == "Z":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[-2:])
    return (hours * 3600 + minutes * 60) * (-1 if zone[0] == "-" else 1)
