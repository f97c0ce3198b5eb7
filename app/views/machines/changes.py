"""What changed on the machines, as sentences, and what could not be read and how to get it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.views.machines.host_map import OF_THE_TIME, title_of, unit_of
from diagnosis.hardware_causes import SIGNS
from ingest.run import Run
from ingest.stopping import Stop
from trace_hooks.telemetry.names import CLOCK_EVENTS, METRICS

MOST_CHANGES = 200

TELLING = ",".join(name for sign in SIGNS for name in sign.metrics)
"""Metrics that may show a fault by themselves."""

_LEVELS = ",".join(name for sign in SIGNS if sign.way == "falls" for name in sign.metrics)
_LEAST_OF_LEVELS = 0.1
"""Least change of these where they are noisy, as a share: a GPU whose clock falls by a tenth makes
its whole job wait. Others (power, bytes) follow the work and change by more without a fault.
"""

_REMEDIES = (
    ("nvidia-ml-py is not installed", "Run pip install nvidia-ml-py in the job's environment."),
    ("amdsmi is not installed", "Install ROCm's amdsmi package in the job's environment."),
    ("Permission denied: /dev/kmsg", "Ask for kernel.dmesg_restrict = 0, or for CAP_SYSLOG."),
    ("Permission denied", "The sampler's user may not read it."),
    ("no answer for", "The driver hangs: look at the kernel's log of this host."),
    ("GPU is lost", "The GPU has fallen off the bus: reboot the node."),
    ("Not Supported", "This device does not have it."),
)
"""Part of a reason, and what to do about it."""


def changes(
    run: Run, attempt: int, stop: Stop | None = None, metrics: str | None = None
) -> list[dict[str, Any]]:
    """Changes with a sentence each, in order of time; times are ns since the run's t0. `metrics`:
    only these, comma-separated.
    """
    rows = changed_rows(run, attempt, metrics, {"limit": MOST_CHANGES, "stop": stop})
    ranks = ranks_of_devices(run, attempt)
    t0_ns = run.info["created_ns"]
    return [
        {
            "host": row["host"],
            "device": row["device"],
            "metric": row["metric"],
            "step": row["step"],
            "at_ns": row["ts_ns"] - t0_ns,
            "kind": row["kind"],
            "before": _value_of(row, "before"),
            "after": _value_of(row, "after"),
            "ranks": ranks_of_device(row, ranks),
            "text": sentence(row, ranks_of_device(row, ranks)),
        }
        for row in rows
    ]


def changed_rows(
    run: Run, attempt: int, metrics: str | None, options: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Rows of the question machine_changes in order of time, with smaller changes of levels such as
    clocks. `options`: more of `Run.ask`; raises as that does.
    """
    asked = {"metrics": metrics, "levels": _LEVELS, "less_ratio": _LEAST_OF_LEVELS}
    return run.ask("machine_changes", attempt=attempt, **asked, **options).to_pylist()


OfDevices = dict[tuple[str, str], list[int]]
"""Ranks by (host, device)."""


def ranks_of_device(row: Mapping[str, Any], of_devices: OfDevices) -> list[int]:
    """Ranks that a change concerns: that of the process, or those of the device."""
    if row["rank"] >= 0:
        return [row["rank"]]
    return of_devices.get((row["host"], row["device"]), [])


def sentence(row: Mapping[str, Any], ranks: Sequence[int] = ()) -> str:
    """`SM clock of node5 gpu 1a2b (rank 43) falls from 1,980 MHz to 1,110 MHz, thermal, ...`."""
    kind = row["device"].partition(":")[0]
    who = f"{row['host']} {short_device(row['device'])}".strip()
    if row["rank"] >= 0:
        who = f"rank {row['rank']}"
    elif kind == "gpu" and len(ranks) == 1:
        who += f" (rank {ranks[0]})"
    step = f"with step {row['step']:,}"
    why = clock_events_text(row["clock_events"]) if kind == "gpu" else ""
    if row["metric"] == "gpu_clock_event_reasons":
        return f"Clock of {who} is held down: {why or 'no longer'}, {step}"
    what = title_of(row["metric"].removeprefix(f"{kind}_"))
    what = what[0].upper() + what[1:]
    before, after = row["before"], row["after"]
    if row["kind"] == "count":
        how = f"rises by {value_text(after - before, '')}"
    else:
        verb = "falls" if after < before else "rises"
        how = f"{verb} from {value_text(before, _unit(row))} to {value_text(after, _unit(row))}"
    return f"{what} of {who} {how}{f', {why},' if why else ''} {step}"


def _value_of(row: Mapping[str, Any], when: str) -> str:
    if row["metric"] == "gpu_clock_event_reasons" and row[when] is not None:
        return clock_events_text(int(row[when])) or "not held down"
    return value_text(row[when], _unit(row))


def clock_events_text(bits: int | None) -> str:
    """What held a GPU's clock down: thermal, power limit; '' nothing but idleness."""
    if not bits:
        return ""
    return " and ".join(text for bit, text in CLOCK_EVENTS.items() if bits & bit and bit != 1)


def short_device(device: str) -> str:
    """A device for a sentence: the first part of a GPU's UUID is enough."""
    kind, _, name = device.partition(":")
    if device in ("host", "cgroup", "process"):
        return "" if device == "host" else device
    return f"{kind} {name.split('-')[0] if kind == 'gpu' else name}"


def value_text(value: float | None, unit: str) -> str:
    """A value in its unit, with three digits: 1,110 MHz, 2.5 GB/s."""
    if value is None:
        return "unknown"
    if unit == OF_THE_TIME:
        return f"{100 * value:.3g} % {unit}"
    if unit in ("B", "B/s", "bit/s"):
        for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
            if abs(value) >= factor:
                return f"{value / factor:.3g} {prefix}{unit}"
    text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{text} {unit}".rstrip()


def _unit(row: Mapping[str, Any]) -> str:
    if row["kind"] == "count":
        return ""
    about = METRICS.get(row["metric"])
    return unit_of(row["metric"]) if row["kind"] == "level" or about is None else about.unit


def unreadable(run: Run, attempt: int, stop: Stop | None = None) -> list[dict[str, Any]]:
    """What could not be read, why, and what to do about it."""
    rows = run.ask("unreadable_metrics", attempt=attempt, stop=stop).to_pylist()
    return [
        {
            "what": title_of(row["metric"].removesuffix("_readable")),
            "kind": row["kind"],
            "reason": row["reason"].removeprefix("not there: "),
            "is_there": row["is_there"],
            "hosts": row["hosts"],
            "num_hosts": row["num_hosts"],
            "remedy": remedy(row["reason"]) if row["is_there"] else "",
        }
        for row in rows
    ]


def remedy(reason: str) -> str:
    """What to do about a reason; '' nothing known."""
    return next((text for part, text in _REMEDIES if part in reason), "")


def ranks_of_devices(run: Run, attempt: int) -> OfDevices:
    """Ranks of each GPU, by its UUID, and of each host."""
    found: OfDevices = {}
    for info in run.ranks:
        if info["attempt"] != attempt:
            continue
        uuid = (info.get("device_uuid") or "").removeprefix("GPU-")
        names: Sequence[str] = (f"gpu:{uuid}",) if uuid else ()
        for device in ("host", *names):
            found.setdefault((info["host"], device), []).append(info["rank"])
    return found


def host_of_rank(run: Run, attempt: int, rank: int) -> str:
    """Host of a rank; '' unknown."""
    return next(
        (info["host"] for info in run.ranks if (info["attempt"], info["rank"]) == (attempt, rank)),
        "",
    )
