"""faulty_machine: one machine's metrics leave those of its peers, and stay away.

Each second a machine is compared with the median of the machines of its role. What is away from its
own usual place, in units of the job's usual noise, is summed up (CUSUM); so is what the principal
components of all metrics together do not explain. A machine is named once a sum is higher than
healthy ones get (conformal, Holm over machines x metrics) and has been for about a minute without a
break. Metrics are known by no name: each that enough machines record is judged.

Source: residuals among peers and continuity as in Minder (2411.01791), without its networks; the
decision is ours. Assumes: at least four machines, samples a few seconds apart. Known false
positives: work that one machine alone does for two minutes while the others rest (the only writer
of a checkpoint). Blind spots: a machine that differs since before the first sample;
faults that come and go within a minute; of many machines at once no single one is named. Cost: one
pass over the seconds; the state (watch.py) also takes them one by one.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from diagnosis.detectors.faulty_machine.series import (
    FEWEST_MACHINES,
    Series,
    comparable,
    series_of,
)
from diagnosis.detectors.faulty_machine.text import StepClock, finding_of, many_text
from diagnosis.detectors.faulty_machine.watch import WARM_UP_S, MachineWatch
from diagnosis.findings import Finding, NotEnoughData, Place, Verdict
from diagnosis.statistics.rank_tables import AXES

NAME = "faulty_machine"
KINDS = ("faulty_machine",)
QUESTIONS = ("machine_seconds", "rank_places", "step_clock")


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
    """Verdict on the samples in `tables`; None where no machine, or a single one, has any."""
    recorded = series_of(tables["machine_seconds"])
    if recorded is None or len(recorded.machines) < 2:
        return None
    if len(recorded.machines) < FEWEST_MACHINES:
        return _missing("Fewer than four machines recorded metrics: none is compared with others.")
    series = comparable(recorded)
    if not series.metrics:
        return _missing("No metric was recorded by four machines or more.")
    places = _places(tables["rank_places"])
    watch = watched(series, places)
    if not watch.is_warm:
        return _missing(
            f"Metrics of machines were recorded for {series.num_seconds:,} s; what is usual shows "
            f"after {WARM_UP_S:.0f} s."
        )
    clock = StepClock.of(tables["step_clock"])
    findings: dict[str, Finding] = {}
    for alarm in watch.alarms:  # of several alarms of a machine the newest
        findings[alarm.machine] = finding_of(
            series, alarm, places.get(alarm.machine, ()), clock, attempt
        )
    checked = (
        f"No {'other ' if findings else ''}machine left its peers for a minute: "
        f"{len(series.machines):,} machines compared by {len(series.metrics)} metrics."
    )
    set_aside = tuple(many_text(each, len(series.machines)) for each in watch.many)
    return Verdict(NAME, tuple(findings.values()), checked, set_aside=set_aside)


def watched(series: Series, places: Mapping[str, tuple[Place, ...]]) -> MachineWatch:
    """A watch that has seen all of the series. Its role is what a machine's ranks are stages of."""
    roles = [
        tuple(sorted({dict(place.coords).get("pp", -1) for place in places.get(machine, ())}))
        for machine in series.machines
    ]
    watch = MachineWatch(series.machines, series.metrics, roles, series.period_s)
    watch.push(series.values_MTN)
    return watch


def _places(rows: pa.Table) -> dict[str, tuple[Place, ...]]:
    """Ranks by machine."""
    found: dict[str, tuple[Place, ...]] = {}
    for row in rows.to_pylist():
        if row["host"] is not None:
            coords = tuple((axis, row[axis]) for axis in AXES if row.get(axis) is not None)
            place = Place(row["rank"], row["host"], coords)
            found[row["host"]] = (*found.get(row["host"], ()), place)
    return found


def _missing(sentence: str) -> Verdict:
    return Verdict(NAME, not_enough=(NotEnoughData(NAME, sentence),))
