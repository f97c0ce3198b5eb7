"""Every metric of `host_metrics`: its name with unit, what it is, and when it is written.

Counters end in `_total` and hold what the device counts, since it started; a value below the one
before is a reset. Readers of other tools' files translate into these names.
Sources: proc(5), Linux' cgroup-v1, cgroup-v2 and sysfs-class-infiniband documentation, NVIDIA's
counters of mlx5 devices, nvml.h, AMD SMI's gpu_metrics.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Pace = Literal["second", "change", "minute"]
"""When a metric is written: each second, as detectors need it (memory every five seconds, disks and
processes every two); when it changes, and once a minute; once a minute.
"""

HOST, CGROUP, PROCESS = "host", "cgroup", "process"
"""Devices without a name of their own; others are gpu:UUID, nic:mlx5_0/1, net:eth0, disk:sda."""


@dataclass(frozen=True)
class Metric:
    """One metric; `device`: the kind of device that has it."""

    name: str
    device: str
    pace: Pace
    unit: str
    doc: str

    @property
    def is_counter(self) -> bool:
        """Whether it counts, so that its rate is what tells."""
        return self.name.endswith("_total")

    @property
    def is_detector_input(self) -> bool:
        """Whether detectors read it, at one value a second."""
        return self.pace == "second"


def _metrics(device: str, *rows: tuple[str, Pace, str, str]) -> tuple[Metric, ...]:
    return tuple(Metric(name, device, pace, unit, doc) for name, pace, unit, doc in rows)


_HOST = _metrics(
    HOST,
    ("cpu_busy_seconds_total", "second", "s", "CPU time of all cores that ran something"),
    (
        "cpu_iowait_seconds_total",
        "second",
        "s",
        "CPU time of cores idle while a disk was waited for",
    ),
    ("cpu_steal_seconds_total", "second", "s", "CPU time that the hypervisor gave to others"),
    ("cpu_cores", "minute", "cores", "cores of the host"),
    ("cpu_utilization_percent", "minute", "%", "share of the cores' time (imports only)"),
    ("context_switches_total", "minute", "switches", "context switches of all cores"),
    ("processes_running", "minute", "processes", "threads that run or wait for a core"),
    ("processes_blocked", "second", "processes", "processes that wait for a disk"),
    ("memory_total_bytes", "minute", "B", "memory of the host"),
    ("memory_used_percent", "minute", "%", "share of the memory in use (imports only)"),
    ("memory_available_bytes", "second", "B", "memory that a process could still get"),
    ("memory_dirty_bytes", "minute", "B", "written, but not on the disk yet"),
    ("swap_free_bytes", "change", "B", "swap space that is free"),
    ("major_faults_total", "change", "faults", "page faults that read from a disk"),
    ("swapped_in_pages_total", "change", "pages", "pages read from swap"),
    ("swapped_out_pages_total", "change", "pages", "pages written to swap"),
    ("allocation_stalls_total", "change", "stalls", "allocations that had to free memory first"),
    ("direct_scanned_pages_total", "change", "pages", "pages that such allocations looked at"),
    ("oom_kills_total", "change", "kills", "processes killed for lack of memory"),
    ("numa_misses_total", "minute", "pages", "pages allocated on another NUMA node than wanted"),
    ("pressure_cpu_some_seconds_total", "second", "s", "time in which a task waited for a core"),
    ("pressure_memory_some_seconds_total", "second", "s", "time in which a task waited for memory"),
    (
        "pressure_memory_full_seconds_total",
        "second",
        "s",
        "time in which all tasks waited for memory",
    ),
    ("pressure_io_some_seconds_total", "second", "s", "time in which a task waited for a disk"),
    ("pressure_io_full_seconds_total", "second", "s", "time in which all tasks waited for a disk"),
    ("tcp_sent_segments_total", "second", "segments", "TCP segments sent"),
    ("tcp_retransmitted_segments_total", "second", "segments", "TCP segments sent again"),
    ("tcp_timeouts_total", "change", "timeouts", "TCP segments whose answer never came in time"),
    ("tcp_syn_retransmits_total", "change", "segments", "TCP connections asked for again"),
    ("tcp_lost_retransmits_total", "change", "segments", "TCP segments lost a second time"),
    ("tcp_listen_drops_total", "change", "connections", "TCP connections dropped by a full queue"),
    (
        "kernel_log_lines_total",
        "minute",
        "lines",
        "lines of the kernel's log since the sampler began",
    ),
    ("watchdog_cpu_seconds_total", "minute", "s", "CPU time of the process that samples"),
    ("sampler_late_seconds", "change", "s", "seconds without samples just before this one"),
)

_DISK = _metrics(
    "disk",
    ("disk_read_bytes_total", "second", "B", "bytes read"),
    ("disk_written_bytes_total", "second", "B", "bytes written"),
    ("disk_busy_seconds_total", "second", "s", "time with a request under way"),
    ("disk_reads_total", "minute", "requests", "reads completed"),
    ("disk_writes_total", "minute", "requests", "writes completed"),
    ("disk_read_seconds_total", "minute", "s", "time of all reads together"),
    ("disk_write_seconds_total", "minute", "s", "time of all writes together"),
)

_CGROUP = _metrics(
    CGROUP,
    ("cgroup_cpu_seconds_total", "second", "s", "CPU time of the job's control group"),
    (
        "cgroup_cpu_throttled_seconds_total",
        "second",
        "s",
        "time in which its CPU quota held it back",
    ),
    ("cgroup_cpu_throttled_periods_total", "change", "periods", "periods that used up the quota"),
    ("cgroup_cpu_limit_cores", "change", "cores", "its CPU quota; unlimited is not written"),
    ("cgroup_memory_used_bytes", "second", "B", "its memory, page cache included"),
    ("cgroup_memory_limit_bytes", "change", "B", "its memory limit; unlimited is not written"),
    ("cgroup_memory_limit_hits_total", "change", "hits", "how often it met its memory limit"),
    ("cgroup_oom_kills_total", "change", "kills", "its processes killed for lack of memory"),
    (
        "cgroup_pressure_cpu_some_seconds_total",
        "second",
        "s",
        "time in which a task of it waited for a core",
    ),
    (
        "cgroup_pressure_memory_full_seconds_total",
        "second",
        "s",
        "time in which all its tasks waited for memory",
    ),
    (
        "cgroup_pressure_io_full_seconds_total",
        "second",
        "s",
        "time in which all its tasks waited for a disk",
    ),
    ("cgroup_read_bytes_total", "minute", "B", "bytes it read from disks"),
    ("cgroup_written_bytes_total", "minute", "B", "bytes it wrote to disks"),
)

_PROCESS = _metrics(
    PROCESS,
    ("process_cpu_seconds_total", "second", "s", "CPU time of the rank's process, all threads"),
    (
        "process_wait_seconds_total",
        "second",
        "s",
        "time in which its main thread waited for a core",
    ),
    ("process_stopped", "change", "", "1 while a signal or a debugger has stopped it, else 0"),
    ("process_major_faults_total", "change", "faults", "its page faults that read from a disk"),
    ("process_resident_bytes", "minute", "B", "its resident memory"),
    ("process_threads", "minute", "threads", "its threads"),
    (
        "process_involuntary_switches_total",
        "minute",
        "switches",
        "how often its main thread lost its core",
    ),
    ("process_read_bytes_total", "minute", "B", "bytes it read from disks"),
    ("process_written_bytes_total", "minute", "B", "bytes it wrote to disks"),
)

_NET = _metrics(
    "net",
    ("net_received_bytes_total", "second", "B", "bytes received"),
    ("net_transmitted_bytes_total", "second", "B", "bytes sent"),
    ("net_receive_errors_total", "change", "packets", "packets received with an error"),
    ("net_transmit_errors_total", "change", "packets", "packets that could not be sent"),
    ("net_receive_drops_total", "change", "packets", "packets dropped for lack of room"),
    ("net_transmit_drops_total", "change", "packets", "packets dropped before they were sent"),
    ("net_carrier_changes_total", "change", "changes", "how often the link came up or went down"),
    ("net_up", "change", "", "1 while the link is up, else 0"),
    ("net_speed_bits_per_second", "change", "bit/s", "speed the link has agreed on"),
    (
        "net_receive_pause_frames_total",
        "second",
        "frames",
        "PFC: how often the network stopped this host",
    ),
    (
        "net_transmit_pause_frames_total",
        "second",
        "frames",
        "PFC: how often this host stopped the network",
    ),
    (
        "net_receive_pause_seconds_total",
        "change",
        "s",
        "PFC: time for which the network stopped this host",
    ),
    (
        "net_transmit_pause_seconds_total",
        "change",
        "s",
        "PFC: time for which this host stopped the network",
    ),
    ("net_link_down_events_total", "change", "events", "how often the physical link went down"),
    (
        "net_symbol_errors_total",
        "change",
        "errors",
        "symbols that the cable's error correction could not save",
    ),
    ("net_corrected_bits_total", "minute", "bits", "bits that the cable's error correction saved"),
    ("net_crc_errors_total", "change", "frames", "frames with a wrong checksum"),
    (
        "net_receive_discards_total",
        "change",
        "frames",
        "frames for which the receiver had no buffer",
    ),
    ("net_pcie_integrity_errors_total", "change", "errors", "errors on the card's PCIe link"),
)

_NIC = _metrics(
    "nic",
    ("nic_received_bytes_total", "second", "B", "bytes received"),
    ("nic_transmitted_bytes_total", "second", "B", "bytes sent"),
    (
        "nic_transmit_wait_ticks_total",
        "second",
        "ticks",
        "ticks in which it had data and might not send",
    ),
    (
        "nic_ecn_marked_packets_total",
        "second",
        "packets",
        "packets that a congested switch had marked",
    ),
    (
        "nic_congestion_notices_sent_total",
        "second",
        "packets",
        "notices of congestion sent to senders",
    ),
    (
        "nic_congestion_notices_handled_total",
        "second",
        "packets",
        "notices that slowed this sender",
    ),
    (
        "nic_out_of_sequence_total",
        "second",
        "packets",
        "packets that came out of order or after a loss",
    ),
    ("nic_sequence_errors_total", "second", "packets", "packets that the receiver asked for again"),
    ("nic_ack_timeouts_total", "change", "timeouts", "answers that never came in time"),
    ("nic_implied_nak_total", "change", "packets", "answers that show a loss"),
    (
        "nic_adaptive_retransmits_total",
        "change",
        "packets",
        "packets sent again by adaptive retransmission",
    ),
    (
        "nic_receiver_not_ready_total",
        "change",
        "packets",
        "packets whose receiver had posted no buffer",
    ),
    ("nic_out_of_buffer_total", "change", "packets", "packets dropped for lack of a posted buffer"),
    ("nic_transmit_discards_total", "change", "packets", "packets discarded before they were sent"),
    ("nic_receive_errors_total", "change", "packets", "packets received with an error"),
    ("nic_symbol_errors_total", "change", "errors", "errors of the cable or its plugs"),
    ("nic_integrity_errors_total", "change", "errors", "link errors above the threshold"),
    (
        "nic_link_downed_total",
        "change",
        "events",
        "how often the link failed to recover and went down",
    ),
    ("nic_link_recoveries_total", "change", "events", "how often the link recovered from an error"),
    ("nic_rate_bits_per_second", "change", "bit/s", "rate of the link"),
    ("nic_active", "change", "", "1 while the port is active, else 0"),
)

_GPU = _metrics(
    "gpu",
    (
        "gpu_utilization_percent",
        "second",
        "%",
        "time in which any kernel ran, waiting ones included",
    ),
    (
        "gpu_memory_utilization_percent",
        "minute",
        "%",
        "time in which its memory was read or written",
    ),
    ("gpu_sm_clock_mhz", "second", "MHz", "clock of the multiprocessors"),
    ("gpu_max_sm_clock_mhz", "minute", "MHz", "fastest clock of the multiprocessors"),
    ("gpu_memory_clock_mhz", "change", "MHz", "clock of the memory"),
    ("gpu_power_watts", "second", "W", "power drawn"),
    ("gpu_power_limit_watts", "change", "W", "power it may draw"),
    ("gpu_energy_joules_total", "minute", "J", "energy used since the driver was loaded"),
    ("gpu_temperature_celsius", "second", "C", "temperature of the chip"),
    ("gpu_memory_temperature_celsius", "minute", "C", "temperature of the memory"),
    ("gpu_memory_used_bytes", "minute", "B", "memory in use"),
    ("gpu_memory_total_bytes", "minute", "B", "memory it has"),
    (
        "gpu_clock_event_reasons",
        "change",
        "bits",
        "why the clock is below its maximum; see CLOCK_EVENTS",
    ),
    (
        "gpu_power_cap_time_total",
        "second",
        "driver's unit",
        "time for which the power limit held the clock down",
    ),
    (
        "gpu_software_thermal_time_total",
        "second",
        "driver's unit",
        "time for which the driver held the clock down as it was hot",
    ),
    (
        "gpu_hardware_thermal_time_total",
        "second",
        "driver's unit",
        "time for which the hardware did",
    ),
    (
        "gpu_power_brake_time_total",
        "change",
        "driver's unit",
        "time for which the power supply did",
    ),
    (
        "gpu_ecc_corrected_total",
        "change",
        "errors",
        "memory errors corrected, since the driver was loaded",
    ),
    ("gpu_ecc_uncorrected_total", "change", "errors", "memory errors not corrected, since then"),
    ("gpu_ecc_corrected_lifetime_total", "change", "errors", "memory errors corrected, ever"),
    ("gpu_ecc_uncorrected_lifetime_total", "change", "errors", "memory errors not corrected, ever"),
    (
        "gpu_remapped_rows_corrected_total",
        "change",
        "rows",
        "memory rows replaced after corrected errors",
    ),
    (
        "gpu_remapped_rows_uncorrected_total",
        "change",
        "rows",
        "memory rows replaced after other errors",
    ),
    ("gpu_remap_pending", "change", "", "1 while a row is replaced at the next reset only"),
    ("gpu_remap_failed", "change", "", "1 if a row could not be replaced: replace the GPU"),
    ("gpu_recovery_action", "change", "", "what it needs: 0 nothing, else as in nvml.h"),
    ("gpu_pcie_generation", "change", "", "generation of the PCIe link, which falls while idle"),
    ("gpu_pcie_max_generation", "minute", "", "best generation of the PCIe link"),
    ("gpu_pcie_width", "change", "lanes", "lanes of the PCIe link"),
    ("gpu_pcie_max_width", "minute", "lanes", "most lanes of the PCIe link"),
    ("gpu_pcie_replays_total", "change", "packets", "PCIe packets sent again"),
    ("gpu_pcie_correctable_errors_total", "change", "errors", "PCIe errors corrected"),
    ("gpu_pcie_fatal_errors_total", "change", "errors", "PCIe errors that break the link"),
    ("gpu_pcie_transmitted_bytes_total", "second", "B", "bytes sent over PCIe"),
    ("gpu_pcie_received_bytes_total", "second", "B", "bytes received over PCIe"),
    ("gpu_nvlink_transmitted_bytes_total", "second", "B", "bytes sent over all NVLinks"),
    ("gpu_nvlink_received_bytes_total", "second", "B", "bytes received over all NVLinks"),
    ("gpu_nvlink_replays_total", "change", "packets", "NVLink packets sent again"),
    (
        "gpu_nvlink_recoveries_total",
        "change",
        "events",
        "how often an NVLink recovered from an error",
    ),
    ("gpu_nvlink_crc_errors_total", "change", "errors", "NVLink packets with a wrong checksum"),
    (
        "gpu_nvlink_receive_errors_total",
        "change",
        "errors",
        "NVLink packets received with an error",
    ),
    ("gpu_nvlink_symbol_errors_total", "change", "errors", "NVLink symbols received with an error"),
    ("gpu_xid_errors_total", "change", "errors", "Xid errors since the sampler began"),
    ("gpu_xid_last", "change", "", "number of the last Xid error"),
    ("gpu_xgmi_read_bytes_total", "second", "B", "bytes read over all XGMI links"),
    ("gpu_xgmi_written_bytes_total", "second", "B", "bytes written over all XGMI links"),
    (
        "gpu_compute_active_ratio",
        "second",
        "",
        "share of time with work on the compute engine (DCGM)",
    ),
    ("gpu_tensor_active_ratio", "second", "", "share of time with work on the tensor cores (DCGM)"),
    ("gpu_dram_active_ratio", "second", "", "share of time with memory traffic (DCGM)"),
)

SOURCES = (
    "cpu",
    "memory",
    "virtual_memory",
    "pressure",
    "tcp",
    "disks",
    "cgroup",
    "processes",
    "network",
    "ethtool",
    "infiniband",
    "nvidia",
    "amd",
    "kernel_log",
)
"""What the sampler reads; each has a metric SOURCE_readable of the host."""


def readable_name(source: str) -> str:
    """Name of the metric that is 1 while a source is read, else NaN with the reason."""
    return f"{source}_readable"


_READABLE = _metrics(
    HOST, *((readable_name(s), "change", "", f"1 while the sampler reads {s}") for s in SOURCES)
)

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (*_HOST, *_DISK, *_CGROUP, *_PROCESS, *_NET, *_NIC, *_GPU, *_READABLE)
}

CLOCK_EVENTS = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "power limit",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal, by the driver",
    0x40: "thermal, by the hardware",
    0x80: "power brake",
    0x100: "display clocks",
}
"""Bits of gpu_clock_event_reasons. Source: nvml.h, nvmlClocksEventReason*."""
