"""Frames of the real job under TP 2 x PP 2, against the same model computed eagerly here."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from ingest.run import open_run
from sample_traces.jobs.model import GPTSizes, Sequences, Stage, build_stage, rotated
from trace_hooks.protocol.frames import Frame

pytestmark = pytest.mark.torch

NUM_LAYERS, NUM_HEADS, SEQ, WIDTH, BATCH = 4, 4, 16, 32, 2
OPTIONS = ("--batch", "2", "--seq", "16", "--width", "32", "--heads", "4")
SIZES = {"num_steps": 3, "num_microbatches": 2, "num_layers": NUM_LAYERS}
WATCHES = [
    {"what": "attention", "every": 2, "samples": [0, 1]},
    {"what": "qkv", "every": 2},
    {"what": "mlp", "every": 2},
    {"what": "residual", "every": 2},
    {"what": "logits", "every": 2},
    {"what": "weights", "every": 2, "layers": [0, 3]},
    {"what": "gradients", "every": 2, "layers": [3]},
]
CLOSE = {"rtol": 2e-3, "atol": 2e-5}
"""float16 keeps 2^-11 of a value; shards add their sums in another order."""


class Eager:
    """What the first micro-batch of step 0 is in the whole model, without any kernel."""

    def __init__(self) -> None:
        sizes = GPTSizes(NUM_LAYERS, WIDTH, NUM_HEADS, seq_len=SEQ)
        self.model = build_stage(sizes, 0, 1, seed=1)
        self.kept: dict[tuple[str, int], torch.Tensor] = {}
        data = Sequences(sizes, 1, BATCH, BATCH, [])
        tokens = torch.stack([data[item] for item in range(BATCH)])
        self.next_ids = tokens[:, 1:]
        with torch.no_grad():
            self._run(self.model, tokens[:, :-1])

    def _run(self, model: Stage, tokens: torch.Tensor) -> None:
        assert model.embedding is not None
        assert model.norm is not None
        assert model.head is not None
        x = model.embedding(tokens)
        for name, block in model.blocks.items():
            layer = int(name)
            x = x + self._attention(block.attention, block.attention_norm(x), layer)
            self.kept["mlp", layer] = block.mlp(block.mlp_norm(x))
            x = self.kept["residual", layer] = x + self.kept["mlp", layer]
        self.kept["logits", -1] = model.head(model.norm(x))

    def _attention(self, module: Any, x: torch.Tensor, layer: int) -> torch.Tensor:
        heads = module.qkv(x).unflatten(-1, (-1, 3, module.head_size)).permute(3, 0, 2, 1, 4)
        query, key, value = rotated(heads[0]), rotated(heads[1]), heads[2]
        logits = query @ key.transpose(-2, -1) / math.sqrt(module.head_size)
        hidden = torch.ones(SEQ, SEQ).tril() == 0
        weights = logits.masked_fill(hidden, -torch.inf).softmax(-1)
        found = {"query": query, "key": key, "value": value, "attention": weights}
        self.kept |= {(what, layer): tensor for what, tensor in found.items()}
        return module.out((weights @ value).transpose(1, 2).flatten(-2))


@pytest.fixture(scope="module")
def eager() -> Eager:
    return Eager()


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment of a job that is watched from the start."""
    path = tmp_path_factory.mktemp("watches") / "watches.json"
    path.write_text(json.dumps(WATCHES))
    return {"TRACE_HOOKS_ALLOW_CONTENT": "1", "TRACE_HOOKS_WATCHES": str(path)}


def frames(folder: Path) -> list[Frame]:
    """All frames of a run; fails where a hook has."""
    with open_run(folder) as run:
        assert run.sql("SELECT * FROM marks WHERE kind = 'hook_error'").to_pylist() == []
    rows = [
        row
        for path in sorted((folder / "segments").glob("frames-*.parquet"))
        for row in pq.read_table(path).to_pylist()
    ]
    return [Frame(**row | {"shape": tuple(row["shape"])}) for row in rows]


@pytest.mark.long
@pytest.mark.parametrize("more", [(), ("--sequence-parallel", "--vocabulary-parallel")])
def test_every_layer_and_head_of_all_stages_and_shards_is_the_eager_one(
    train_3d: Callable[..., Any],
    tmp_path: Path,
    eager: Eager,
    watched: dict[str, str],
    more: tuple[str, ...],
) -> None:
    options = (*OPTIONS, *more)
    job = train_3d(tmp_path, "job", pp=2, dp=1, tp=2, **SIZES, options=options, environ=watched)
    captured = frames(job.folder)
    assert {one.step for one in captured} == {0, 2}
    assert {one.microbatch for one in captured if one.what not in ("weights", "gradients")} == {0}
    first = [one for one in captured if one.step == 0]
    _attention_is(first, eager)
    for what in ("query", "key", "value"):
        _heads_are(first, what, eager)
    for what in ("mlp", "residual"):
        _rows_are(first, what, list(range(4)), eager)
    if more:
        _parts_of_the_vocabulary_are(first, eager)
    else:
        _rows_are(first, "logits", [-1], eager)
        _losses_are(first, eager)
    _weights_are(first, eager)


def _attention_is(captured: list[Frame], eager: Eager) -> None:
    own = [one for one in captured if one.what == "attention"]
    places = [(one.layer, one.head, one.sample) for one in own]
    assert sorted(places) == [
        (layer, head, sample)
        for layer in range(NUM_LAYERS)
        for head in range(NUM_HEADS)
        for sample in range(BATCH)
    ]
    for one in own:
        exact = eager.kept["attention", one.layer][one.sample, one.head]
        np.testing.assert_allclose(one.values(), exact, **CLOSE)
        assert (one.shard, one.chunk) == (f"tp={one.head // 2}", one.layer // 2)


def _heads_are(captured: list[Frame], what: str, eager: Eager) -> None:
    own = {(one.layer, one.head): one for one in captured if one.what == what}
    assert len(own) == NUM_LAYERS * NUM_HEADS
    for (layer, head), one in own.items():
        np.testing.assert_allclose(one.values(), eager.kept[what, layer][0, head], **CLOSE)


def _rows_are(captured: list[Frame], what: str, layers: list[int], eager: Eager) -> None:
    """Frames of a layer, whatever rows each has, are the whole together and each once."""
    for layer in layers:
        exact = eager.kept[what, layer][0]
        own = [one for one in captured if (one.what, one.layer) == (what, layer)]
        rows = [one.row_begin + row for one in own for row in range(one.shape[0])]
        assert sorted(rows) == list(range(SEQ)), (what, layer, [one.shard for one in own])
        for one in own:
            part = exact[one.row_begin : one.row_begin + one.shape[0]]
            np.testing.assert_allclose(one.values(), part, **CLOSE)


def _losses_are(captured: list[Frame], eager: Eager) -> None:
    (one,) = [one for one in captured if one.what == "token_loss"]
    assert json.loads(one.labels or "") == eager.next_ids[0].tolist()
    np.testing.assert_allclose(one.values()[:, 0], _losses(eager), **CLOSE)


def _losses(eager: Eager) -> torch.Tensor:
    logits_RV = eager.kept["logits", -1][0]
    return torch.nn.functional.cross_entropy(logits_RV, eager.next_ids[0], reduction="none")


def _parts_of_the_vocabulary_are(captured: list[Frame], eager: Eager) -> None:
    """What each TP rank records of its half makes the probabilities and losses of the whole."""
    halves = [one.values() for one in _sorted(captured, "logits")]
    np.testing.assert_allclose(np.concatenate(halves, 1), eager.kept["logits", -1][0], **CLOSE)
    assert not [one for one in captured if one.what in ("probabilities", "token_loss")]
    parts = _sorted(captured, "vocabulary_part")
    assert [one.shard for one in parts] == ["tp=0 of 2", "tp=1 of 2"]
    values_PRC = np.stack([one.values() for one in parts])
    ids_PRC = np.array([json.loads(one.labels or "") for one in parts]).reshape(values_PRC.shape)
    sum_R = np.logaddexp(*values_PRC[..., -2])
    share_RN = np.exp(np.concatenate(values_PRC[..., :-2], 1) - sum_R[:, None])
    exact_RV = eager.kept["logits", -1][0].softmax(-1).numpy()
    for row, share_N in enumerate(share_RN):
        best = np.argsort(-share_N)[:20]
        ids = np.concatenate(ids_PRC[:, row, :-2])[best].astype(int)
        np.testing.assert_allclose(share_N[best], np.sort(exact_RV[row])[:-21:-1], **CLOSE)
        np.testing.assert_allclose(share_N[best], exact_RV[row][ids], **CLOSE)
    assert (ids_PRC[..., -1] == eager.next_ids[0].numpy()).all()
    known_PR = ~np.isnan(values_PRC[..., -1])
    assert (known_PR.sum(0) == 1).all(), "one of them has it"
    true_R = np.nansum(values_PRC[..., -1], 0)
    np.testing.assert_allclose(sum_R - true_R, _losses(eager), **CLOSE)


def _sorted(captured: list[Frame], what: str) -> list[Frame]:
    """Frames of the first sequence, by TP rank."""
    own = [one for one in captured if one.what == what and one.sample == 0]
    return sorted(own, key=lambda one: one.shard)


def _weights_are(captured: list[Frame], eager: Eager) -> None:
    """Shards of a weight, stacked by TP rank along the dimension that is shorter than it."""
    for layer in (0, 3):
        for name, exact in eager.model.blocks[str(layer)].named_parameters():
            own = [
                one
                for one in captured
                if one.what == "weights" and one.name == f"blocks.{layer}.{name}"
            ]
            own.sort(key=lambda one: one.shard)
            parts = [one.values().reshape(-1, *one.shape[1:]) for one in own]
            whole = exact.detach().reshape(-1, exact.shape[-1]).numpy()
            axis = 0 if parts[0].shape[1] == whole.shape[1] else 1
            np.testing.assert_allclose(np.concatenate(parts, axis), whole, **CLOSE)
    assert {one.layer for one in captured if one.what == "gradients"} == {3}


@pytest.mark.long
@pytest.mark.parametrize(
    "schedule",
    [("1f1b", "--vocabulary-parallel"), pytest.param(("zbv",), marks=pytest.mark.long)],
)
def test_losses_are_bitwise_equal_with_watches_on_and_off(
    train_3d: Callable[..., Any], tmp_path: Path, watched: dict[str, str], schedule: tuple[str, ...]
) -> None:
    options = (*OPTIONS, "--schedule", *schedule)
    sizes = {"pp": 2, "dp": 2, "tp": 2, **SIZES, "options": options}
    on = train_3d(tmp_path, "on", **sizes, environ=watched)
    off = train_3d(tmp_path, "off", **sizes)
    assert on.losses == off.losses
    assert not list((off.folder / "segments").glob("frames-*"))
    captured = frames(on.folder)
    assert {(one.layer, one.head) for one in captured if one.what == "attention"} == {
        (layer, head) for layer in range(NUM_LAYERS) for head in range(NUM_HEADS)
    }
    once = [(o.step, o.layer, o.head, o.sample) for o in captured if o.what == "attention"]
    assert len(set(once)) == len(once)  # of two replicas one speaks


@pytest.mark.long
def test_without_allow_content_a_watch_is_refused_and_training_goes_on(
    train_3d: Callable[..., Any], tmp_path: Path, watched: dict[str, str]
) -> None:
    environ = {"TRACE_HOOKS_WATCHES": watched["TRACE_HOOKS_WATCHES"]}
    job = train_3d(tmp_path, "job", pp=1, dp=1, tp=1, **SIZES, options=OPTIONS, environ=environ)
    assert len(job.losses) == 3
    assert frames(job.folder) == []
    with open_run(job.folder) as run:
        texts = run.sql("SELECT text FROM marks WHERE kind = 'note'").to_pydict()["text"]
    assert len(texts) == len(WATCHES)
    for text, watch in zip(texts, WATCHES, strict=True):
        assert text.startswith(
            f"watch {watch['what']} is refused: this job does not allow its content"
        )
        assert "start it with allow_content=True or TRACE_HOOKS_ALLOW_CONTENT=1" in text
