"""Which changes of machines the overview states, in which order, and how few."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.views.machines.telling_changes import (
    MOST_SENTENCES,
    groups_of,
    is_telling,
    telling_changes,
)
from ingest.run import open_run
from tests.runs_builder import T0, RunBuilder

S = 10**9


def change(metric: str, before: float, after: float, **values: Any) -> dict[str, Any]:
    made = {"host": "a", "device": "host", "metric": metric, "rank": -1, "kind": "state"}
    return made | {"step": 5, "before": before, "after": after, "clock_events": None} | values


@pytest.mark.parametrize(
    ("metric", "before", "after", "kind", "tells"),
    [
        ("gpu_sm_clock_mhz", 1_980.0, 1_110.0, "state", True),
        ("gpu_sm_clock_mhz", 1_110.0, 1_980.0, "state", False),
        ("gpu_sm_clock_mhz", 1_980.0, 1_950.0, "state", False),
        ("gpu_clock_event_reasons", 0.0, 32.0, "state", True),
        ("gpu_clock_event_reasons", 32.0, 1.0, "state", False),
        ("nic_link_downed_total", 3.0, 4.0, "count", True),
        ("tcp_timeouts_total", 3.0, 4.0, "count", False),
        ("tcp_timeouts_total", 3.0, 40.0, "count", True),
        ("tcp_retransmitted_segments_total", 40.0, 1.0, "level", False),
        ("gpu_power_watts", 600.0, 200.0, "level", False),
    ],
)
def test_what_tells_something(
    metric: str, before: float, after: float, kind: str, tells: bool
) -> None:
    assert is_telling(change(metric, before, after, kind=kind)) is tells


def test_a_device_has_one_sentence_and_devices_share_one() -> None:
    rows = [
        change("gpu_clock_event_reasons", 0, 32, device="gpu:A", step=4),
        *(change("gpu_sm_clock_mhz", 1_980, 1_110, device=f"gpu:{name}") for name in "AB"),
        change("gpu_xid_errors_total", 0, 1, device="gpu:C", kind="count", step=9),
    ]
    groups = groups_of(rows, num_hosts=1)
    assert [(group[0]["metric"], len(group)) for group in groups] == [
        ("gpu_xid_errors_total", 1),
        ("gpu_sm_clock_mhz", 2),
    ]


def test_what_most_hosts_do_is_left_out() -> None:
    rows = [change("gpu_sm_clock_mhz", 1_980, 345, host=f"h{i}", device="gpu:A") for i in range(9)]
    assert groups_of(rows, num_hosts=10) == []
    assert len(groups_of(rows, num_hosts=18)) == 1
    assert len(groups_of(rows[:3], num_hosts=3)) == 1


def test_sentences_of_a_run(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run", 6, hosts=[f"h{i}" for i in range(6)])
    for second in range(60):
        for host in range(6):
            at = {"ts_ns": T0 + second * S, "host": f"h{host}", "state": "value"}
            down = 1 if second >= 20 + host else 0
            builder.add("host_metrics", -1, second, device="nic:mlx5_0/1", value=down,
                        metric="nic_link_downed_total", **at)  # fmt: skip
            builder.add("host_metrics", -1, second, device="nic:mlx5_0/1", value=second % 7,
                        metric="nic_active", **at)  # fmt: skip
    builder.rank_files()
    builder.publish()
    with open_run(builder.folder) as run:
        found = telling_changes(run, 0)
    assert [one["step"] for one in found["changes"]] == [20, 21, 22, 23][:MOST_SENTENCES]
    assert found["more"] == 2
    assert found["changes"][1]["text"] == "Link downed of h1 nic mlx5_0/1 rises by 1 with step 21"
