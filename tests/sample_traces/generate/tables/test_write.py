"""Synthetic jobs as run folders: determinism, labels, thousands of ranks."""

from pathlib import Path

import pytest

from app.cli import main
from sample_traces.generate.faults import KINDS, SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.tables.write import generate
from tests.sample_traces.generate.generated import (
    made,
    per_rank,
    rows,
)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_equal_seeds_give_equal_bytes(tmp_path: Path, healthy: Path) -> None:
    again = made(tmp_path / "run")
    assert contents(again) == contents(healthy)


def test_a_dead_rank_falls_silent_and_its_peers_wait(tmp_path: Path) -> None:
    run = made(tmp_path / "run", "dead_rank=5,from=3")
    assert max(rows(run, "steps")["step"].to_pylist()) == 2
    open_rows = [r for r in rows(run, "collectives").to_pylist() if r["state"] == "started"]
    assert {r["rank"] for r in open_rows} == {1, 3, 7}
    beats = per_rank(run, "heartbeats", "ts_ns")
    assert max(beats[5]) < min(max(beats[rank]) for rank in range(16) if rank != 5)


@pytest.mark.parametrize("kind", KINDS)
def test_truth_is_written(tmp_path: Path, kind: str) -> None:
    target = {"job": "", "host": "=0"}.get(KINDS[kind].target, "=1")
    job = SyntheticJob(
        8, 4, 1, 4, 2, level="steps", faults=(SyntheticFault.parse(f"{kind}{target},from=1"),)
    )
    generate(job, tmp_path / "run")
    assert f'"kind": "{kind}"' in (tmp_path / "run" / "run.json").read_text()


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "run")
    assert main(["generate", out, "--ranks", "8", "--steps", "2", "--level", "steps"]) == 0
    assert "8 ranks (pp 2 x dp 2 x tp 2), 2 steps" in capsys.readouterr().out
    assert main(["generate", out]) == 2
    assert "is not empty; name a new folder" in capsys.readouterr().err


def test_thousands_of_ranks(tmp_path: Path) -> None:
    job = SyntheticJob(1024, 8, 8, num_steps=2, level="steps")
    generate(job, tmp_path / "run")
    assert len(set(rows(tmp_path / "run", "steps")["rank"].to_pylist())) == 1024
    assert len(list((tmp_path / "run" / "ranks").iterdir())) == 1024
