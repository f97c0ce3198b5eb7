"""The words of a faulty_machine finding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from diagnosis.detectors.faulty_machine.series import Series
from diagnosis.detectors.faulty_machine.watch import (
    ABSENT,
    AT_ONCE_S,
    TOGETHER,
    Alarm,
    Deviation,
    Many,
)
from diagnosis.findings import Evidence, Finding, Place
from diagnosis.statistics.evidence_links import View
from diagnosis.statistics.metric_words import metric_words, value_text
from diagnosis.statistics.rank_tables import Ints

_MOST_EVIDENCE, _MOST_NAMED, _SEVERAL = 6, 8, 3
QUESTION = "machine_seconds"


@dataclass(frozen=True)
class StepClock:
    """Which step was under way when. Empty where no step was recorded."""

    step_S: Ints
    begin_ns_S: Ints

    @classmethod
    def of(cls, rows: pa.Table) -> StepClock:
        """Of the saved query step_clock."""
        return cls(rows["step"].to_numpy(), rows["begin_ns"].to_numpy())

    def step_at(self, second: float) -> int:
        """The step under way at this Unix second, the nearest one outside of all; 0 of none."""
        if not self.step_S.size:
            return 0
        at = int(np.searchsorted(self.begin_ns_S, int(second * 1e9), side="right")) - 1
        return int(self.step_S[max(at, 0)])


def finding_of(
    series: Series, alarm: Alarm, ranks: Sequence[Place], clock: StepClock, attempt: int
) -> Finding:
    """The finding of one machine."""
    ends_s = series.num_seconds if alarm.end_s is None else alarm.end_s
    first = clock.step_at(series.begin_s + alarm.begin_s)
    last = max(clock.step_at(series.begin_s + ends_s), first)
    ongoing = alarm.end_s is None
    steps = (first, last)
    evidence = _evidence(series, alarm, ends_s, steps, attempt)
    many = len(alarm.deviations) >= _SEVERAL
    confidence = "high" if many and not alarm.others else "medium"
    return Finding(
        kind="faulty_machine",
        attempt=attempt,
        severity="urgent" if ongoing else "past",
        confidence=confidence,
        title=f"Machine {alarm.machine} {'differs' if ongoing else 'differed'} from its peers",
        text=_text(alarm, ends_s, first, len(series.machines)),
        culprits=tuple(ranks),
        first_step=first,
        last_step=last,
        ongoing=ongoing,
        evidence=evidence,
        alternatives=_alternatives(alarm),
        next_step=f"Look at the kernel log, the devices and the links of {alarm.machine}; if they "
        "show nothing, run the self-test on it and a peer, and replace it if it stays different.",
        hosts=(alarm.machine,),
        cause=_cause(alarm),
        advice="cordon_node" if ongoing and confidence == "high" else "",
    )


def many_text(many: Many, num_machines: int) -> str:
    """A sentence for several machines at once."""
    left_out = len(many.machines) - _MOST_NAMED
    names = ", ".join(many.machines[:_MOST_NAMED]) + (
        f" and {left_out} more" if left_out > 0 else ""
    )
    return (
        f"{len(many.machines)} of {num_machines} machines ({names}) left the others within "
        f"{AT_ONCE_S:.0f} s of each other: a cause that they share (a switch, power, storage), so "
        "no single machine is named."
    )


def _text(alarm: Alarm, ends_s: int, first: int, num_machines: int) -> str:
    verb = "has differed" if alarm.end_s is None else "differed"
    return (
        f"It {verb} from the {num_machines - 1:,} other machines for {ends_s - alarm.begin_s:,} s, "
        f"since step {first}: {_changes(alarm)}; noticed after {alarm.alarm_s - alarm.begin_s} s."
    )


def _cause(alarm: Alarm) -> str:
    return f"Metrics of {alarm.machine} changed, and those of its peers did not: {_changes(alarm)}."


def _changes(alarm: Alarm) -> str:
    return _listed([_words(each) for each in alarm.deviations])


def _listed(words: Sequence[str]) -> str:
    shown = list(dict.fromkeys(words))
    more = f" and {len(shown) - 4} more" if len(shown) > 4 else ""
    return ", ".join(shown[:4]) + more


def _words(deviation: Deviation) -> str:
    if deviation.metric == ABSENT:
        return "samples missing"
    if deviation.metric == TOGETHER:
        return "metrics out of proportion to each other"
    return f"{metric_words(deviation.metric)} {'higher' if deviation.sigmas > 0 else 'lower'}"


def _evidence(
    series: Series, alarm: Alarm, ends_s: int, steps: tuple[int, int], attempt: int
) -> tuple[Evidence, ...]:
    view: View = (("page", "timeline"), ("attempt", attempt), ("steps", steps))
    machine = series.machines.index(alarm.machine)
    found = []
    for deviation in alarm.deviations:
        if deviation.metric in series.metrics:
            evidence = _level(series, machine, deviation, ends_s, attempt, view)
            found += [evidence] if evidence is not None else []
    found = found[:_MOST_EVIDENCE]
    duration = Evidence(
        f"{alarm.machine} has stood out for {ends_s - alarm.begin_s:,} s, by "
        f"{len(alarm.deviations)} of {len(series.metrics)} metrics and sums.",
        float(ends_s - alarm.begin_s),
        "s",
        QUESTION,
        (("host", alarm.machine), ("attempt", attempt)),
        view,
    )
    return (*found, duration)


def _level(
    series: Series, machine: int, deviation: Deviation, ends_s: int, attempt: int, view: View
) -> Evidence | None:
    """Mean since it began against the median of the others; None where it has no sample since."""
    span = slice(deviation.since_s // series.period_s, max(ends_s // series.period_s, 1))
    values_TN = series.values_MTN[series.metrics.index(deviation.metric), span]
    own_T, others_TN = values_TN[:, machine], np.delete(values_TN, machine, axis=1)
    if not np.isfinite(own_T).any() or not np.isfinite(others_TN).any():
        return None
    own, others = float(np.nanmean(own_T.astype(float))), float(np.nanmedian(others_TN))
    name, _, of = deviation.metric.partition(" (")
    params = (
        ("host", series.machines[machine]),
        ("metric", name),
        ("from_s", series.begin_s + deviation.since_s),
        ("until_s", series.begin_s + ends_s - series.period_s),
        ("attempt", attempt),
    )
    which = f" of its {of.rstrip(')')} device" if of else ""
    chance = "" if not math.isfinite(deviation.p) else f"; by chance {deviation.p:.0e}"
    return Evidence(
        f"{metric_words(deviation.metric)}{which}: {value_text(name, own)}; the median of the "
        f"others is {value_text(name, others)} ({deviation.sigmas:+.0f} sigma{chance}).",
        round(own, 6),
        "",
        QUESTION,
        params,
        view,
    )


def _alternatives(alarm: Alarm) -> tuple[str, ...]:
    found = ["Another job or a service on this machine.", "Work that this machine alone does."]
    if any(deviation.metric == ABSENT for deviation in alarm.deviations):
        found.append("The sampler on it stopped, and nothing else did.")
    if alarm.others:
        names = ", ".join(alarm.others[:_MOST_NAMED])
        found.append(f"A cause that it shares with machines that differ less: {names}.")
    return tuple(found)
