"""`rankscope fleet`: on small runs, and on 40 generated ones with a bad host among them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from app.cli import EXIT_INTERRUPTED, EXIT_USER_ERROR, main
from app.commands import fleet as verb
from app.commands.fleet import progress_line
from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import RANKS_PER_HOST, SyntheticJob
from sample_traces.generate.tables.write import generate
from tests.app.commands.json_output import json_of
from tests.runs_builder import two_rank_run

HOSTS_PER_RUN = 4


def test_what_it_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    two_rank_run(tmp_path / "a", num_steps=8)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "run.json").write_text("{")
    assert main(["fleet", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("runs       1, ")
    assert "of 1 run" in out
    assert "judged; less than 0.00001 rank-hours\n" in out
    assert "hosts      not compared: no host is in as many as 3 runs" in out
    assert "MFU        not known" in out
    assert "\nnot read   bad: " in out


def test_a_single_run_is_a_fleet_of_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = two_rank_run(tmp_path / "a").folder
    answer = json_of(capsys, "fleet", folder)
    assert answer["num_runs"] == 1
    assert answer["problems"] == {}


def test_a_folder_without_runs_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fleet", str(tmp_path)]) == EXIT_USER_ERROR
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "contains no run; give a folder of runs" in err


def test_ctrl_c_leaves_what_is_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        two_rank_run(tmp_path / name)
    plain = verb.complete

    def interrupted(found, progress):
        def at_the_second(done: int, total: int, name: str) -> None:
            if done == 1:
                raise KeyboardInterrupt

        plain(found, at_the_second)

    monkeypatch.setattr(verb, "complete", interrupted)
    assert main(["fleet", str(tmp_path)]) == EXIT_INTERRUPTED
    assert "interrupted" in capsys.readouterr().err
    assert len(list(tmp_path.glob("*/index/summary.json"))) == 1


def test_names_of_runs_do_not_reach_the_terminal_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = two_rank_run(tmp_path / "a", num_steps=8)
    info = json.loads((run.folder / "run.json").read_text())
    changed = info | {"model": {"name": "\x1b[31mred", "parameters": 1e9}}
    (run.folder / "run.json").write_text(json.dumps(changed))
    run.folder.rename(tmp_path / "\x1b[32mgreen")
    assert main(["fleet", str(tmp_path)]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_progress_has_the_time_that_is_left() -> None:
    assert progress_line(0, 10, 0.0, "a") == "summarising run 1 of 10: a"
    assert progress_line(5, 10, 10.0, "a\x1b") == (
        "summarising run 6 of 10, about 10 s left: a\\x1b"
    )


@pytest.mark.long
def test_of_40_generated_runs_the_host_that_is_slow_in_5_is_named_and_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Host 0 took part in ten runs and was slow in five of them, on another place each time; in
    three other runs another host was slow.
    """
    made = [_generated(tmp_path / f"made{slow}", slow) for slow in (None, *range(HOSTS_PER_RUN))]
    rng = np.random.default_rng(3)
    runs = tmp_path / "runs"
    for number in range(40):
        hosts = rng.choice(np.arange(1, 21), HOSTS_PER_RUN, replace=False).tolist()
        place, slow = number // 4 % HOSTS_PER_RUN, None
        if number % 4 == 0:
            hosts[place] = 0
            slow = place if number % 8 == 0 else None
        elif number in (5, 18, 31):
            slow = place
        source = made[0] if slow is None else made[1 + slow]
        _copied(source, runs / f"run{number:02d}", hosts)
    assert main(["fleet", str(runs)]) == 0
    out, err = capsys.readouterr()
    assert "slow host  gpu00: slow in 5 of 10 runs" in out
    assert not err or "summarising run" in err  # a log has a line every ten seconds
    answer = json_of(capsys, "fleet", runs)
    (named,) = answer["hosts"]["named"]
    assert (named["host"], named["num_slow"], named["num_runs"]) == ("gpu00", 5, 10)
    assert (named["is_place_possible"], named["ranks"]) == (False, [])
    assert [one["run"] for one in named["runs"]] == [f"run{n:02d}" for n in (0, 8, 16, 24, 32)]
    assert answer["causes"][0]["cause"] == "slow_worker"
    assert answer["causes"][0]["num_runs"] == 8
    assert answer["slowdowns"]["num_runs"] == 40
    (day,) = answer["over_time"]["periods"]
    assert (day["first"], day["num_runs"]) == ("2026-01-01", 40)
    assert {one["run"] for one in answer["worst"][:8]} == {
        f"run{n:02d}" for n in (0, 5, 8, 16, 18, 24, 31, 32)
    }


def _generated(folder: Path, slow_host: int | None) -> Path:
    """A run of HOSTS_PER_RUN hosts, a rank of one of them slow."""
    faults = (
        ()
        if slow_host is None
        else (SyntheticFault("slow_worker", slow_host * RANKS_PER_HOST + 3, 1.6),)
    )
    ranks = HOSTS_PER_RUN * RANKS_PER_HOST
    job = SyntheticJob(ranks, pp=2, tp=4, num_steps=10, num_microbatches=4, faults=faults)
    generate(job, folder)
    return folder


def _copied(source: Path, folder: Path, hosts: list[int]) -> None:
    """The same run on other hosts."""
    shutil.copytree(source, folder, copy_function=os.link)
    _change(folder / "run.json", run=folder.name)
    for file in (folder / "ranks").iterdir():
        rank = json.loads(file.read_text())["rank"]
        _change(file, host=f"gpu{hosts[rank // RANKS_PER_HOST]:02d}")


def _change(file: Path, **changed: object) -> None:
    plain = json.loads(file.read_text()) | changed
    file.unlink()  # a link to the file of the run that was copied
    file.write_text(json.dumps(plain))
