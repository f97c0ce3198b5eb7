"""Perturbations of the real job under TP 2 x PP 2: where, when, and what is left of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ingest.run import open_run
from tests.forks import fork, succeeded

pytestmark = pytest.mark.torch

STEPS, RANKS = 6, 4
WINDOW = (2, 3)
OPTIONS = (
    "--device cpu --nproc 4 --pp 2 --dp 1 --tp 2 --microbatches 2 --layers 4 --batch 2 --seq 16 "
    f"--width 32 --heads 4 --steps {STEPS}"
).split()
NOISE = {"kind": "gaussian", "strength": 0.05, "steps": list(WINDOW), "layer": 1, "seed": 3}
WEIGHTS = NOISE | {"id": "w", "target": "weights"}
OUTPUT = NOISE | {"id": "r", "target": "residual"}
HEAD = {
    "id": "h",
    "kind": "ablate",
    "target": "activations",
    "module": "attention",
    "layer": 2,
    "head": 3,
    "steps": list(WINDOW),
}


class Trained:
    """A finished run: losses by step, what each rank saw, marks."""

    def __init__(
        self, folder: Path, requests: list[dict[str, Any]], *options: str, allow: str = "1"
    ) -> None:
        folder.mkdir()
        (folder / "requests.json").write_text(json.dumps(requests))
        environ = {k: v for k, v in os.environ.items() if not k.startswith("TRACE_HOOKS")}
        environ |= {"TRACE_HOOKS_RUN": "job", "OMP_NUM_THREADS": "1"}
        environ |= {"TRACE_HOOKS_ALLOW_PERTURBATION": allow}
        command = ["-m", "tests.sample_traces.perturbed_job", str(folder), *OPTIONS, *options]
        command += ["--runs", str(folder), "--losses", str(folder / "losses")]
        succeeded([fork(folder / "job", command, environ)])
        lines = (folder / "losses").read_text().splitlines()
        self.losses = [json.loads(line)["loss"] for line in lines]
        self._seen = [np.load(folder / f"seen.{rank}.npz") for rank in range(RANKS)]
        self.acks = [
            json.loads((folder / f"acks.{rank}.json").read_text()) for rank in range(RANKS)
        ]
        with open_run(folder / "job") as run:
            rows = run.sql("SELECT rank, step, kind, text FROM marks ORDER BY rank, ts_ns")
            self.marks = rows.to_pylist()
        assert not [row for row in self.marks if row["kind"] == "hook_error"]

    def tensors(self, rank: int, what: str, step: int) -> dict[str, torch.Tensor]:
        """Of a rank, by name, see perturbed_job."""
        begin, seen = f"{what}|{step}|", self._seen[rank]
        found = {n.removeprefix(begin): seen[n] for n in seen.files if n.startswith(begin)}
        assert found
        return {name: torch.from_numpy(array) for name, array in found.items()}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Without permission, so without any hook."""
    trained = Trained(tmp_path_factory.mktemp("plain") / "run", [WEIGHTS], allow="0")
    assert all("this job does not allow changes" in acks[0] for acks in trained.acks)
    assert trained.marks == []
    return trained


def bits_differ(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> set[str]:
    """Names of tensors of which any bit differs."""
    assert set(one) == set(other)
    return {n for n in one if (one[n].view(torch.int32) != other[n].view(torch.int32)).any()}


def assert_same(one: Trained, other: Trained, *whens: str) -> None:
    """Weights at these times, in every step and on every rank."""
    for rank in range(RANKS):
        for when in whens:
            for step in range(STEPS):
                mine, theirs = (run.tensors(rank, when, step) for run in (one, other))
                assert not bits_differ(mine, theirs), (rank, when, step)


@pytest.mark.long
def test_permission_and_strength_0_change_no_bit(tmp_path: Path, plain: Trained) -> None:
    targets = ("weights", "activations", "residual")
    nothing = [OUTPUT | {"id": target, "target": target, "strength": 0} for target in targets]
    for requests in ([], nothing):
        trained = Trained(tmp_path / f"run{len(requests)}", requests)
        assert trained.losses == plain.losses
        assert_same(trained, plain, "backward", "given", "left")
        assert len(trained.marks) == 2 * 2 * len(requests)  # begin and end on both ranks of stage 0


@pytest.mark.long
def test_weights_are_back_bitwise_before_the_optimizer(tmp_path: Path, plain: Trained) -> None:
    trained = Trained(tmp_path / "run", [WEIGHTS])
    first, last = WINDOW
    for rank, acks in enumerate(trained.acks):
        assert acks[0].startswith("taken" if rank < 2 else "this rank has no layer 1")
        for step in range(STEPS):
            given = trained.tensors(rank, "given", step)
            touched = bits_differ(trained.tensors(rank, "backward", step), given)
            inside = rank < 2 and first <= step <= last
            assert touched == {name for name in given if inside and ".1." in name}
            if step:
                assert not bits_differ(given, trained.tensors(rank, "left", step - 1))
            assert torch.equal(
                trained.tensors(rank, "random", step)[""], plain.tensors(rank, "random", step)[""]
            )
    assert trained.losses[:first] == plain.losses[:first]
    assert trained.losses[first] != plain.losses[first]
    _noise_is_that_of_the_tensor(trained)


def _noise_is_that_of_the_tensor(trained: Trained) -> None:
    """The same on both TP ranks for what both hold (norms), others for their shards."""
    moved: list[dict[str, torch.Tensor]] = []
    for rank in (0, 1):
        before, after = (trained.tensors(rank, what, WINDOW[0]) for what in ("given", "backward"))
        moved.append({name: after[name] - before[name] for name in before if ".1." in name})
    for name, noise in moved[0].items():
        assert torch.equal(noise, moved[1][name]) is ("norm" in name), name
        if noise.numel() > 1_000:
            assert float(noise.std()) == pytest.approx(0.05, rel=0.1)


@pytest.mark.long
@pytest.mark.parametrize("sequence_parallel", [False, pytest.param(True, marks=pytest.mark.long)])
def test_activations_of_a_window(tmp_path: Path, plain: Trained, sequence_parallel: bool) -> None:
    options = ("--sequence-parallel",) if sequence_parallel else ()
    without = Trained(tmp_path / "off", [], *options) if sequence_parallel else plain
    requests = [OUTPUT | {"steps": [2, 2]}, HEAD | {"steps": [2, 2]}]
    trained = Trained(tmp_path / "on", requests, *options)
    assert trained.losses[:2] == without.losses[:2]
    assert trained.losses[2] != without.losses[2]
    assert_same_until(trained, without, 2)
    outputs = [run.tensors(rank, "output", 2)["1"] for run in (trained, without) for rank in (0, 1)]
    noise = [outputs[rank] - outputs[2 + rank] for rank in (0, 1)]
    assert torch.allclose(noise[0], noise[1], atol=1e-5) is not sequence_parallel
    assert float(noise[0].std()) == pytest.approx(0.05, rel=0.1)
    assert [(row["rank"], row["step"]) for row in trained.marks] == [
        (rank, 2) for rank in range(4) for _ in "be"
    ]
    ends = [row["text"] for row in trained.marks if "ended" in row["text"]]
    assert ["nothing" in text for text in ends] == [False, False, True, False]  # head 3 of TP 1


def assert_same_until(one: Trained, other: Trained, step: int) -> None:
    """Weights, up to what the optimizer got in that step."""
    for rank in range(RANKS):
        for at in range(step):
            assert not bits_differ(one.tensors(rank, "left", at), other.tensors(rank, "left", at))
        given = [run.tensors(rank, "given", step) for run in (one, other)]
        assert not bits_differ(*given)
