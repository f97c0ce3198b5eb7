"""Names of dcgm-exporter and node_exporter, and what they are among the hooks' metrics.

Newer versions of DCGM renamed fields; both names are listed. Sources: dcgm-exporter's
etc/default-counters.csv and dcgm_fields.h, node_exporter's collectors.
"""

from __future__ import annotations

from dataclasses import dataclass

_MIB = float(1 << 20)


@dataclass(frozen=True)
class Alias:
    """What a metric is here; `factor`: of its unit; `true_at`: the value that counts as 1."""

    metric: str
    device: str
    factor: float = 1.0
    true_at: float | None = None


BLANKS = {
    9223372036854775792.0: "blank, or not supported",  # DCGM_INT64_BLANK to _NOT_PERMISSIONED
    2147483632.0: "blank",  # DCGM_INT32_BLANK
    2147483633.0: "not found",
    2147483634.0: "not supported",
    2147483635.0: "not permitted",
    140737488355328.0: "blank",  # DCGM_FP64_BLANK
    140737488355329.0: "not found",
    140737488355330.0: "not supported",
    140737488355331.0: "not permitted",
}
"""Values with which DCGM says that it has none; as floats, its four of 64 bits are one.
Source: dcgm_structs.h.
"""

CPU_MODES = {
    **dict.fromkeys(("user", "nice", "system", "irq", "softirq"), "cpu_busy_seconds_total"),
    "iowait": "cpu_iowait_seconds_total",
    "steal": "cpu_steal_seconds_total",
}

_DCGM: dict[str, tuple[str, float]] = {
    "DEV_SM_CLOCK": ("gpu_sm_clock_mhz", 1),
    "DEV_MEM_CLOCK": ("gpu_memory_clock_mhz", 1),
    "DEV_GPU_TEMP": ("gpu_temperature_celsius", 1),
    "DEV_GPU_TEMP_CELSIUS": ("gpu_temperature_celsius", 1),
    "DEV_MEMORY_TEMP": ("gpu_memory_temperature_celsius", 1),
    "DEV_MEMORY_TEMP_CELSIUS": ("gpu_memory_temperature_celsius", 1),
    "DEV_POWER_USAGE": ("gpu_power_watts", 1),
    "DEV_POWER_USAGE_INSTANT": ("gpu_power_watts", 1),
    "DEV_BOARD_POWER_WATTS": ("gpu_power_watts", 1),
    "DEV_POWER_MGMT_LIMIT": ("gpu_power_limit_watts", 1),
    "DEV_ENFORCED_POWER_LIMIT": ("gpu_power_limit_watts", 1),
    "DEV_TOTAL_ENERGY_CONSUMPTION": ("gpu_energy_joules_total", 1e-3),
    "DEV_PCIE_REPLAY_COUNTER": ("gpu_pcie_replays_total", 1),
    "DEV_PCIE_REPLAY_TOTAL": ("gpu_pcie_replays_total", 1),
    "DEV_PCIE_CORRECTABLE_ERROR_TOTAL": ("gpu_pcie_correctable_errors_total", 1),
    "DEV_PCIE_LINK_GEN": ("gpu_pcie_generation", 1),
    "DEV_PCIE_MAX_LINK_GEN": ("gpu_pcie_max_generation", 1),
    "DEV_PCIE_LINK_WIDTH": ("gpu_pcie_width", 1),
    "DEV_PCIE_MAX_LINK_WIDTH": ("gpu_pcie_max_width", 1),
    "DEV_GPU_UTIL": ("gpu_utilization_percent", 1),
    "DEV_GPU_UTIL_RATIO": ("gpu_utilization_percent", 1),
    "DEV_MEM_COPY_UTIL": ("gpu_memory_utilization_percent", 1),
    "DEV_XID_ERRORS": ("gpu_xid_last", 1),
    "DEV_XID_ERROR": ("gpu_xid_last", 1),
    "DEV_CLOCK_THROTTLE_REASONS": ("gpu_clock_event_reasons", 1),
    "DEV_CLOCKS_EVENT_REASONS": ("gpu_clock_event_reasons", 1),
    "DEV_POWER_VIOLATION": ("gpu_power_cap_time_total", 1),
    "DEV_THERMAL_VIOLATION": ("gpu_software_thermal_time_total", 1),
    "DEV_FB_USED": ("gpu_memory_used_bytes", _MIB),
    "DEV_FB_TOTAL": ("gpu_memory_total_bytes", _MIB),
    "DEV_ECC_SBE_VOL_TOTAL": ("gpu_ecc_corrected_total", 1),
    "DEV_ECC_DBE_VOL_TOTAL": ("gpu_ecc_uncorrected_total", 1),
    "DEV_ECC_SBE_AGG_TOTAL": ("gpu_ecc_corrected_lifetime_total", 1),
    "DEV_ECC_DBE_AGG_TOTAL": ("gpu_ecc_uncorrected_lifetime_total", 1),
    "DEV_CORRECTABLE_REMAPPED_ROWS": ("gpu_remapped_rows_corrected_total", 1),
    "DEV_ROW_REMAP_CORRECTABLE_TOTAL": ("gpu_remapped_rows_corrected_total", 1),
    "DEV_UNCORRECTABLE_REMAPPED_ROWS": ("gpu_remapped_rows_uncorrected_total", 1),
    "DEV_ROW_REMAP_UNCORRECTABLE_TOTAL": ("gpu_remapped_rows_uncorrected_total", 1),
    "DEV_ROW_REMAP_FAILURE": ("gpu_remap_failed", 1),
    "DEV_ROW_REMAP_FAILED": ("gpu_remap_failed", 1),
    "DEV_ROW_REMAP_PENDING": ("gpu_remap_pending", 1),
    "DEV_GPU_RECOVERY_ACTION": ("gpu_recovery_action", 1),
    "DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL": ("gpu_nvlink_replays_total", 1),
    "DEV_NVLINK_REPLAY_ERROR_TOTAL": ("gpu_nvlink_replays_total", 1),
    "DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL": ("gpu_nvlink_recoveries_total", 1),
    "DEV_NVLINK_RECOVERY_ERROR_TOTAL": ("gpu_nvlink_recoveries_total", 1),
    "DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL": ("gpu_nvlink_crc_errors_total", 1),
    "DEV_NVLINK_CRC_DATA_ERROR_TOTAL": ("gpu_nvlink_crc_errors_total", 1),
    "DEV_NVLINK_RX_SYMBOL_ERROR_TOTAL": ("gpu_nvlink_symbol_errors_total", 1),
    "PROF_GR_ENGINE_ACTIVE": ("gpu_compute_active_ratio", 1),
    "PROF_PIPE_TENSOR_ACTIVE": ("gpu_tensor_active_ratio", 1),
    "PROF_DRAM_ACTIVE": ("gpu_dram_active_ratio", 1),
}
"""DCGM_FI_..., all of a GPU. Bandwidths are left out: rates, in units that versions changed."""

_NODE: dict[str, tuple[str, str, float]] = {
    "memory_MemTotal_bytes": ("memory_total_bytes", "host", 1),
    "memory_MemAvailable_bytes": ("memory_available_bytes", "host", 1),
    "memory_Dirty_bytes": ("memory_dirty_bytes", "host", 1),
    "memory_SwapFree_bytes": ("swap_free_bytes", "host", 1),
    "context_switches_total": ("context_switches_total", "host", 1),
    "procs_running": ("processes_running", "host", 1),
    "procs_blocked": ("processes_blocked", "host", 1),
    "vmstat_pgmajfault": ("major_faults_total", "host", 1),
    "vmstat_pswpin": ("swapped_in_pages_total", "host", 1),
    "vmstat_pswpout": ("swapped_out_pages_total", "host", 1),
    "vmstat_oom_kill": ("oom_kills_total", "host", 1),
    "pressure_cpu_waiting_seconds_total": ("pressure_cpu_some_seconds_total", "host", 1),
    "pressure_memory_waiting_seconds_total": ("pressure_memory_some_seconds_total", "host", 1),
    "pressure_memory_stalled_seconds_total": ("pressure_memory_full_seconds_total", "host", 1),
    "pressure_io_waiting_seconds_total": ("pressure_io_some_seconds_total", "host", 1),
    "pressure_io_stalled_seconds_total": ("pressure_io_full_seconds_total", "host", 1),
    "netstat_Tcp_OutSegs": ("tcp_sent_segments_total", "host", 1),
    "netstat_Tcp_RetransSegs": ("tcp_retransmitted_segments_total", "host", 1),
    "netstat_TcpExt_TCPTimeouts": ("tcp_timeouts_total", "host", 1),
    "netstat_TcpExt_TCPSynRetrans": ("tcp_syn_retransmits_total", "host", 1),
    "netstat_TcpExt_ListenDrops": ("tcp_listen_drops_total", "host", 1),
    "disk_read_bytes_total": ("disk_read_bytes_total", "disk", 1),
    "disk_written_bytes_total": ("disk_written_bytes_total", "disk", 1),
    "disk_io_time_seconds_total": ("disk_busy_seconds_total", "disk", 1),
    "disk_reads_completed_total": ("disk_reads_total", "disk", 1),
    "disk_writes_completed_total": ("disk_writes_total", "disk", 1),
    "disk_read_time_seconds_total": ("disk_read_seconds_total", "disk", 1),
    "disk_write_time_seconds_total": ("disk_write_seconds_total", "disk", 1),
    "network_receive_bytes_total": ("net_received_bytes_total", "net", 1),
    "network_transmit_bytes_total": ("net_transmitted_bytes_total", "net", 1),
    "network_receive_errs_total": ("net_receive_errors_total", "net", 1),
    "network_transmit_errs_total": ("net_transmit_errors_total", "net", 1),
    "network_receive_drop_total": ("net_receive_drops_total", "net", 1),
    "network_transmit_drop_total": ("net_transmit_drops_total", "net", 1),
    "network_carrier_changes_total": ("net_carrier_changes_total", "net", 1),
    "network_up": ("net_up", "net", 1),
    "network_speed_bytes": ("net_speed_bits_per_second", "net", 8),
    "infiniband_port_data_received_bytes_total": ("nic_received_bytes_total", "nic", 1),
    "infiniband_port_data_transmitted_bytes_total": ("nic_transmitted_bytes_total", "nic", 1),
    "infiniband_port_transmit_wait_total": ("nic_transmit_wait_ticks_total", "nic", 1),
    "infiniband_port_discards_transmitted_total": ("nic_transmit_discards_total", "nic", 1),
    "infiniband_port_errors_received_total": ("nic_receive_errors_total", "nic", 1),
    "infiniband_symbol_error_total": ("nic_symbol_errors_total", "nic", 1),
    "infiniband_local_link_integrity_errors_total": ("nic_integrity_errors_total", "nic", 1),
    "infiniband_link_downed_total": ("nic_link_downed_total", "nic", 1),
    "infiniband_link_error_recovery_total": ("nic_link_recoveries_total", "nic", 1),
    "infiniband_rate_bytes_per_second": ("nic_rate_bits_per_second", "nic", 8),
    "infiniband_np_cnp_packets_sent_total": ("nic_congestion_notices_sent_total", "nic", 1),
    "infiniband_np_ecn_marked_roce_packets_received_total": (
        "nic_ecn_marked_packets_total",
        "nic",
        1,
    ),
    "infiniband_rp_cnp_packets_handled_total": ("nic_congestion_notices_handled_total", "nic", 1),
    "infiniband_out_of_sequence_packets_received_total": ("nic_out_of_sequence_total", "nic", 1),
    "infiniband_out_of_buffer_drops_total": ("nic_out_of_buffer_total", "nic", 1),
    "infiniband_local_ack_timeout_errors_total": ("nic_ack_timeouts_total", "nic", 1),
    "infiniband_packet_sequence_errors_total": ("nic_sequence_errors_total", "nic", 1),
    "infiniband_implied_nak_seq_errors_total": ("nic_implied_nak_total", "nic", 1),
    "infiniband_rnr_nak_retry_packets_received_total": (
        "nic_receiver_not_ready_total",
        "nic",
        1,
    ),
}
"""node_...; its bytes of InfiniBand ports are bytes, not words."""

ALIASES = {
    **{f"DCGM_FI_{name}": Alias(metric, "gpu", by) for name, (metric, by) in _DCGM.items()},
    **{f"node_{name}": Alias(metric, of, by) for name, (metric, of, by) in _NODE.items()},
    "node_infiniband_state_id": Alias("nic_active", "nic", true_at=4.0),
}


def alias_of(name: str) -> Alias | None:
    """What a metric is here; None where it has no counterpart."""
    return ALIASES.get(name)
