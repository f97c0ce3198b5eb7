"""rankscope whatif: its numbers, and one sentence for what it cannot answer."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from app.cli import main
from app.commands.whatif import as_text, schedules_text
from app.views.whatif.analysis import whatif_of
from diagnosis.whatif.causes import Cause
from diagnosis.whatif.schedules.names import NAMES
from diagnosis.whatif.schedules.predict import Prediction
from ingest.run import open_run
from sample_traces import RECORDED
from sample_traces.generate.straggler_trace import MegatronJob
from tests.app.views.whatif.test_analysis import refused, whatif, written
from tests.runs_builder import two_rank_run


def test_one_stage_has_no_m_s(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = MegatronJob(pp=1, dp=4, num_steps=3, slow=((0, 2, 1.5),))
    answer = whatif(written(job, tmp_path / "in"), capsys)
    assert answer["M_S"] is None
    assert answer["M_W_ranks"] == [2]
    assert not [name for name in answer["S_t"] if "pp-comm" in name]


def test_a_trace_without_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(MegatronJob(pp=2, dp=1), tmp_path / "in", with_sizes=False)
    assert "the layout of the job is unknown" in refused(path, capsys)


def test_an_axis_the_layout_lacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    two_rank_run(tmp_path / "run", num_steps=5)
    answer = whatif(tmp_path / "run", capsys)
    assert answer["S_w"] == {"0": pytest.approx(7 / 9), "1": 1.0}  # rank 0 waits 20 of 90 us
    assert (answer["M_W"], answer["M_S"]) == (None, None)  # there is no loss to share out


def test_of_next_to_nothing_no_share_is_recovered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(MegatronJob(pp=2, dp=2, num_steps=3), tmp_path / "in")
    assert main(["whatif", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("healthy")]
    assert not [line for line in lines if line.startswith(("M_W", "M_S"))]


def test_times_and_shares_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two_rank_run(tmp_path / "run", num_steps=5)
    with open_run(tmp_path / "run") as run:
        answer = whatif_of(run)
    long = Cause("slow_stage", (0,), (), 2.0, 1.234, "stage 0 is slow")
    monkeypatch.setattr("app.commands.whatif.causes", lambda prepared: (long,))
    text = as_text(replace(answer, metrics=replace(answer.metrics, fidelity=-1e-9)))
    assert "(fidelity +0.00 %)" in text
    assert "all steps together are 1,234 ms longer on average" in text
    loss = replace(answer.metrics, S=1.5, M_W=-0.09, M_W_ranks=(1,), M_S=0.2)
    lines = as_text(replace(answer, metrics=loss)).splitlines()
    assert "M_W        none of the lost time is recovered if rank 1 keeps pace" in lines
    assert "M_S        20.0 % of it is recovered if the last stage keeps pace" in lines


def test_what_findings_cost_is_listed_apart_from_the_replay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(RECORDED / "slow_rank", tmp_path / "slow_rank")
    main(["diagnose", str(tmp_path / "slow_rank")])
    (cost,) = [
        line.removeprefix("  cost").strip()
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("  cost")
    ]
    assert main(["whatif", str(tmp_path / "slow_rank")]) == 0
    findings, replayed = capsys.readouterr().out.split("\n\n")
    assert findings.splitlines() == [
        "What findings cost, each in its own steps",
        f"           Rank 5 is slow: {cost}",
    ]
    assert replayed.startswith("All unevenness of the ranks together, by replay\nS  ")
    assert " % of the replayed time, on average over " in replayed.splitlines()[1]


def test_schedules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(MegatronJob(pp=4, dp=2, num_steps=4), tmp_path / "in")
    assert main(["whatif", str(path), "--schedule", "all", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["S"] > 0
    schedules = found["schedules"]
    assert list(schedules) == list(NAMES)
    known = {name: one for name, one in schedules.items() if not one["reason"]}
    assert {"1f1b", "gpipe", "zb-h1", "zbv", "fbd"} <= set(known)
    for one in known.values():
        assert one["low_s"] <= one["span_s"] * 1.001
        assert 0 < one["bubble"] < 1
        assert one["assumptions"]
        assert one["memory_bytes"] is None
    assert known["fbd"]["num_devices"] == 8
    assert known["1f1b"]["in_flight"] == [4, 3, 2, 1]
    assert known["zb-h1"]["span_s"] < known["1f1b"]["span_s"]


def test_devices_stand_idle_as_long_as_the_page_says() -> None:
    """With the gaps between operations, as the time that is to be expected has them."""
    one = Prediction(
        "gpipe", 1.0, 1.25, 1.2, 1.3, 0.2, 0.36, 2, (4.0, 4.0), None, None, ("Nothing.",)
    )
    heads, row, _ = schedules_text([one]).splitlines()
    assert heads.split()[-2:] == ["idle", "held"]
    assert " 36.0%  4 micro-batches" in row


def test_schedules_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(MegatronJob(pp=2, dp=1, num_steps=4), tmp_path / "in")
    assert main(["whatif", str(path), "--schedule", "gpipe", "zbv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[0] for line in lines[1:3]} == {"gpipe", "zbv"}
    assert any("50% of a backward" in line and line.endswith("(zbv)") for line in lines)


def test_one_stage_has_no_schedules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(MegatronJob(pp=1, dp=4, num_steps=3), tmp_path / "in")
    assert main(["whatif", str(path), "--schedule", "all"]) == 4
    assert "has one pipeline stage" in capsys.readouterr().err


def test_no_such_path(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["whatif", "nowhere"]) == 2
    assert "nowhere" in capsys.readouterr().err
