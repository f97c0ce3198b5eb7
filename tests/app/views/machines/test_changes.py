"""Sentences about changes, and what to do about what could not be read."""

from __future__ import annotations

import json
import math
import random
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from app.views.machines.changes import changes, remedy, sentence, unreadable, value_text
from app.views.machines.series import host_series
from app.views.machines.telling_changes import telling_changes
from ingest.run import open_run
from tests.runs_builder import T0, RunBuilder

S = 10**9
CLOCK: dict[str, Any] = {
    "host": "node5",
    "device": "gpu:0000002b-1111",
    "metric": "gpu_sm_clock_mhz",
    "rank": -1,
    "kind": "state",
    "step": 4812,
    "before": 1980.0,
    "after": 1110.0,
    "clock_events": 0x21,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A GPU of rank 1 that is throttled from step 40 on, and a process that cannot be read."""
    builder = RunBuilder(tmp_path / "run", 2, hosts=["h0", "h0"])
    for second in range(60):
        at = {"ts_ns": T0 + second * S, "host": "h0", "scope": "host", "state": "value"}
        clock = 1980 if second < 40 else 1110
        builder.add("host_metrics", -1, second, device="gpu:aa-bb", metric="gpu_sm_clock_mhz",
                    value=clock, **at)  # fmt: skip
        builder.add("host_metrics", 1, second, device="process", value=second / 2,
                    metric="process_cpu_seconds_total", **at)  # fmt: skip
        reason = {"state": "unreadable: Permission denied: /dev/kmsg"}
        builder.add("host_metrics", -1, second, device="host", metric="kernel_log_readable",
                    value=math.nan, **at | reason)  # fmt: skip
    builder.rank_files()
    path = builder.folder / "ranks" / "0000-00001.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "device_uuid": "aa-bb"}))
    builder.publish()
    return builder.folder


def test_a_throttled_gpu_names_its_rank_and_the_step(folder: Path) -> None:
    with open_run(folder) as run:
        (change,) = changes(run, 0)
    assert change["ranks"] == [1]
    assert change["at_ns"] == 40 * S
    assert change["text"] == (
        "SM clock of h0 gpu aa (rank 1) falls from 1,980 MHz to 1,110 MHz with step 40"
    )


def test_a_noisy_clock_that_falls_by_a_seventh_is_seen(tmp_path: Path) -> None:
    """Eight GPUs of one of three hosts lose 15 % of their clock."""
    noise, builder = random.Random(1), RunBuilder(tmp_path / "run", 3, hosts=["h0", "h1", "h2"])
    for second, host, gpu in product(range(80), range(3), range(8)):
        slow = 0.85 if host == 1 and second >= 40 else 1.0
        at = {"ts_ns": T0 + second * S, "host": f"h{host}", "scope": "host", "state": "value"}
        for metric, middle in (("gpu_sm_clock_mhz", 1980), ("gpu_power_watts", 650)):
            value = middle * slow * noise.gauss(1, 0.01)  # power: too little to be listed
            builder.add("host_metrics", -1, second, device=f"gpu:{host}{gpu}", metric=metric,
                        value=value, **at)  # fmt: skip
    builder.rank_files()
    builder.publish()
    with open_run(builder.folder) as run:
        found = changes(run, 0)
        (sentence_of_all,) = telling_changes(run, 0)["changes"]
    assert {(one["host"], one["metric"]) for one in found} == {("h1", "gpu_sm_clock_mhz")}
    assert len({one["device"] for one in found}) == 8
    assert all(abs(one["step"] - 40) <= 2 for one in found)
    assert sentence_of_all["text"].startswith("SM clock of h1 gpu 1")
    assert "(and that of 7 other devices)" in sentence_of_all["text"]


def test_what_was_unreadable_has_a_remedy(folder: Path) -> None:
    with open_run(folder) as run:
        (found,) = unreadable(run, 0)
    assert found["what"] == "kernel log"
    assert found["is_there"]
    assert found["remedy"] == "Ask for kernel.dmesg_restrict = 0, or for CAP_SYSLOG."
    assert remedy("something new") == ""


def test_lines_of_a_host_are_next_to_its_ranks(folder: Path) -> None:
    with open_run(folder) as run:
        found = host_series(run, 0, "h0")
        empty = host_series(run, 0, "nowhere")
    by_metric = {line["metric"]: line for line in found["lines"]}
    assert set(by_metric) == {"gpu_sm_clock_mhz", "process_cpu_seconds_total"}
    assert by_metric["gpu_sm_clock_mhz"]["ranks"] == [1]
    process = by_metric["process_cpu_seconds_total"]
    assert (process["who"], process["unit"]) == ("rank 1", "cores")
    assert process["value"][0] is None
    assert process["value"][5] == pytest.approx(0.5)
    assert empty["lines"] == []


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (
            {},
            "SM clock of node5 gpu 0000002b falls from 1,980 MHz to 1,110 MHz, thermal, by the "
            "driver, with step 4,812",
        ),
        (
            {"metric": "gpu_clock_event_reasons"},
            "Clock of node5 gpu 0000002b is held down: thermal, by the driver, with step 4,812",
        ),
        (
            {
                "device": "nic:mlx5_0/1",
                "metric": "nic_link_downed_total",
                "kind": "count",
                "before": 3,
                "after": 4,
                "clock_events": None,
            },
            "Link downed of node5 nic mlx5_0/1 rises by 1 with step 4,812",
        ),
        (
            {
                "device": "process",
                "metric": "process_resident_bytes",
                "rank": 3,
                "before": 1e9,
                "after": 2.5e9,
                "clock_events": None,
            },
            "Resident of rank 3 rises from 1 GB to 2.5 GB with step 4,812",
        ),
    ],
)
def test_sentences(changed: dict[str, Any], text: str) -> None:
    assert sentence(CLOCK | changed) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(None, "W", "unknown"), (0.0, "B/s", "0 B/s"), (1234.5, "W", "1,234 W"), (4e9, "B", "4 GB")],
)
def test_values(value: float | None, unit: str, text: str) -> None:
    assert value_text(value, unit) == text
