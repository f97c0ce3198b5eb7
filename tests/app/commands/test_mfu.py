"""rankscope mfu: the waterfall and what changed, as text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.analysis.imports import import_paths
from app.cli import EXIT_USER_ERROR, main
from app.commands.mfu import EXIT_NOT_ENOUGH
from tests.folders import NO_TRACES, TRACES
from tests.mfu_runs import changed_run, mfu_run
from tests.runs_builder import RunBuilder


def test_the_waterfall_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mfu", str(mfu_run(tmp_path / "run", 8)), "--peak-tflops", "1"]) == 0
    out = capsys.readouterr().out
    assert "steps 3 to 7: 100 ms per step, 2 ranks, peak 1 TFLOP/s per device\n" in out
    assert "- Kernels below peak           37.0 %      37 ms  most in step 3, ranks 0, 1" in out
    assert "ranks 0, 1 (backward, forward)\n" in out
    assert "- Waiting for other ranks       2.0 %     2.0 ms  most in step 3, for rank 1\n" in out
    assert "= MFU                          40.0 %\n" in out
    assert (
        "No decline is seen in steps 0 to 7. Among so few steps one is found if they become 25 % "
        "longer for 3 steps, or 5 % for 20; others may be there.\n" in out
    )


def test_a_job_that_resumes_warms_up_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mfu", str(changed_run(tmp_path / "run", 8, 600, first_step=500))]) == 0
    assert capsys.readouterr().out.startswith("steps 503 to 507: ")


def test_one_step_says_that_there_is_nothing_to_compare_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mfu", str(mfu_run(tmp_path / "run", 1))]) == 0
    said = capsys.readouterr().out.splitlines()[-1]
    assert said == "No decline can be seen in step 0 alone: it takes steps to compare with."


def test_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = changed_run(tmp_path / "run", 20, 10, gc_ms=10)
    command = ["mfu", str(folder), "--window", "10:19", "--against", "0:9", "--json"]
    assert main([*command, "--peak-tflops", "1"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["waterfall"]["mfu"] == pytest.approx(40 / 110)
    comparison = answer["change"]["comparison"]
    assert comparison["lost"]["points"] == pytest.approx(100 * (0.4 - 40 / 110))
    assert answer["change"]["causes"][0]["kind"] == "garbage_collections"


def test_against_another_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = changed_run(tmp_path / "good", 12, 12)
    slow = changed_run(tmp_path / "slow", 12, 0, gc_ms=0, move_ms=10)
    assert main(["mfu", str(slow), "--against", str(good)]) == 0
    said = capsys.readouterr().out.splitlines()[-1]
    assert said.startswith("Steps take 10.0 % (10.0 to 10.0) longer compared with ")
    assert "DP communication +10.0 (above all reduce_scatter, 16 ms per step" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--window", "30:40"], "has no finished step among steps 30 to 40"),
        (["--window", "9:3"], "'9:3' is no window"),
        (["--window", "x"], "'x' is no window"),
        (["--peak-tflops", "0"], "'0' is no number above 0"),
        (["--peak-tflops", "nan"], "'nan' is no number above 0"),
        (["--against", "0:1"], "a window has 2 finished steps; choose at least 4"),
        (["--against", "7:3"], "argument --against: '7:3' is no window; give first and last step"),
        (["--against", "nowhere"], "nowhere does not exist"),
    ],
)
def test_a_wrong_argument_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    folder = mfu_run(tmp_path / "run", 8)
    try:
        code = main(["mfu", str(folder), *arguments])
    except SystemExit as ended:  # argparse's own
        code = int(ended.code or 0)
    assert code == EXIT_USER_ERROR
    out, err = capsys.readouterr()
    assert (out, message in err) == ("", True)


def test_a_job_without_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = RunBuilder(tmp_path / "run", 2)
    run.rank_files()
    assert main(["mfu", str(run.folder)]) == EXIT_NOT_ENOUGH
    assert (
        capsys.readouterr().err
        == "rankscope mfu: no step is finished; there is nothing to divide\n"
    )
    assert main(["mfu", str(run.folder), "--json"]) == EXIT_NOT_ENOUGH
    assert json.loads(capsys.readouterr().out)["waterfall"] is None


@pytest.mark.skipif(not TRACES.is_dir(), reason=NO_TRACES)
@pytest.mark.parametrize(("trace", "last_to_come"), [("dlrm8.tar.gz", 7), ("megatron_tp2", 0)])
def test_the_parts_of_real_profiles_add_up_and_name_who_is_waited_for(
    trace: str, last_to_come: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = import_paths([TRACES / "kineto" / trace], tmp_path)
    assert main(["mfu", str(run), "--peak-tflops", "312", "--json"]) == 0
    fall = json.loads(capsys.readouterr().out)["waterfall"]
    bars = {bar["name"]: bar for bar in fall["bars"]}
    assert sum(bar["share"] for bar in bars.values()) == pytest.approx(1, abs=0.01)
    assert bars["waiting"]["ranks"][0]["rank"] == last_to_come
    assert fall["mfu"] is None
    assert "FLOPs of the steps are not known" in fall["why_no_mfu"]
