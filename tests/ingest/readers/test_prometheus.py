"""Metrics of exporters: texts as they publish them, answers of range queries, and their traps."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest

from ingest.readers.prometheus.aliases import ALIASES
from ingest.readers.prometheus.exposition import labels_of, sample_of
from ingest.run import open_run
from tests.reader_results import Imported
from trace_hooks.telemetry.names import METRICS

UUID = "604ac76c-d9cf-fef3-62e9-d92044ab6e52"
GPU = f'gpu="0",UUID="GPU-{UUID}",pci_bus_id="00000000:3B:00.0",device="nvidia0",Hostname="node5"'
DCGM = f"""# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{{{GPU}}} 1110
DCGM_FI_DEV_MEMORY_TEMP{{{GPU}}} 9223372036854775794
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{GPU}}} 15347724978
DCGM_FI_DEV_FB_USED{{{GPU}}} 2
DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{{{GPU}}} 7
DCGM_FI_DEV_NAME{{{GPU}}} Tesla T4
"""
OLD_DCGM = f'DCGM_FI_DEV_GPU_TEMP{{gpu="1", UUID="GPU-{UUID}"}} 61 1700000000000\n'
NODE = """node_cpu_seconds_total{cpu="0",mode="user"} 10
node_cpu_seconds_total{cpu="1",mode="user"} 20
node_cpu_seconds_total{cpu="0",mode="iowait"} 3
node_cpu_seconds_total{cpu="0",mode="idle"} 1e6
node_pressure_io_stalled_seconds_total 0.25
node_network_speed_bytes{device="eth0"} 1.25e+10
node_infiniband_port_data_transmitted_bytes_total{device="mlx5_0",port="1"} 4000
node_infiniband_state_id{device="mlx5_0",port="1"} 4
node_infiniband_state_id{device="mlx5_1",port="1"} 1
node_load1 0.5
"""
SECOND_NS = 10**9
T_S = 1_700_000_000


def range_answer() -> dict[str, object]:
    """What Prometheus answers to query_range, with damage in it."""
    metric = {
        "__name__": "DCGM_FI_DEV_POWER_USAGE",
        "UUID": f"GPU-{UUID}",
        "instance": "10.0.0.5:9400",
        "Hostname": "",
    }
    values = [[T_S, "500.5"], [T_S + 15.5, "NaN"], [T_S + 30, "bad"], "x"]
    node = {"metric": {"__name__": "node_vmstat_oom_kill", "instance": "n1:9100"}}
    return {
        "status": "success",
        "data": {
            "resultType": "matrix",
            "result": [{"metric": metric, "values": values}, node | {"value": [T_S, "2"]}, 5],
        },
    }


def imported(tmp_path: Path, runs: Path, **texts: str) -> Imported:
    paths = []
    for name, text in texts.items():
        path = tmp_path / f"{name}.prom"
        path.write_text(text)
        os.utime(path, (T_S, T_S))
        paths.append(path)
    return Imported(*paths, into=runs)


def samples(run: Imported) -> dict[tuple[str, str], float]:
    """Value by device and metric, of those that are one."""
    rows = run.rows("host_metrics", "device", "metric", "value")
    return {(device, metric): value for device, metric, value in rows if not math.isnan(value)}


def test_a_scrape_of_dcgm_exporter(tmp_path: Path, runs: Path) -> None:
    run = imported(tmp_path, runs, scrape=DCGM)
    assert samples(run) == {
        (f"gpu:{UUID}", "gpu_sm_clock_mhz"): 1110,
        (f"gpu:{UUID}", "gpu_energy_joules_total"): pytest.approx(15347724.978),
        (f"gpu:{UUID}", "gpu_memory_used_bytes"): 2 * 2**20,
    }
    rows = run.rows("host_metrics", "host", "ts_ns", "rank", "scope")
    assert set(rows) == {("node5", T_S * SECOND_NS, -1, "host")}
    assert any("taken as of the file's last change" in guess for guess in run.guesses)
    assert any("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL" in guess for guess in run.guesses)
    assert run.problems[0].endswith("scrape.prom: 1 lines that are no samples were left out")


def test_a_blank_is_unreadable_never_a_number(tmp_path: Path, runs: Path) -> None:
    run = imported(tmp_path, runs, scrape=DCGM)
    rows = run.rows("host_metrics", "metric", "value", "state")
    (blank,) = [row for row in rows if row[0] == "gpu_memory_temperature_celsius"]
    assert math.isnan(blank[1])
    assert blank[2] == "unreadable: blank, or not supported"


def test_a_scrape_of_node_exporter(tmp_path: Path, runs: Path) -> None:
    assert samples(imported(tmp_path, runs, node=NODE)) == {
        ("host", "cpu_busy_seconds_total"): 30,
        ("host", "cpu_iowait_seconds_total"): 3,
        ("host", "pressure_io_full_seconds_total"): 0.25,
        ("net:eth0", "net_speed_bits_per_second"): 1e11,
        ("nic:mlx5_0/1", "nic_transmitted_bytes_total"): 4000,
        ("nic:mlx5_0/1", "nic_active"): 1,
        ("nic:mlx5_1/1", "nic_active"): 0,
    }


def test_times_of_lines_and_labels_of_older_versions(tmp_path: Path, runs: Path) -> None:
    later = OLD_DCGM.replace("61 1700000000", "62 1700000030")
    run = imported(tmp_path, runs, old=OLD_DCGM + later)
    assert run.rows("host_metrics", "ts_ns", "value") == [
        (T_S * SECOND_NS, 61.0),
        ((T_S + 30) * SECOND_NS, 62.0),
    ]
    assert not any("last change" in guess for guess in run.guesses)


def test_a_second_scrape_without_times_is_left_out(tmp_path: Path, runs: Path) -> None:
    run = imported(tmp_path, runs, twice=NODE + NODE.replace(" 0.25", " 9"))
    assert samples(run)["host", "pressure_io_full_seconds_total"] == 0.25
    assert "a second scrape" in run.problems[0]


def test_an_answer_of_a_range_query(tmp_path: Path, runs: Path) -> None:
    run = imported(tmp_path, runs, answer=json.dumps(range_answer()))
    rows = run.rows("host_metrics", "host", "device", "metric", "ts_ns", "state")
    gpu = ("10.0.0.5", f"gpu:{UUID}", "gpu_power_watts")
    assert rows == [
        (*gpu, T_S * SECOND_NS, "value"),
        (*gpu, T_S * SECOND_NS + 15_500_000_000, "unreadable: not a number"),
        ("n1", "host", "oom_kills_total", T_S * SECOND_NS, "value"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        '{"data": {"resultType": "matrix", "result": {"__name__": 1}}}',
        '{"resultType": "matrix", "__name__": [',
    ],
)
def test_a_damaged_answer_is_a_problem(tmp_path: Path, runs: Path, text: str) -> None:
    run = imported(tmp_path, runs, answer=text, good=NODE)
    assert "is no answer of Prometheus" in run.problems[0]
    assert samples(run)


def test_next_to_a_trace_they_join_its_run(tmp_path: Path, runs: Path) -> None:
    line = {"step": 0, "rank": 0, "compute_ms": 50, "step_ms": 60, "ts": T_S, "hostname": "node5"}
    (tmp_path / "log.jsonl").write_text(json.dumps(line))
    (tmp_path / "scrape.prom").write_text(DCGM)
    run = Imported(tmp_path / "log.jsonl", tmp_path / "scrape.prom", into=runs)
    assert run.info["source"] == "phase_log"
    assert [info["host"] for info in run.ranks.values()] == ["node5"]
    with open_run(run.folder) as opened:
        cells = opened.ask("host_metric_cells").to_pylist()
    assert {row["host"] for row in cells} == {"node5"}


def test_every_alias_is_a_metric_of_its_kind_of_device() -> None:
    for alias in ALIASES.values():
        assert METRICS[alias.metric].device == alias.device, alias


@pytest.mark.parametrize(
    ("line", "labels", "value"),
    [
        ("a 1", {}, 1.0),
        ("a{} +Inf", {}, math.inf),
        ('a{b="c,\\"d\\"}",e="\\\\n\\n"} 2 5', {"b": 'c,"d"}', "e": "\\n\n"}, 2.0),
        ('a{b = "c" , } 3', {"b": "c"}, 3.0),
    ],
)
def test_lines(line: str, labels: dict[str, str], value: float) -> None:
    sample = sample_of(line)
    assert sample is not None
    assert (sample.labels, sample.value) == (labels, value)


@pytest.mark.parametrize("line", ["", "a", "a x", 'a{b="c} 1', "1a 2", 'a{b="c"} 1 -5', "a 1 2 3"])
def test_what_is_no_line(line: str) -> None:
    assert sample_of(line) is None


def test_labels_that_are_none() -> None:
    assert labels_of("b=c") is None
