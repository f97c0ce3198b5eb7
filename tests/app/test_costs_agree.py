"""Banner, tile, drawer, What-if, command line and shared file give one cost for a finding, asked
of 50 generated runs of many kinds of faults, doses and layouts.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from app.analysis.diagnosis import diagnosis_of
from app.analysis.kpis import kpis_of
from app.cli import main
from app.commands.diagnose import as_lines
from app.components.banner import banner
from app.components.drawer import drawer
from app.runs.hub import Hub
from app.server import make_app
from app.share.shared_file import shared_file
from app.view_state import View
from diagnosis.cost_text import hours_text, share_text
from diagnosis.findings import Finding
from diagnosis.statistics.units import in_ms
from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.tables.write import generate
from tests.app.in_process import Client
from tests.app.pages_in_process import having, text_of
from tests.app.share.page_parser import Parsed

LAYOUTS = (
    {"num_ranks": 8, "pp": 2, "tp": 2, "num_steps": 30},
    {"num_ranks": 16, "pp": 4, "tp": 2, "num_steps": 40},
    {"num_ranks": 16, "pp": 1, "tp": 1, "num_steps": 24},
)
FAULTS = (
    ("slow_worker=5,x=1.3,from=12",),
    ("slow_worker=3,x=1.1,from=9",),
    ("slow_worker=2,x=2,from=0",),
    ("slow_worker=6,x=1.5,from=8,to=15",),
    ("slow_worker=1,x=1.4,from=10", "data_loader,ms=60,from=15"),
    ("slow_worker=1,x=1.3,from=6", "slow_worker=7,x=1.3,from=16"),
    ("data_loader,ms=100,from=10",),
    ("data_loader,ms=30,from=12",),
    ("gc_pauses,ms=60,from=10",),
    ("slow_stage=0,x=1.4,from=10",),
    ("slow_dp_network=1,x=4,from=10",),
    ("host_contention=0,x=1.6,from=12",),
    ("step_regression,x=1.2,from=10",),
    ("step_regression,x=1.5,from=12,to=18",),
    ("slow_checkpoint=1,ms=600,from=5",),
    ("jit_spikes,ms=200,from=5",),
    ("monitor_overhead,ms=50,from=8",),
)
CASES = [(fault, layout) for layout, fault in itertools.product(LAYOUTS, FAULTS)][:50]
FEWEST_WITH_A_COST = 40
"""Of the runs: a test of hardly any cost would say nothing."""

LINE = re.compile(
    r"([\d,.]+ m?s) per step, ([\d.]+ %) of step time; ([\d,.]+ rank-hours) in"
    r" ((?:\d+ of )?steps? [\d to]+); "
    r"(wall time, (?:measured against steps without it|estimated))"
)
NO_LONGER = "no longer for it, as far as can be measured."
SENTENCE = re.compile(r"Steps t(?:ake|ook) (?:about )?([\d,.]+ m?s) longer for it, ([\d.]+ %) of")

Numbers = tuple[str, ...]
"""ms per step, share, rank-hours, steps and how it was found"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("costs")
    for number, (faults, layout) in enumerate(CASES):
        planted = tuple(SyntheticFault.parse(fault) for fault in faults)
        job = SyntheticJob(**layout, level="steps", seed=number, faults=planted)
        generate(job, folder / f"run{number}")
    return folder


@pytest.fixture(scope="module")
def hub(runs: Path) -> Iterator[Hub]:
    with closing(Hub(runs)) as hub:
        yield hub


@pytest.fixture(scope="module")
def client(hub: Hub) -> Iterator[Client]:
    with closing(Client(make_app(hub))) as client:
        yield client


def lines_in(text: str) -> list[Numbers]:
    return [match.groups() for match in LINE.finditer(" ".join(text.split()))]


def says(text: str, numbers: Numbers) -> bool:
    """Whether the one sentence on its cost in this text has these numbers."""
    flat = " ".join(text.split())
    if numbers[0] == in_ms(0.0):
        return flat.count(NO_LONGER) == 1 and not SENTENCE.search(flat)
    return SENTENCE.findall(flat) == [numbers[:2]]


def of_json(plain: dict[str, Any]) -> Numbers:
    cost = plain["cost"]
    return in_ms(cost["ms_per_step"]), share_text(cost["share"]), hours_text(cost["rank_hours"])


def of_tile(hub: Hub, view: View) -> Numbers:
    tile = next(kpi for kpi in kpis_of(hub, view) if kpi.key == "cost")
    (numbers,) = lines_in(f"{tile.value} {tile.unit}, {tile.detail}; {tile.extra}")
    return numbers


def in_drawer(hub: Hub, name: str, findings: Sequence[Finding]) -> list[Numbers]:
    shown = drawer(diagnosis_of(hub, name), View(name), "")
    parts = [having(shown, id=f"finding-{finding.id}") for finding in findings]
    return [numbers for part in parts for numbers in lines_in(text_of(part))]


@pytest.mark.sampled(every=25)
@pytest.mark.parametrize("number", range(len(CASES)))
def test_every_place_gives_the_same_cost(
    hub: Hub, client: Client, runs: Path, number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"run{number}"
    diagnosis = diagnosis_of(hub, name)
    main(["diagnose", str(runs / name), "--json"])
    printed = json.loads(capsys.readouterr().out)
    assert [one["id"] for one in printed["findings"]] == [one.id for one in diagnosis.findings]

    with_cost = [one for one in diagnosis.findings if one.cost is not None]
    plain = [of_json(one) for one in printed["findings"] if one["cost"] is not None]
    shown = in_drawer(hub, name, with_cost)
    assert [numbers[:3] for numbers in shown] == plain
    assert lines_in("\n".join(as_lines(diagnosis))) == shown
    answer = client.get(f"/api/run/{name}/what-if/costs").json()
    assert [one["id"] for one in answer["costs"]] == [one.id for one in with_cost]
    assert lines_in("\n".join(one["text"] for one in answer["costs"])) == shown
    for finding, numbers in zip(with_cost, shown, strict=True):
        view = View(name, finding=finding.id)
        page = Parsed(shared_file(hub, view).content.decode()).text
        assert lines_in(page) == [numbers]
        assert of_tile(hub, view) == numbers
        for text in (text_of(banner(diagnosis, view, "")), page, finding.text):
            assert says(text, numbers)


@pytest.mark.long
def test_the_tile_on_top_is_that_of_the_most_urgent_finding(hub: Hub) -> None:
    num_known = 0
    for number in range(len(CASES)):
        name = f"run{number}"
        findings = diagnosis_of(hub, name).findings
        with_cost = [one for one in findings if one.cost is not None]
        keys = [kpi.key for kpi in kpis_of(hub, View(name))]
        assert (keys[0] == "cost") == bool(with_cost)
        num_known += bool(with_cost)
        if with_cost and with_cost[0] is findings[0]:
            first = View(name, finding=with_cost[0].id)
            assert of_tile(hub, View(name)) == of_tile(hub, first)
    assert num_known >= FEWEST_WITH_A_COST
