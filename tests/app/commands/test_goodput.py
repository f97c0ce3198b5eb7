"""rankscope goodput: the ledger, the start-up, and what it refuses."""

from __future__ import annotations

import json

import pytest

from app.cli import EXIT_USER_ERROR, main
from app.views.efficiency.goodput import in_words
from tests.runs_builder import T0, RunBuilder
from tests.selftest_runs import selftest_run
from tests.startup_runs import S, interrupted_run, phases, started_run, startup_rows


def printed(capsys, *arguments):
    assert main(["goodput", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_the_ledger_of_an_interrupted_run(tmp_path, capsys):
    interrupted_run(tmp_path / "run")
    out = printed(capsys, tmp_path / "run")
    assert "effective   51.1 % of 3.82 min (ETTR), 2 interruptions" in out
    assert "attempt 1   killed, steps 6 to 19:" in out
    assert "interrupted only twice" in out
    assert "start-up    not recorded" in out


def test_the_parts_printed_add_up_to_the_wall_time(tmp_path, capsys):
    run = RunBuilder(tmp_path / "run", 1)
    run.rank_files(end={"ts_ns": T0 + 400 * S, "status": "finished", "error": ""})
    for step, begin_s in enumerate((100, 140, 300)):  # the last rank to come waits outside of steps
        run.step(0, step, begin_s * 1e6, (begin_s + 40) * 1e6)
    run.publish()
    out = printed(capsys, run.folder)
    shares = [float(line.split()[-2]) for line in out.splitlines() if line.startswith("  ")]
    assert sum(shares) == pytest.approx(100.0, abs=0.2)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.9996, "1 s"),
        (0.23, "230 ms"),
        (7000, "117 min"),
        (3.6e6, "1,000 h"),
        (4.32e7, "12,000 h"),
    ],
)
def test_times_in_words(seconds, text):
    assert in_words(seconds) == text


def test_the_start_up_names_who_was_slow(tmp_path, capsys):
    ranks = {0: phases(waits=6), 1: phases("restore", 6, what="load at a.py:3"), 2: phases(waits=6)}
    started_run(tmp_path / "run", ranks)
    out = printed(capsys, tmp_path / "run")
    assert "slow        Rank 1: 7.0 s reading a checkpoint (load at a.py:3)" in out


def test_one_rank_is_spoken_of_as_one(tmp_path, capsys):
    started_run(tmp_path / "run", {0: phases("restore", 6)})
    assert " on 1 rank (attempt 0)" in printed(capsys, tmp_path / "run")


def test_one_step_and_one_interruption_are_spoken_of_as_one(tmp_path, capsys):
    run = RunBuilder(tmp_path / "run", 1)
    run.step(0, 0, 0, 100)
    run.rank_files(end={"ts_ns": T0 + 10**6, "status": "failed", "error": "x"})
    run.publish()
    out = printed(capsys, run.folder)
    assert "(ETTR), 1 interruption\n" in out
    assert "attempt 0   failed, step 0: " in out


def test_a_rank_that_still_starts_is_shown_with_what_it_does(tmp_path, capsys):
    started_run(tmp_path / "run", {0: phases("restore", 30), 1: phases(waits=30)}, num_steps=0)
    out = printed(capsys, tmp_path / "run")
    assert "now         rank 1: waiting for other ranks (barrier) for 30 s" in out


def test_ranks_without_a_sign_are_counted_and_those_that_train_are_none(tmp_path, capsys):
    run = RunBuilder(tmp_path / "run", 20)
    startup_rows(run, 0, phases())
    run.step(1, 0, 0, 100)  # its start-up is not recorded
    run.rank_files()
    run.publish()
    out = printed(capsys, run.folder)
    ranks = ", ".join(map(str, range(2, 18)))
    assert f"no sign yet of ranks {ranks} and 2 more\n" in out


def test_json_has_the_ledger_and_the_start(tmp_path, capsys):
    interrupted_run(tmp_path / "run")
    found = json.loads(printed(capsys, tmp_path / "run", "--json"))
    assert found["goodput"]["effective_share"] == pytest.approx(117 / 229)
    assert found["startup"]["num_ranks"] == 0


@pytest.mark.parametrize("arguments", [[], ["--attempt", "7"]])
def test_what_cannot_be_shown_is_one_sentence(tmp_path, capsys, arguments):
    run = RunBuilder(tmp_path / "run", 1)
    run.publish()
    assert main(["goodput", str(run.folder), *arguments]) == EXIT_USER_ERROR
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("rankscope goodput: ")


def test_a_self_test_has_none(tmp_path, capsys):
    selftest_run(tmp_path / "run", 2, 1)
    assert main(["goodput", str(tmp_path / "run")]) == EXIT_USER_ERROR
    err = capsys.readouterr().err
    assert "has no goodput: a self-test trains nothing" in err
    assert err.count("\n") == 1
