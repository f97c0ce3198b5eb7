"""`rankscope diagnose`, through the real command line in process."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from app.cli import main
from app.commands.diagnose import as_lines
from diagnosis.findings import Diagnosis, Finding, Verdict
from sample_traces import RECORDED
from tests.diagnosis.test_one_cause import finding
from tests.runs_builder import RunBuilder, two_rank_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    shutil.copytree(RECORDED / "slow_rank", tmp_path / "slow_rank")
    return tmp_path / "slow_rank"


def test_findings_exit_3_and_name_the_rank(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(run)]) == 3
    output = capsys.readouterr().out
    assert "URGENT  Rank 5 is slow. Its compute takes 1." in output
    assert "evidence" in output
    assert "next step " in output


def test_json_holds_findings_that_can_be_read_back(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", str(run), "--json"]) == 3
    output = json.loads(capsys.readouterr().out)
    assert output["judged"]
    (only,) = (Finding.from_json(one) for one in output["findings"])
    assert only.id == output["findings"][0]["id"]


def test_a_healthy_run_exits_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(RECORDED / "healthy", tmp_path / "healthy")
    assert main(["diagnose", str(tmp_path / "healthy")]) == 0
    assert "No rank was slow" in capsys.readouterr().out


def test_too_little_to_judge_exits_4(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    two_rank_run(tmp_path / "two")
    assert main(["diagnose", str(tmp_path / "two")]) == 4
    assert "Only 3 steps are finished" in capsys.readouterr().out
    RunBuilder(tmp_path / "begun").rank_files()
    assert main(["diagnose", str(tmp_path / "begun")]) == 4
    assert "No step is finished yet" in capsys.readouterr().out


def test_an_unknown_attempt_is_one_sentence(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(run), "--attempt", "7"]) == 2
    assert "there is no attempt 7; there are: 0" in capsys.readouterr().err


def test_what_was_not_judged_and_what_is_not_recorded_are_listed_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(RECORDED / "healthy", tmp_path / "healthy")
    main(["diagnose", str(tmp_path / "healthy")])
    lines = capsys.readouterr().out.splitlines()
    unjudged = [line for line in lines if line.startswith("not judged ")]
    assert (
        len([line for line in unjudged if "wait for CPU cores" in line]) == 1
    )  # of four detectors
    assert any(line.startswith("unrecorded  No checkpoint save was recorded") for line in lines)
    assert not any("checkpoint" in line for line in unjudged)


@pytest.mark.parametrize(
    ("named", "who"),
    [
        ({"stages": (2,)}, ["  who         pipeline stage 2"]),
        ({"hosts": ("node1", "node2")}, ["  who         node1, node2"]),
        ({}, []),
    ],
)
def test_who_is_a_stage_a_host_or_nobody(named: dict[str, Any], who: list[str]) -> None:
    found = Diagnosis((Verdict("a", (finding(None, 5, 9, **named),)),))
    assert [line for line in as_lines(found) if line.startswith("  who")] == who
