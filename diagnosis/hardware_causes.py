"""The hardware cause of a slow rank, host or link: which metric of its machine changed with it.

A finding that names ranks or hosts begins with a step. Metrics of those machines just before and
just after that moment (saved query device_levels) are compared; those that show a fault by
themselves are its hardware cause: a clock that falls, a reason to throttle, errors of a link, cores
taken by others. Levels that follow from slowness (power, bytes) are none. Where nothing was
recorded, it says so.

Source: meaning of the counters: nvml.h, Linux' sysfs-class-infiniband, proc(5), mlx5 counters.
Known false positives: a change by chance at the same time; so it is said as what happened, too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from diagnosis.findings import Evidence, Finding
from diagnosis.statistics.metric_words import value_text

QUESTION = "device_levels"
COMPUTE, NETWORK, STORAGE, ANY = "compute", "network", "storage", "any"

KINDS = {
    "slow_worker": COMPUTE,
    "host_contention": COMPUTE,
    "launch_skew": COMPUTE,
    "late_arrival": COMPUTE,
    "data_loader": STORAGE,
    "slow_checkpoint": STORAGE,
    "step_regression": ANY,
    "slow_host": NETWORK,
    "slow_link": NETWORK,
    "slow_node_link": NETWORK,
    "slow_dp_network": NETWORK,
    "link_flap": NETWORK,
    "comm_regression": NETWORK,
}
"""Kinds of findings that hardware explains, and what kind of hardware."""

MOST_HOSTS = 4
"""Machines of one finding that are looked at."""

BEFORE_S, AFTER_S, LEAST_AFTER_S = 120.0, 300.0, 15.0
"""How much is looked at; a finding that is over is looked at until its end."""

_MOST_NAMED = 3
_CPU_TIME = "process_cpu_seconds_total"
_TIMES = 2.0
"""A rate must be so many times what it was before, in addition to its sign's least rate."""


@dataclass(frozen=True)
class Sign:
    """What a metric shows. `metrics`: its names; `way`: falls (by the share `least`),
    rises (by `least`), counts (`least` a second more), bits, waits (for a core, `least` more of the
    time in which it could run). `of`: what it explains, joined by a space; "" all.
    """

    metrics: tuple[str, ...]
    way: str
    least: float
    words: str
    of: str = ""


_THROTTLE_BITS = {
    0x04: "software power cap",
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
"""nvml.h, nvmlClocksEventReason*; idle, application clocks, sync boost, display are none."""

SIGNS = (
    Sign(("gpu_xid_errors_total",), "counts", 1e-3, "Xid errors"),
    Sign(("gpu_ecc_uncorrected_total",), "counts", 1e-3, "uncorrected memory errors", COMPUTE),
    Sign(("gpu_sm_clock_mhz",), "falls", 0.05, "the SM clock falls", COMPUTE),
    Sign(("gpu_clock_event_reasons",), "bits", 0.0, "the clock is held down", COMPUTE),
    Sign(("gpu_hardware_thermal_time_total", "gpu_software_thermal_time_total"), "counts", 1e-3,
         "thermal throttling", COMPUTE),
    Sign(("gpu_power_brake_time_total",), "counts", 1e-3, "power brake", COMPUTE),
    Sign(("gpu_pcie_width",), "falls", 0.4, "the PCIe link narrows"),
    Sign(("gpu_pcie_generation",), "falls", 0.15, "the PCIe link slows down"),
    Sign(("gpu_pcie_replays_total",), "counts", 0.05, "PCIe replays"),
    Sign(("net_pcie_integrity_errors_total",), "counts", 0.01,
         "errors on the card's PCIe link", NETWORK),
    Sign(("gpu_nvlink_replays_total", "gpu_nvlink_recoveries_total", "gpu_nvlink_crc_errors_total"),
         "counts", 0.05, "NVLink errors"),
    Sign(("cpu_steal_seconds_total",), "counts", 0.05, "cores taken by the hypervisor"),
    Sign(("cgroup_cpu_throttled_seconds_total",), "counts", 0.05, "the CPU quota holds it back"),
    Sign(("cgroup_memory_limit_hits_total",), "counts", 1.0, "the memory limit is reached"),
    Sign(("swapped_in_pages_total", "swapped_out_pages_total"), "counts", 50.0, "swapping"),
    Sign(("allocation_stalls_total",), "counts", 1.0, "memory runs out"),
    Sign(("oom_kills_total", "cgroup_oom_kills_total"), "counts", 1e-3,
         "processes killed for memory"),
    Sign(("pressure_memory_full_seconds_total", "cgroup_pressure_memory_full_seconds_total"),
         "counts", 0.05, "tasks wait for memory"),
    Sign(("pressure_cpu_some_seconds_total",), "counts", 0.2, "tasks wait for cores", COMPUTE),
    Sign(("pressure_io_full_seconds_total",), "counts", 0.2, "tasks wait for a disk",
         f"{COMPUTE} {STORAGE}"),
    Sign(("pressure_io_some_seconds_total",), "counts", 0.3, "some task waits for a disk", STORAGE),
    Sign(("net_up", "nic_active"), "falls", 0.02, "the link was down", NETWORK),
    Sign(("net_carrier_changes_total", "net_link_down_events_total", "nic_link_downed_total"),
         "counts", 1e-3, "the link went down and up", NETWORK),
    Sign(("nic_link_recoveries_total",), "counts", 1e-3, "the link recovered from errors", NETWORK),
    Sign(("net_speed_bits_per_second", "nic_rate_bits_per_second"), "falls", 0.1,
         "the link agreed on a lower speed", NETWORK),
    Sign(("nic_symbol_errors_total", "net_symbol_errors_total", "net_crc_errors_total",
          "nic_integrity_errors_total", "nic_receive_errors_total", "net_receive_errors_total"),
         "counts", 0.01, "errors of the cable or its plugs", NETWORK),
    Sign(("tcp_retransmitted_segments_total", "nic_sequence_errors_total", "nic_ack_timeouts_total",
          "nic_adaptive_retransmits_total", "nic_out_of_sequence_total", "tcp_timeouts_total"),
         "counts", 1.0, "packets lost and sent again", NETWORK),
    Sign(("nic_congestion_notices_handled_total", "nic_ecn_marked_packets_total"), "counts", 10.0,
         "congestion", NETWORK),
    Sign(("net_receive_pause_seconds_total",), "counts", 0.02, "the network pauses it", NETWORK),
    Sign(("net_receive_pause_frames_total",), "counts", 100.0, "the network pauses it", NETWORK),
    Sign(("net_transmit_pause_frames_total",), "counts", 100.0, "it pauses the network", NETWORK),
    Sign(("nic_out_of_buffer_total", "net_receive_discards_total", "nic_transmit_discards_total"),
         "counts", 1.0, "packets dropped for lack of room", NETWORK),
)  # fmt: skip
"""Most telling first."""

PROCESS_SIGNS = (
    Sign(("process_stopped",), "rises", 0.1, "the process is stopped by a signal or a debugger"),
    Sign(("process_major_faults_total",), "counts", 20.0,
         "the process reads its memory from a disk", f"{COMPUTE} {STORAGE}"),
    Sign(("process_wait_seconds_total",), "waits", 0.15,
         "the main thread waits for a core", COMPUTE),
)  # fmt: skip
"""The same of a rank's own process: only of ranks that the finding names, where it names any."""


@dataclass(frozen=True)
class Window:
    """What to ask: the moment in Unix s, and how many seconds before and after it."""

    split_s: float
    before_s: float
    after_s: float


def hosts_of(finding: Finding, everyone: Sequence[str] = ()) -> tuple[str, ...]:
    """Machines whose metrics may explain a finding; none for other kinds.

    `everyone`: those of the job, of which some stand for all where a finding names nobody.
    """
    if finding.kind not in KINDS:
        return ()
    named = [*finding.hosts, *(place.host for place in finding.culprits)]
    hosts = named if _names(finding) else everyone
    return tuple(dict.fromkeys(host for host in hosts if host))[:MOST_HOSTS]


def window_of(finding: Finding, clock: pa.Table) -> Window | None:
    """When the finding, or its first episode, begins and ends, by the saved query step_clock; None
    if unknown.
    """
    rows = {row["step"]: row for row in clock.to_pylist()}
    first, last = (finding.episodes or ((finding.first_step, finding.last_step),))[0]
    steps = [step for step in rows if first <= step <= last]
    if not steps:
        return None
    begin_s = rows[min(steps)]["begin_ns"] / 1e9
    lasts_s = rows[max(steps)]["end_ns"] / 1e9 - begin_s
    return Window(begin_s, BEFORE_S, min(max(lasts_s, LEAST_AFTER_S), AFTER_S))


def with_hardware_cause(
    finding: Finding, levels: Mapping[str, pa.Table], window: Window | None
) -> Finding:
    """The finding with what changed on its machines. `levels`: rows of device_levels by host.

    Where it names nobody, what most of these hosts show.
    """
    hosts = hosts_of(finding) if _names(finding) else tuple(levels)
    if finding.kind not in KINDS:
        return finding
    recorded = {host: levels[host] for host in hosts if host in levels and levels[host].num_rows}
    if window is None or not recorded:
        if not _names(finding):
            return finding
        return _caused(finding, "Hardware cause: not recorded (no metrics of its machine).", ())
    ranks = [place.rank for place in finding.culprits]
    found = [
        (host, sign, row)
        for host, rows in recorded.items()
        for sign, row in signs_of(rows, KINDS[finding.kind], ranks)
    ]
    if not _names(finding):
        shown = Counter(sign for _, sign, _ in found)
        found = [one for one in found if 2 * shown.pop(one[1], 0) > len(recorded)]
    if not found:
        read, names = _read(recorded.values(), KINDS[finding.kind]), ", ".join(recorded)
        if not read:
            return _caused(finding, f"Hardware cause: not recorded of {names}.", ())
        text = f"Hardware cause: none of {read} metrics recorded of {names} changed with it."
        return _caused(finding, text, ())
    found = found[:_MOST_NAMED]
    sentences = "; ".join(_sentence(host, sign, row) for host, sign, row in found)
    evidence = tuple(_evidence(finding, host, sign, row, window) for host, sign, row in found)
    return _caused(finding, f"Hardware cause: {sentences}.", evidence)


def _names(finding: Finding) -> bool:
    return bool(finding.culprits or finding.hosts or finding.stages)


def signs_of(
    rows: pa.Table, of: str, ranks: Collection[int] = ()
) -> list[tuple[Sign, Mapping[str, Any]]]:
    """What changed, most telling first; of signs with several metrics or devices the strongest.

    `ranks`: those whose processes count; default: all of the machine.
    """
    found = []
    known = {(row["metric"], row["device"]): row for row in rows.to_pylist()}
    processes = {f"process rank {rank}" for rank in ranks}
    for sign in (*SIGNS, *PROCESS_SIGNS):
        if not _is_about(sign, of):
            continue
        changed = [
            row
            for (metric, device), row in known.items()
            if metric in sign.metrics
            and (not processes or not is_process(device) or device in processes)
            and _shows(sign, row, known.get((_CPU_TIME, device)))
        ]
        if changed:
            found.append((sign, max(changed, key=_strength)))
    return found


def _is_about(sign: Sign, of: str) -> bool:
    return of == ANY or not sign.of or of in sign.of.split()


def is_process(device: str | None) -> bool:
    """Whether a device of device_levels is the process of a rank."""
    return (device or "").startswith("process rank ")


def _shows(sign: Sign, row: Mapping[str, Any], cpu: Mapping[str, Any] | None) -> bool:
    before, after = _number(row["before"]), _number(row["after"])
    if sign.way == "bits":
        return bool(_new_bits(row))
    if sign.way == "counts":
        return after >= sign.least and after >= _TIMES * before  # unknown before: no sign
    if sign.way == "rises":
        return after - before >= sign.least
    if sign.way == "waits":
        return (
            cpu is not None
            and _waiting(row, cpu, "after") - _waiting(row, cpu, "before") >= sign.least
        )
    return before > 0 and after < (1 - sign.least) * before  # False where one is unknown


def _waiting(row: Mapping[str, Any], cpu: Mapping[str, Any], side: str) -> float:
    """Share of the time in which a process could run that it waited for a core: more work alone
    does not change it."""
    waited, ran = _number(row[side]), _number(cpu[side])
    return waited / (waited + ran) if waited + ran > 0 else math.nan


def _strength(row: Mapping[str, Any]) -> float:
    before, after = _number(row["before"]), _number(row["after"])
    change = abs(after - before) / max(abs(before), 1e-9)
    return change if math.isfinite(change) else 0.0


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _new_bits(row: Mapping[str, Any]) -> list[str]:
    """Reasons to throttle that hold afterwards and did not before."""
    before, after = _number(row["last_before"]), _number(row["last_after"])
    if math.isnan(after):
        return []
    old = 0 if math.isnan(before) else int(before)
    return [words for bit, words in _THROTTLE_BITS.items() if int(after) & bit and not old & bit]


def _read(tables: Iterable[pa.Table], of: str) -> int:
    """How many metrics with a meaning for this kind of fault have values on both sides."""
    signs = (*SIGNS, *PROCESS_SIGNS)
    known = {name for sign in signs if _is_about(sign, of) for name in sign.metrics}
    return len(
        {
            row["metric"]
            for rows in tables
            for row in rows.to_pylist()
            if row["metric"] in known and row["before"] is not None and row["after"] is not None
        }
    )


def _sentence(host: str, sign: Sign, row: Mapping[str, Any]) -> str:
    device = row["device"]
    where = host if device in (None, "", "host") else f"{device} of {host}"
    if sign.way == "bits":
        return f"{sign.words} ({', '.join(_new_bits(row))}) on {where}"
    name, before, after = row["metric"], _number(row["before"]), _number(row["after"])
    was = "not known" if math.isnan(before) else value_text(name, before)
    return f"{sign.words} on {where} ({name} from {was} to {value_text(name, after)})"


def _evidence(
    finding: Finding, host: str, sign: Sign, row: Mapping[str, Any], window: Window
) -> Evidence:
    number = row["last_after"] if sign.way == "bits" else row["after"]
    sentence = f"{_sentence(host, sign, row)} from the first of these steps on."
    params = (
        ("host", host),
        ("split_s", window.split_s),
        ("before_s", window.before_s),
        ("after_s", window.after_s),
        ("attempt", finding.attempt),
    )
    steps = (finding.first_step, finding.last_step)
    view = (("page", "timeline"), ("attempt", finding.attempt), ("steps", steps))
    return Evidence(sentence[0].upper() + sentence[1:], float(number), "", QUESTION, params, view)


def _caused(finding: Finding, sentence: str, evidence: Sequence[Evidence]) -> Finding:
    cause = f"{finding.cause} {sentence}".strip()
    return replace(finding, cause=cause, evidence=(*finding.evidence, *evidence))
