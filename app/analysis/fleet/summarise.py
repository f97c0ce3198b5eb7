"""The summary of one run: what the saved queries, the diagnosis and the replay say of it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.analysis.diagnosis import diagnose_run
from app.analysis.headline import headline
from app.views.selftest import SOURCE
from app.views.whatif.analysis import Refusal, whatif_or_refusal
from diagnosis.findings import Diagnosis, Finding
from diagnosis.fleet.summary import (
    MOST,
    MOST_FINDINGS,
    MOST_HOSTS,
    MOST_MFU,
    MOST_NAME,
    MOST_RANKS,
    MOST_S,
    MOST_TEXT,
    OUTSIDE,
    Found,
    Summary,
)
from ingest.errors import printable
from ingest.run import Run
from ingest.run_folder.run_files import DECODER_SIZES
from ingest.stopping import Stop

_CLOCK_SET_NS = 946_684_800 * 10**9
"""2000-01-01: an earlier start is that of a clock that was never set."""
_UNITS = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))


def summarise(run: Run, version: str, state: str, stop: Stop | None = None) -> Summary:
    """Ask, judge and replay; raises UserError. `version`: of the code; `state`: of the index."""
    attempt = run.newest_attempt
    attempts: list[dict[str, Any]] = run.ask("run_summary", stop=stop).to_pylist()
    newest = attempts[-1] if attempts else {}
    goodput = _dated(run, run.ask("goodput", stop=stop).to_pylist())
    speed = run.ask("throughput", attempt=attempt, stop=stop).to_pylist()
    diagnosis = diagnose_run(run, None, stop)
    answer = whatif_or_refusal(run, stop=stop)
    refused = isinstance(answer, Refusal)
    layout = run.layout(attempt)
    num_ranks = _num_ranks(newest)
    wall_s = _sum(row["wall_s"] for row in goodput)
    trains = run.info["source"] != SOURCE  # a self-test has no step to wait for
    label, parameters = model_of(run.info.get("model"))
    return Summary(
        version=version,
        state=state,
        run=_cut(run.info["run"], MOST_NAME),
        started_ns=_started_ns(run, attempts),
        attempts=len(attempts),
        num_ranks=num_ranks,
        layout=_cut("" if layout is None else str(layout), MOST_NAME),
        model=label,
        parameters=parameters,
        num_steps=sum(row["num_steps"] for row in attempts),
        step_ms=_within(_median(row["step_ms"] for row in speed)),
        wall_s=_within(wall_s),
        rank_hours=_within(_hours(goodput, attempts, "wall_s")),
        goodput=_share(_sum(row["productive_s"] for row in goodput), wall_s) if trains else None,
        outside_hours={
            name: hours
            for name in OUTSIDE
            if trains and (hours := _within(_hours(goodput, attempts, f"{name}_s")))
        },
        mfu=_within(_median(row["mfu_ratio"] for row in speed), MOST_MFU),
        S=None if refused else _within(answer.metrics.S, MOST_S),
        no_S=_cut(answer.reason, MOST_TEXT) if refused and trains else "",
        judged=diagnosis.judged,
        num_noted=len(diagnosis.set_aside),
        is_partial=headline(diagnosis).tone == "warning",
        findings=_found(diagnosis),
        hosts=_hosts(run, attempt),
    )


def _num_ranks(row: Mapping[str, Any]) -> int:
    return max(row.get("world_size") or 0, row.get("num_ranks") or 0)


def _started_ns(run: Run, attempts: Sequence[Mapping[str, Any]]) -> int | None:
    """When the first attempt started by its ranks, else when the run was made; None where its
    times are not those of a calendar.
    """
    if run.info["clock"] != "absolute":
        return None
    known = [row["started_ns"] for row in attempts if row["started_ns"]]
    started_ns: int = min(known, default=run.info["created_ns"])
    return started_ns if started_ns >= _CLOCK_SET_NS else None


def _dated(run: Run, goodput: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of goodput.sql; without times where the start is not one of a calendar, as in files
    whose clock counts from another moment than their events.
    """
    is_dated = run.info["clock"] == "absolute"
    unknown = dict.fromkeys(("wall_s", *(f"{name}_s" for name in OUTSIDE)))
    return [
        row if is_dated and (row["started_ns"] or 0) >= _CLOCK_SET_NS else row | unknown
        for row in goodput
    ]


def _hours(
    goodput: Sequence[Mapping[str, Any]], attempts: Sequence[Mapping[str, Any]], column: str
) -> float | None:
    """A column of goodput.sql times the ranks of each attempt, in hours; None if one is unknown."""
    ranks = {row["attempt"]: _num_ranks(row) for row in attempts}
    parts = [
        None
        if row[column] is None
        else max(row[column], 0.0) * (row["num_ranks"] or ranks.get(row["attempt"], 0))
        for row in goodput
    ]
    total = _sum(parts)
    return None if total is None else total / 3600


def _sum(values: Iterable[float | None]) -> float | None:
    """None without values, or where one is unknown."""
    listed = list(values)
    known = [value for value in listed if value is not None]
    return sum(known) if listed and len(known) == len(listed) else None


def _share(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole or whole < part else part / whole


def _within(value: float | None, most: float = MOST) -> float | None:
    """The value; None for one that no run can have: it comes from files that lie."""
    is_possible = value is not None and math.isfinite(value) and 0 <= value <= most
    return value if is_possible else None


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return statistics.median(known) if known else None


def model_of(given: object) -> tuple[str, float | None]:
    """What to call a model of run.json, and how many parameters it has; '' and None not recorded.

    >>> model_of({"parameters": 3407872, "layers": 4})
    ('3.41M parameters, 4 layers', 3407872.0)
    """
    model = given if isinstance(given, dict) else {}
    sizes = {name: _size(model.get(name)) for name in (*DECODER_SIZES, "experts")}
    parameters, layers = sizes["parameters"], sizes["layers"]
    if isinstance(model.get("name"), str) and model["name"].strip():
        return _cut(model["name"].strip(), MOST_NAME), parameters
    words = [] if parameters is None else [f"{_short(parameters)} parameters"]
    words += [] if layers is None else [f"{layers:.0f} layers"]
    words += [] if sizes["experts"] is None else [f"{sizes['experts']:.0f} experts"]
    return ", ".join(words), parameters


def _size(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 < value < 1e18 else None


def _short(number: float) -> str:
    for factor, unit in _UNITS:
        if number >= factor:
            return f"{number / factor:.3g}{unit}"
    return f"{number:.0f}"


def _found(diagnosis: Diagnosis) -> tuple[Found, ...]:
    return tuple(_one(finding) for finding in diagnosis.findings[:MOST_FINDINGS])


def _one(finding: Finding) -> Found:
    ranks = [place.rank for place in finding.culprits]
    named = [*finding.hosts, *(place.host for place in finding.culprits if place.host)]
    return Found(
        id=_cut(finding.id, MOST_NAME),
        kind=finding.kind,
        title=_cut(finding.title, MOST_TEXT),
        severity=finding.severity,
        first_step=finding.first_step,
        hosts=tuple(_cut(host, MOST_NAME) for host in dict.fromkeys(named))[:MOST_HOSTS],
        ranks=tuple(ranks[:MOST_RANKS]),
        num_ranks=len(ranks),
        rank_hours=_within(finding.cost.rank_hours) if finding.cost else None,
        share=finding.cost.share if finding.cost else None,
    )


def _hosts(run: Run, attempt: int) -> tuple[str, ...]:
    named = [info.get("host") for info in run.ranks if info["attempt"] == attempt]
    return tuple(_cut(host, MOST_NAME) for host in dict.fromkeys(named) if host)[:MOST_HOSTS]


def _cut(text: str, length: int) -> str:
    return printable(text)[:length]
