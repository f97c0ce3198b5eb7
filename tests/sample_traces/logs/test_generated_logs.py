"""Generated logs of failed jobs: repeatable, laid out as launchers do, and they show the truth."""

from __future__ import annotations

import json

import pytest

from sample_traces.logs.generate import KINDS, failed_job, generate


def written(folder):
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text() for path in paths}


@pytest.mark.sampled
@pytest.mark.parametrize("kind", KINDS)
def test_the_line_that_the_truth_names_is_in_the_logs(kind, tmp_path):
    for seed in range(3):
        folder = tmp_path / str(seed)
        folder.mkdir()
        job, truth = generate(folder, kind, seed)
        logs = written(folder / "logs")
        assert logs
        if truth.unknown:
            assert (truth.says, truth.ranks, truth.hosts, truth.node) == ((), (), (), "")
            continue
        text = "\n".join(logs.values()).lower()
        assert any(piece.lower() in text for piece in truth.says)
        assert truth.advice
        assert set(truth.ranks) <= set(range(job.num_ranks))
        assert {job.host_name(job.host_of(rank)) for rank in truth.ranks} <= set(truth.hosts)
        assert truth.node in ("", *truth.hosts)


def test_a_seed_repeats_a_job(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        generate(tmp_path / name, "xid", 7)
    assert written(tmp_path / "a") == written(tmp_path / "b")
    (tmp_path / "c").mkdir()
    generate(tmp_path / "c", "xid", 8)
    assert written(tmp_path / "c") != written(tmp_path / "a")


def test_the_truth_stands_next_to_the_logs(tmp_path):
    job, truth = generate(tmp_path, "cuda_oom", 1)
    known = json.loads((tmp_path / "truth.json").read_text())
    assert (known["kind"], known["launcher"]) == ("cuda_oom", job.launcher)
    assert tuple(known["ranks"]) == truth.ranks


def test_every_layout_is_used():
    assert {failed_job("cuda_oom", seed)[0].launcher for seed in range(40)} == {
        "torchrun", "slurm", "mixed", "folder",
    }  # fmt: skip
