"""`rankscope selftest`: the command to run, and the result."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from app.cli import EXIT_USER_ERROR, main
from app.commands.diagnose import EXIT_FINDINGS, EXIT_NOT_ENOUGH
from app.commands.selftest import selftest_command
from tests.runs_builder import two_rank_run
from tests.selftest_runs import selftest_run
from trace_hooks.selftest.arguments import read_options


def slow(test: str, ranks: tuple[int, ...]) -> float:
    return 3.0 if test == "pair" and any(rank // 2 == 2 for rank in ranks) else 1.0


def test_the_command_of_one_host_and_of_many(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["selftest"]) == 0
    one = capsys.readouterr().out
    assert "torchrun --standalone --nproc-per-node 8 -m trace_hooks.selftest" in one
    assert "srun" not in one
    assert main(["selftest", "--hosts", "4", "--json"]) == 0
    command = json.loads(capsys.readouterr().out)["command"]
    assert command == selftest_command(4, 8, 60.0, "runs")
    assert "--nnodes 4" in command


def test_the_module_takes_the_options_of_the_command() -> None:
    own = selftest_command(2, 8, 12.5, "some/my runs").partition("trace_hooks.selftest ")[2]
    options = read_options(shlex.split(own))
    assert (options.folder, options.budget_s) == (Path("some/my runs").absolute(), 12.5)


def test_the_result_names_the_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = selftest_run(tmp_path / "run", slowness=slow).folder
    assert main(["selftest", str(folder)]) == EXIT_FINDINGS
    out = capsys.readouterr().out
    assert "Host node0002 is slow in the self-test" in out
    assert out.startswith("test ")
    assert main(["selftest", str(folder), "--json"]) == EXIT_FINDINGS
    answer = json.loads(capsys.readouterr().out)
    assert [finding["hosts"] for finding in answer["findings"]] == [["node0002"]]
    assert answer["tests"][0]["test"] == "matmul"


def test_a_good_one_and_a_baseline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = str(selftest_run(tmp_path / "good", seed=1).folder)
    worse = selftest_run(tmp_path / "w", slowness=lambda t, _: 1.5 if t == "pair" else 1.0).folder
    assert main(["selftest", good]) == 0
    assert main(["selftest", str(worse)]) == 0
    assert main(["selftest", str(worse), "--baseline", good]) == EXIT_FINDINGS
    assert "All machines are slower than in the baseline" in capsys.readouterr().out
    assert main(["diagnose", str(worse), "--baseline", good]) == EXIT_FINDINGS
    assert "All machines are slower than in the baseline" in capsys.readouterr().out


@pytest.mark.parametrize(
    "wrong",
    [["--hosts", "0"], ["--baseline", "x"], ["--budget-s", "0"], ["--budget-s", "inf"]],
)
def test_wrong_options(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["selftest", *wrong]) == EXIT_USER_ERROR
    assert capsys.readouterr().err.count("\n") == 1


def test_an_ordinary_run_is_no_self_test(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["selftest", str(two_rank_run(tmp_path / "run").folder)]) == EXIT_USER_ERROR
    assert "holds no self-test" in capsys.readouterr().err


def test_diagnose_asks_no_self_test_for_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, num_hosts, code in (("good", 4, 0), ("one", 1, EXIT_NOT_ENOUGH)):
        folder = selftest_run(tmp_path / name, num_hosts, 1).folder
        assert main(["diagnose", str(folder), "--json"]) == code
        answer = json.loads(capsys.readouterr().out)
        assert not [text for text in answer["could_not_judge"] if "step" in text]
        assert not [text for text in answer["not_recorded"] if "step" in text]
