"""The key figures on top of the overview: now, against a baseline of the run, and over time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.views.run.hook_costs import warm_from
from app.views.run.kpi import Kpi
from app.views.run.kpi_baseline import (
    FIRST_STEPS,
    Scope,
    Series,
    baseline_of,
    change_of,
    now_of,
)
from app.views.run.pipelines import NO_LATE_RANK, may_have_pipeline
from app.views.run.recorded_kpis import recorded_kpis
from app.views.run.reporting_kpi import reporting
from app.views.run.without_steps import recorded
from diagnosis.statistics.step_levels import WARM_UP_STEPS
from diagnosis.statistics.units import steps_text
from ingest.run import Run

HOOK_STEPS = 100
"""Newest steps whose heartbeats give the hooks' cost: a long run of many ranks has millions."""
IDLE_PARTS = (
    ("waiting_ratio", "waiting"),
    ("bubble_other_ratio", "host"),
    ("not_visible_ratio", "not visible"),
)
"""Share and label of what is idle besides the bubble."""
_LEAST_SHOWN = 0.05
"""Percent; a smaller value would be displayed as 0.0."""
LEAST_DATA_WAIT = 0.05
"""Share of all ranks' time from which on waiting for data has a tile."""
TIMES_USUAL = 3.0
"""A newest step this many times as long as usual stands on the tile by itself."""


@dataclass(frozen=True)
class Measured:
    """The tiles that change only with new data. `ended`: how many ranks ended each step."""

    kpis: tuple[Kpi, ...]
    ended: tuple[tuple[int, float], ...]


def kpis(run: Run, attempt: int | None, scope: Scope) -> tuple[Kpi, ...]:
    """The tiles with known values; raises UserError."""
    return with_reporting(run, attempt, measured(run, attempt, scope), time.time_ns())


def measured(run: Run, attempt: int | None, scope: Scope) -> Measured:
    """All tiles except that of reporting ranks; raises UserError."""
    filters: dict[str, Any] = {} if attempt is None else {"attempt": attempt}
    job = run.ask("steps", step_min=0, **filters).to_pylist()
    if not job and run.state == "finished":  # there will be no steps
        newest = run.newest_attempt if attempt is None else attempt
        return Measured(tuple(recorded_kpis(recorded(run, newest))), ())
    shares = [
        row
        for row in run.ask("job_shares", **filters).to_pylist()
        if row["not_visible_ratio"] < 1  # else nothing is known of the step but its length
    ]
    lost = run.ask("time_lost", **filters).to_pylist()
    speed = run.ask("throughput", **filters).to_pylist() if _has_flops(run, job) else []
    waits = _pipeline_bubble(run, attempt, scope) or _no_late_rank(shares, scope)
    has_communication = any(row["exposed_comm_ratio"] for row in shares)  # else 0 % is not known
    tiles = [
        _step_time(_series(job, "step_ms"), scope),
        _mfu(_series(speed, "mfu_ratio"), scope),
        *([waits, _exposed(shares, scope)] if has_communication else []),
        _data_wait(_series(shares, "data_wait_ratio"), scope),
        _lost(_series(lost, "lost_ratio"), scope),
        _hook_cost(run, attempt, _newest(job, HOOK_STEPS)),
    ]
    ended = tuple(_series(job, "num_finished"))
    return Measured(tuple(kpi for kpi in tiles if kpi is not None), ended)


def with_reporting(run: Run, attempt: int | None, known: Measured, now_ns: int) -> tuple[Kpi, ...]:
    """All tiles at a time, Unix ns: that of reporting ranks comes before the hooks' cost."""
    tile = reporting(run, attempt, known.ended, now_ns)
    position = next(
        (n for n, kpi in enumerate(known.kpis) if kpi.key == "hook_cost"), len(known.kpis)
    )
    return (*known.kpis[:position], *([tile] if tile else []), *known.kpis[position:])


def _newest(job: Sequence[dict[str, Any]], num_steps: int) -> int:
    """The first of this many newest steps."""
    return int(job[-1]["step"]) - num_steps + 1 if len(job) >= num_steps else -1


def _has_flops(run: Run, job: Sequence[dict[str, Any]]) -> bool:
    """Whether the FLOPs of a step may be known; otherwise the query is not needed."""
    return bool(run.info.get("model")) or any(row["flops"] is not None for row in job)


def _series(rows: Sequence[dict[str, Any]], name: str) -> Series:
    return [(row["step"], row[name]) for row in rows if row[name] is not None]


def _step_time(series: Series, scope: Scope) -> Kpi | None:
    now = now_of(series, scope.steps)
    if not now:
        return None
    base = baseline_of(series, now, scope)
    value = statistics.median(v for _, v in now)
    text, unit = _time(value)
    detail, tone = change_of(value, base, higher_is_bad=True, is_time=True)
    newest = _newest_if_long(series)
    shown = f"wall time, {_median_of(now)}"
    return Kpi(
        "step_time",
        "Step time",
        text,
        unit,
        detail,
        "The time of a step is that of its slowest pipeline group.",
        "bad" if newest else tone,
        tuple(series),
        base.value if base else None,
        base.text if base else "",
        f"{shown}; {newest}" if newest else shown,
    )


def _median_of(series: Series) -> str:
    """ "median of steps 6 to 9", "of step 6"."""
    steps = steps_text(series[0][0], series[-1][0])
    return f"median of {steps}" if len(series) > 1 else f"of {steps}"


def _newest_if_long(series: Series) -> str:
    """The newest step where it took TIMES_USUAL as long as the others: their median hides it."""
    if len(series) <= FIRST_STEPS:
        return ""
    usual = statistics.median(value for _, value in series[:-1])
    step, value = series[-1]
    if value < TIMES_USUAL * usual:
        return ""
    text, unit = _time(value)
    return f"newest step {step}: {text} {unit}, {value / usual:.1f}x the usual"


def _time(value_ms: float) -> tuple[str, str]:
    if value_ms >= 1e4:
        return f"{value_ms / 1e3:.2f}", "s"
    return (f"{value_ms:,.0f}" if value_ms >= 100 else f"{value_ms:.3g}"), "ms"


def _share(
    key: str,
    label: str,
    series: Series,
    scope: Scope,
    meaning: str,
    higher_is_bad: bool = True,
    extra: str = "",
) -> Kpi | None:
    now = now_of(series, scope.steps)
    if not now:
        return None
    base = baseline_of(series, now, scope)
    value = statistics.median(v for _, v in now)
    detail, tone = change_of(value, base, higher_is_bad, is_time=False)
    return Kpi(
        key,
        label,
        f"{100 * value:.1f}",
        "%",
        detail,
        f"{meaning} Wall time, {_median_of(now)}.",
        tone,
        tuple(series),
        base.value if base else None,
        base.text if base else "",
        extra,
    )


def _mfu(series: Series, scope: Scope) -> Kpi | None:
    meaning = "Model FLOPs per step / (step time x ranks x peak of a device)."
    return _share("mfu", "MFU", series, scope, meaning, higher_is_bad=False)


def _pipeline_bubble(run: Run, attempt: int | None, scope: Scope) -> Kpi | None:
    """As page Efficiency has it; None without a pipeline, or where waiting is not known, or nothing
    of the steps but their length.
    """
    if not may_have_pipeline(run, attempt):
        return None
    filters = {} if attempt is None else {"attempt": attempt}
    times = [
        row
        for row in run.ask("device_time", **filters).to_pylist()
        if row["waiting_known"] and row["unseen_ms"] < row["step_ms"]
    ]
    if run.layout(attempt) is None and not any(row["pipeline_ms"] > 0 for row in times):
        return None
    return _idle_tile(
        "Pipeline bubble",
        [_idle_shares(row) for row in times],
        scope,
        "Idle in groups that cross pipeline stages, by the schedule or for a late stage: share of "
        "all ranks' time. Idle besides: waiting for other ranks of the same stage",
    )


def _idle_shares(row: dict[str, Any]) -> dict[str, Any]:
    host_ms = row["host_ms"] + row["gc_ms"] + row["checkpoint_ms"]
    return {
        "step": row["step"],
        "bubble_ratio": row["pipeline_ms"] / row["step_ms"],
        "waiting_ratio": row["waiting_ms"] / row["step_ms"],
        "bubble_other_ratio": host_ms / row["step_ms"],
        "not_visible_ratio": row["unseen_ms"] / row["step_ms"],
    }


def _no_late_rank(shares: Sequence[dict[str, Any]], scope: Scope) -> Kpi | None:
    """Without a pipeline there is no schedule that ranks wait for."""
    return _idle_tile(
        NO_LATE_RANK.capitalize(),
        [{**row, "bubble_ratio": row["schedule_ratio"]} for row in shares],
        scope,
        "Waiting in communication although no single rank arrived last: share of all ranks' time. "
        "Idle besides: waiting for a rank that arrived last",
    )


def _idle_tile(
    label: str, shares: Sequence[dict[str, Any]], scope: Scope, meaning: str
) -> Kpi | None:
    parts = []
    for name, cause in IDLE_PARTS:
        now = now_of(_series(shares, name), scope.steps)
        value = 100 * statistics.median(v for _, v in now) if now else 0.0
        if now and (name == "waiting_ratio" or value >= _LEAST_SHOWN):
            parts.append(f"{cause} {value:.1f}")
    tile = _share(
        "bubble",
        label,
        _series(shares, "bubble_ratio"),
        scope,
        f"{meaning}; host work (garbage collection, checkpoints, host code, copies); time that "
        "nothing recorded.",
        extra="idle: " + ", ".join(parts) + "\u00a0%" if parts else "",
    )
    # less of it is no improvement: a rank that arrives late turns it into waiting
    return replace(tile, tone="plain") if tile is not None and tile.tone == "good" else tile


def _exposed(shares: Sequence[dict[str, Any]], scope: Scope) -> Kpi | None:
    parts = []
    for axis in ("tp", "pp", "dp", "ep"):
        now = now_of(_series(shares, f"{axis}_ratio"), scope.steps)
        value = statistics.median(v for _, v in now) if now else 0.0
        if value > 0:
            parts.append(f"{axis.upper()} {100 * value:.1f}")
    return _share(
        "exposed_comm",
        "Exposed communication",
        _series(shares, "exposed_comm_ratio"),
        scope,
        "Communication not hidden by compute, waiting included; share of all ranks' time.",
        extra=", ".join(parts) + ("\u00a0%" if parts else ""),
    )


def _data_wait(series: Series, scope: Scope) -> Kpi | None:
    now = now_of(series, scope.steps)
    if not now or statistics.median(value for _, value in now) < LEAST_DATA_WAIT:
        return None
    meaning = "Time that ranks are blocked on the next batch: a share of all ranks' time."
    return _share("data_wait", "Data wait", series, scope, meaning, extra="of all ranks' time")


def _lost(series: Series, scope: Scope) -> Kpi | None:
    return _share(
        "time_lost",
        "Waiting for late ranks",
        series,
        scope,
        "Time that ranks wait for the last arrival in groups within their stage, summed over all "
        "ranks: a share of all ranks' time. No cost of a finding: that is by how much steps are "
        "longer.",
        extra="of all ranks' time",
    )


def _hook_cost(run: Run, attempt: int | None, newest: int) -> Kpi | None:
    attempt = run.newest_attempt if attempt is None else attempt
    filters = {"attempt": attempt, "step_min": max(newest, warm_from(run, attempt))}
    rows = run.ask("hook_cost", **filters).to_pylist()
    known = [row["cost_ratio"] for row in rows if row["cost_ratio"] is not None]
    if not known:
        return None
    dropped = sum(row["dropped"] or 0 for row in rows)
    per_step = [row["self_ms_per_step"] for row in rows if row["self_ms_per_step"] is not None]
    extra = [f"{statistics.mean(per_step):.1f} ms per step"] if per_step else []
    files = [row["host_files_per_s"] for row in rows if row["host_files_per_s"] is not None]
    if files:
        extra.append(f"{max(files):.2g} files/s on a host")
    return Kpi(
        "hook_cost",
        "Hook cost",
        f"{100 * statistics.mean(known):.2f}",
        "%",
        f"{dropped:,} rows dropped" if dropped else "no rows dropped",
        "Time that the hooks themselves take, divided by the elapsed time of the job; mean over "
        f"ranks in the last {HOOK_STEPS} steps, without the first {WARM_UP_STEPS}. Dropped rows: "
        "records that were lost because the hooks could not keep or write them. Files: of the "
        "host that publishes most.",
        "bad" if dropped else "plain",
        tuple(_series(run.ask("hook_cost_by_step", **filters).to_pylist(), "cost_ratio")),
        extra=", ".join(extra),
    )
