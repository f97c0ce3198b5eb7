"""How often findings of each confidence are right, per world: a table and a plot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from benchmarks.accuracy.intervals import wilson
from benchmarks.accuracy.judge import Outcome
from benchmarks.accuracy.score import score, verdicts

TARGETS = {"high": 0.97, "medium": 0.85, "low": 0.60}
LOUD_ARE_HIGH = 0.6
ALL = "**all**"

_ROW, _LEFT, _WIDTH, _TOP = 22, 190, 420, 46


@dataclass
class Calibration:
    """Right findings and all, by confidence; located loud faults with high confidence, and all."""

    right: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TARGETS, 0))
    judged: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TARGETS, 0))
    loud_high: int = 0
    loud: int = 0

    def add(self, outcome: Outcome) -> None:
        """Count one job."""
        for finding, is_right in verdicts(outcome.labels, outcome.findings):
            self.judged[finding["confidence"]] += 1
            self.right[finding["confidence"]] += is_right
        if outcome.case.dose == "loud":
            for match in score(outcome.labels, outcome.findings).matches:
                self.loud += 1
                found = match.finding if match.is_located else None
                self.loud_high += found is not None and found["confidence"] == "high"


def calibrations(outcomes: Iterable[Outcome]) -> dict[str, Calibration]:
    """By world, and of all together."""
    found: dict[str, Calibration] = {}
    for outcome in outcomes:
        for name in (outcome.case.world, ALL):
            found.setdefault(name, Calibration()).add(outcome)
    return dict(sorted(found.items(), key=lambda item: (item[0] == ALL, item[0])))


def table(by_world: dict[str, Calibration]) -> list[str]:
    """One row per world: shares right with intervals, and loud faults that are high."""
    right = " | ".join(f"{name}: right" for name in TARGETS)
    head = f"| world | {right} | loud faults: high |"
    rows = []
    for world, one in by_world.items():
        cells = [_share(one.right[name], one.judged[name]) for name in TARGETS]
        rows.append(f"| {world} | {' | '.join(cells)} | {_share(one.loud_high, one.loud)} |")
    wanted = " | ".join(f">= {100 * share:.0f} %" for share in (*TARGETS.values(), LOUD_ARE_HIGH))
    return [head, "|---" * 5 + "|", *rows, f"| target | {wanted} |"]


def _share(part: int, whole: int) -> str:
    if not whole:
        return "-"
    low, high = wilson(part, whole)
    return f"{part} of {whole}: {100 * part / whole:.0f} % ({100 * low:.0f}-{100 * high:.0f})"


def plot(by_world: dict[str, Calibration]) -> str:
    """The table as SVG: shares with their intervals, and the target of each confidence."""
    lines: list[str] = []
    top = _TOP
    for name, target in TARGETS.items():
        lines += _text(10, top, f"{name}: right in at least {100 * target:.0f} %", "bold")
        top += _ROW
        begun = top - _ROW / 2
        for world, one in by_world.items():
            lines += _row(top, world.strip("*"), one.right[name], one.judged[name])
            top += _ROW
        lines.append(_line(_x(target), begun, _x(target), top - _ROW / 2, "#b91c1c", "4 3"))
        top += _ROW / 2
    axis = [piece for share in range(0, 101, 20) for piece in _tick(share, top)]
    body = "".join([*axis, *lines])
    size = f'width="{_LEFT + _WIDTH + 120}" height="{top + _ROW:.0f}"'
    title = "Share of findings that are right, by confidence and world (95 % intervals)"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
        f'<rect width="100%" height="100%" fill="#ffffff"/>{"".join(_text(10, 20, title))}'
        f"{body}</svg>\n"
    )


def _row(y: float, world: str, right: int, judged: int) -> Sequence[str]:
    name = _text(10, y, world)
    if not judged:
        return [*name, *_text(_LEFT, y, "no finding")]
    low, high = wilson(right, judged)
    mark = f'<circle cx="{_x(right / judged):.1f}" cy="{y - 4}" r="4" fill="#1d4ed8"/>'
    count = _text(_LEFT + _WIDTH + 12, y, f"{right} of {judged}")
    return [*name, _line(_x(low), y - 4, _x(high), y - 4, "#1d4ed8"), mark, *count]


def _tick(percent: int, bottom: float) -> list[str]:
    x = _x(percent / 100)
    return [_line(x, _TOP, x, bottom, "#e5e7eb"), *_text(x - 12, bottom + 8, f"{percent} %")]


def _x(share: float) -> float:
    return _LEFT + _WIDTH * share


def _line(x1: float, y1: float, x2: float, y2: float, color: str, dashes: str = "") -> str:
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{color}" stroke-width="2"{dashed}/>'


def _text(x: float, y: float, text: str, weight: str = "normal") -> list[str]:
    return [f'<text x="{x:.1f}" y="{y:.1f}" fill="#111827" font-weight="{weight}">{text}</text>']
