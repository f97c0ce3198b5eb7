"""What a shared file has of the pages Machines, Data, Experts and Selftest."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from app.runs.hub import Hub
from app.share.collected_pages import page_answers
from app.share.collected_view import DETAILS, collect
from app.share.document import document
from app.share.shown_view import shown_view
from app.view_state import View
from app.views.efficiency.goodput import OF_A_SELFTEST
from tests.app.share.page_parser import Parsed, meta_of
from tests.data_runs import data_run
from tests.expert_runs import HOT_EXPERT, HOT_LAYER, expert_run
from tests.mfu_runs import changed_run
from tests.runs_builder import T0, RunBuilder
from tests.selftest_runs import selftest_run
from tests.startup_runs import phases, started_run

S = 10**9
NUM_HOSTS = 6


def with_machines(folder: Path) -> None:
    """The GPU of <b>4 (rank 4) is throttled from step 30 on."""
    hosts = [f"<b>{host}" for host in range(NUM_HOSTS)]
    run = RunBuilder(folder, NUM_HOSTS, hosts=hosts)
    for second in range(60):
        for number, host in enumerate(hosts):
            at = {"host": host, "ts_ns": T0 + second * S, "state": "value", "scope": "host"}
            clock = 1_110 if number == 4 and second >= 30 else 1_980
            run.add("host_metrics", -1, second, device=f"gpu:{number}-a", value=clock,
                    metric="gpu_sm_clock_mhz", **at)  # fmt: skip
            run.add("host_metrics", -1, second, device="net:eth0", value=1e6 * second,
                    metric="net_transmitted_bytes_total", **at)  # fmt: skip
    for rank in range(NUM_HOSTS):
        run.step(rank, 0, 0, 60e6)
    run.rank_files()
    run.publish()


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    runs = tmp_path_factory.mktemp("pages") / "runs"
    with_machines(runs / "job")
    selftest_run(runs / "measured", 3, 2, lambda test, ranks: 1.0)
    data_run(runs / "loaders")
    expert_run(runs / "moe")
    changed_run(runs / "declined", 200, 120, gc_ms=6)
    ranks = {0: phases(waits=6), 1: phases("restore", 6), 2: phases(waits=6)}
    started_run(runs / "slow-start", ranks)
    RunBuilder(runs / "bare", 2).rank_files()
    with closing(Hub(runs)) as hub:
        yield hub


def answers(hub: Hub, view: View, most_hosts: int = 256) -> dict[str, Any]:
    return page_answers(hub, shown_view(hub, view), most_hosts, None)


def test_the_page_data_is_in_its_file(hub: Hub) -> None:
    found = answers(hub, View("loaders", "data"))
    assert found["data"]["why"].startswith("Worker 1 takes")
    assert "data" not in answers(hub, View("loaders", "ranks"))
    page = document(collect(hub, shown_view(hub, View("loaders", "data")), DETAILS[0]))
    parsed = Parsed(page)
    assert ("div", {"id": "shared-data-loading", "class": "data-loading"}) in parsed.tags


def test_the_page_experts_is_in_its_file(hub: Hub) -> None:
    chosen = View("moe", "experts", expert=(HOT_LAYER, HOT_EXPERT))
    found = answers(hub, chosen)
    one = f"experts/expert?layer={HOT_LAYER}&expert={HOT_EXPERT}"
    assert set(found) == {"experts", "experts/steps", "experts/ranks", one}
    assert len(meta_of(found["experts"])["layers"]) == 2
    assert found["experts/ranks"]["num_ranks"] == 4
    assert one not in answers(hub, chosen.to(expert=None))
    assert len(answers(hub, chosen.to(expert=(HOT_LAYER, 99)))) == 3
    assert "experts" not in answers(hub, View("moe", "ranks"))
    parsed = Parsed(document(collect(hub, shown_view(hub, chosen), DETAILS[0])))
    assert ("div", {"id": "shared-experts", "class": "experts"}) in parsed.tags
    assert json.loads(parsed.scripts[0])["expert"] == [HOT_LAYER, HOT_EXPERT]


def test_start_up_and_goodput_are_in_the_file_of_the_page_efficiency(hub: Hub) -> None:
    found = answers(hub, View("slow-start", "efficiency"))
    assert found["startup"]["slow"][0]["ranks"] == (1,)
    assert [row["attempt"] for row in found["goodput"]["attempts"]] == [0]
    shown = shown_view(hub, View("slow-start", "efficiency"))
    parsed = Parsed(document(collect(hub, shown, DETAILS[0])))
    for name in ("startup", "goodput"):
        assert ("div", {"id": f"shared-{name}", "class": name}) in parsed.tags


def test_the_page_efficiency_is_in_its_file(hub: Hub) -> None:
    chosen = View("declined", "efficiency", steps=(130, 139), peak="1")
    found = answers(hub, chosen)
    assert found["mfu"]["waterfall"]["first_step"] == 130
    assert found["mfu/change"]["comparison"]["after"] == (120, 199)
    compared = answers(hub, chosen.to(against=(0, 9)))["mfu/change"]
    assert compared["comparison"]["before"] == (0, 9)
    few = answers(hub, chosen.to(against=(0, 1)))["mfu/change"]
    assert few["sentence"] == "A window has 2 finished steps; choose at least 4."
    assert "mfu" not in answers(hub, View("declined", "ranks"))
    parsed = Parsed(document(collect(hub, shown_view(hub, chosen), DETAILS[0])))
    assert ("div", {"id": "shared-mfu", "class": "mfu efficiency"}) in parsed.tags


def test_the_page_machines_is_in_its_file(hub: Hub) -> None:
    found = answers(hub, View("job", "machines"))
    assert set(found) == {
        "machines",
        "machines/changes",
        "machines/host?host=<b>4",
        "machines/ports?metric=net_transmitted_bytes_total",
    }
    assert len(meta_of(found["machines"])["hosts"]) == NUM_HOSTS
    assert [change["step"] for change in found["machines/changes"]["changes"]] == [30]
    assert "machines/host?host=<b>2" in answers(hub, View("job", "machines", rank=2))


def test_of_many_hosts_those_that_differ_most_are_compared_with_all(hub: Hub) -> None:
    meta = meta_of(answers(hub, View("job", "machines"), 2)["machines"])
    assert meta["hosts"] == ["<b>0", "<b>4"]
    assert (meta["num_hosts"], meta["ranks"], meta["compares"]) == (NUM_HOSTS, [[0], [4]], True)
    clock = [column["name"] for column in meta["columns"]].index("gpu_sm_clock_mhz")
    assert meta["medians"][clock] == 1_980.0


def test_other_pages_state_what_changed(hub: Hub) -> None:
    found = answers(hub, View("job"))
    assert [one["step"] for one in found["machines/telling"]["changes"]] == [30]
    assert set(found) == {"machines/telling"}
    assert answers(hub, View("bare")) == {}


def test_a_self_test_is_in_its_file(hub: Hub) -> None:
    found = answers(hub, View("measured"))
    assert found["selftest"]["devices"]
    (matrix,) = [key for key in found if key.startswith("selftest/matrix")]
    assert matrix.startswith("selftest/matrix?test=pair&bytes=268435456&by=host")
    assert meta_of(found[matrix])["names"] == ["node0000", "node0001", "node0002"]


def test_a_self_test_has_no_goodput_and_no_step_is_awaited(hub: Hub) -> None:
    found = answers(hub, View("measured", "efficiency"))
    assert found["goodput"] == {"reason": OF_A_SELFTEST}
    assert found["mfu"] == {"waterfall": None, "why": "No step times were recorded."}


def test_the_file_has_a_place_for_each_and_names_stay_text(hub: Hub) -> None:
    page = document(collect(hub, shown_view(hub, View("job", "machines")), DETAILS[0]))
    parsed = Parsed(page)
    assert ("div", {"id": "shared-machines", "class": "machines"}) in parsed.tags
    assert "<b>4" not in page
    data = json.loads(parsed.scripts[0])
    assert base64.b64decode(data["answers"]["machines"]["base64"])
    places = [attributes.get("id") for _, attributes in parsed.tags]
    assert "shared-machine-changes" not in places
    assert "shared-selftest" not in places
