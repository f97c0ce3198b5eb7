"""Ids of tokens and the loss of each, captured from small real models."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.trace_hooks.tiny_models import TinyGPT, batch, loss_of, seeded, train
from tests.trace_hooks.watched_models import frames, step, watching
from trace_hooks.protocol.frames import Frame, decode
from trace_hooks.sources.inspection import inspection

pytestmark = pytest.mark.torch

LOGITS = {"what": "logits", "samples": [0, 1]}


def expected(logits_BRV: torch.Tensor, target_BR: torch.Tensor) -> np.ndarray:
    """-log p of the true tokens, in float64."""
    exact = logits_BRV.detach().double().log_softmax(-1)
    return -exact.gather(-1, target_BR.clamp(min=0)[..., None])[..., 0].numpy()


def one_of(captured: list[Frame], sample: int) -> Frame:
    (one,) = [frame for frame in captured if frame.sample == sample]
    assert decode(one.encode()).values() == pytest.approx(one.values(), nan_ok=True)
    return one


def test_ids_of_the_tokens_come_with_whatever_is_watched():
    model = TinyGPT()
    with watching(model, {"what": "attention", "samples": [0, 1]}, {"what": "mlp"}) as (traced, s):
        step(traced, 0)
        loss_of(model, batch(3)).backward()
        captured = frames(traced, what="tokens")
        assert [one.sample for one in captured] == [0, 1]
        for one in captured:
            assert (one.shape, one.dtype, one.layer, one.labels) == ((5, 1), "float32", -1, None)
            assert np.array_equal(one.values()[:, 0], batch(3)[one.sample])
        assert [status["frames"] for status in s.status()] == [4, 2]
    with watching(model, {"what": "weights"}) as (traced, _):
        step(traced, 0)
        loss_of(model, batch(3)).backward()
        assert frames(traced, what="tokens") == []


def test_what_attention_returns_is_no_attention():
    model = TinyGPT()
    with watching(model, {"what": "attention"}, {"what": "mlp"}) as (traced, _):
        step(traced, 0)
        loss_of(model, batch(3)).backward()
        assert {one.shape for one in frames(traced, what="attention")} == {(5, 5)}
        assert len(frames(traced, what="attention")) == 2


def test_ids_have_texts_where_the_script_has_a_tokenizer():
    model = TinyGPT()
    with watching(model, LOGITS) as (traced, source):
        source.token_names.use(lambda ids: f"<{ids[0]}>" if ids[0] != 5 else 1 / 0)
        step(traced, 0)
        ids = torch.tensor([[5, 1, 2], [3, 4, 16]])
        loss_of(model, ids).backward()
        one = one_of(frames(traced, what="tokens"), 0)
        assert json.loads(one.labels or "") == [5, [1, "<1>"], [2, "<2>"]]
        top = one_of(frames(traced, what="probabilities"), 1)
        labels = json.loads(top.labels or "")
        assert len(labels) == 3 * 17
        assert all(label == 5 or label[1] == f"<{label[0]}>" for label in labels)
        from trace_hooks.recording import guard

        assert guard.account.errors.pop("tokens.decode") == 1  # id 5, once: it is remembered


def shifted(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def padded(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    target = functional.pad(ids[:, 1:], (0, 1), value=-100)
    return nn.CrossEntropyLoss()(logits.float().view(-1, 17), target.reshape(-1))


def by_class(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    target = functional.pad(ids[:, 1:], (0, 1), value=3)
    return functional.cross_entropy(logits.transpose(1, 2), target=target, ignore_index=3)


def own_loss(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    return -logits[:, :-1].log_softmax(-1).gather(-1, ids[:, 1:, None]).mean()


@pytest.mark.parametrize("loss", [shifted, padded, by_class, own_loss])
def test_the_loss_of_each_token_is_exact_however_it_is_computed(loss: Any):
    """By what training gives to cross_entropy; by the next ids where it does not call it."""
    model = seeded(TinyGPT)
    seen: list[torch.Tensor] = []
    model.head.register_forward_hook(lambda m, a, out: seen.append(out.detach()))
    ids = torch.tensor([[5, 1, 2, 9, 3], [3, 4, 16, 3, 8]])
    with watching(model, LOGITS) as (traced, source):
        step(traced, 0)
        loss(model(ids), ids).backward()
        captured = frames(traced, what="token_loss")
        next_BR = functional.pad(ids[:, 1:], (0, 1), value=-1)
        if loss is by_class:
            next_BR[next_BR == 3] = -1
        exact = expected(seen[0], next_BR)
        for sample in (0, 1):
            one = one_of(captured, sample)
            num_rows = one.shape[0]  # without the last where the script leaves it out
            assert num_rows == (4 if loss is shifted else 5)
            known = (next_BR[sample, :num_rows] >= 0).numpy()
            np.testing.assert_allclose(
                one.values()[known, 0], exact[sample, :num_rows][known], rtol=1e-6
            )
            assert np.isnan(one.values()[~known]).all()
            names = [token if token >= 0 else None for token in next_BR[sample, :num_rows].tolist()]
            assert json.loads(one.labels or "") == names
            assert (one.dtype, one.layer, one.name) == ("float32", -1, "head")
        assert source.status()[0]["frames"] == 6


def test_ids_of_32_bits_and_of_one_sequence_without_a_batch():
    model = seeded(TinyGPT)
    ids = torch.tensor([5, 1, 2, 9], dtype=torch.int32)
    with watching(model, {"what": "logits"}) as (traced, _):
        step(traced, 0)
        logits = model(ids[None])
        own_loss(logits, ids[None].long()).backward()
        one = one_of(frames(traced, what="token_loss"), 0)
        assert json.loads(one.labels or "") == [1, 2, 9, None]
        step(traced, 1)
        model(ids).sum().backward()
        tokens = [one.values()[:, 0].tolist() for one in frames(traced, what="tokens")]
        assert tokens == [[5, 1, 2, 9]] * 2


def test_a_mean_of_the_losses_is_the_loss_of_training():
    model = seeded(TinyGPT)
    with watching(model, LOGITS) as (traced, _):
        step(traced, 0)
        loss = loss_of(model, batch(1))
        loss.backward()
        captured = frames(traced, what="token_loss")
        mean = np.mean([one.values() for one in captured])
        assert mean == pytest.approx(loss.item(), rel=1e-6)


def test_a_cross_entropy_of_something_else_is_not_taken_for_it():
    model = seeded(TinyGPT)
    ids = torch.tensor([[5, 1, 2], [3, 4, 16]])
    with watching(model, LOGITS) as (traced, _):
        step(traced, 0)
        logits = model(ids)
        functional.cross_entropy(torch.randn(6, 9), torch.zeros(6, dtype=torch.long))
        functional.cross_entropy(torch.randn(4, 2, 17), torch.rand(4, 2, 17))
        shifted(logits, ids).backward()
        shifted(torch.randn(2, 3, 17), ids)  # a second head's, after it
        one = one_of(frames(traced, what="token_loss"), 0)
        assert json.loads(one.labels or "") == [1, 2]
        assert one.values()[:, 0] == pytest.approx(expected(logits[:, :2], ids[:, 1:])[0], rel=1e-6)


@pytest.mark.parametrize("first_id", [0, 10, 100])
@pytest.mark.parametrize("how", ["cross_entropy", "ids", "nothing"])
def test_parts_of_the_vocabulary_make_the_whole(
    monkeypatch: pytest.MonkeyPatch, first_id: int, how: str
):
    monkeypatch.setattr(inspection, "has_all_columns", lambda tensor, shard: False)
    monkeypatch.setattr(inspection, "part_here", lambda *_: (first_id, 2))
    model = seeded(TinyGPT)
    ids = torch.tensor([[5, 1, 2], [3, 4, 16]])
    with watching(model, LOGITS) as (traced, source):
        step(traced, 0)
        if how == "nothing":
            monkeypatch.setattr(source._tokens, "embedded", lambda *_: None)
        logits = model(ids)
        if how == "cross_entropy":
            local_ids = torch.where(ids >= first_id, ids, -100)  # the default ignore_index
            shifted(logits, local_ids if first_id == 10 else ids).backward()
        step(traced, 1)
        assert frames(traced, what="probabilities") == frames(traced, what="token_loss") == []
        one = one_of(frames(traced, what="vocabulary_part"), 1)
        values_RC, labels = one.values(), json.loads(one.labels or "")
    ids_RC = np.array(labels, dtype=object).reshape(3, 19)
    assert one.shard.endswith(" of 2")
    best_RK = np.sort(logits[1].detach().numpy())[:, ::-1]
    assert values_RC[:, :17] == pytest.approx(best_RK, rel=1e-6)
    order_RK = np.argsort(-logits[1].detach().numpy()) + first_id
    assert np.array_equal(ids_RC[:, :17].astype(int), order_RK)
    assert values_RC[:, 17] == pytest.approx(logits[1].logsumexp(-1).detach().numpy(), rel=1e-6)
    true = [None, None] if how == "nothing" else [4, 16]
    if how == "cross_entropy" and first_id == 10:
        true = [None, 16]
    assert ids_RC[:, 17:].tolist() == [[None, one] for one in [*true, None]]
    for row, one_id in enumerate([*true, None]):
        is_here = one_id is not None and 0 <= one_id - first_id < 17
        wanted = logits[1, row, one_id - first_id].item() if is_here else float("nan")
        assert values_RC[row, 18] == pytest.approx(wanted, rel=1e-6, nan_ok=True)


def test_losses_are_bitwise_equal_and_nothing_is_left_behind():
    plain = train(seeded(TinyGPT), 4)
    original = functional.cross_entropy
    model = seeded(TinyGPT)
    with watching(model, LOGITS) as (traced, source):
        number = iter(range(9))

        def run(tokens: torch.Tensor) -> torch.Tensor:
            step(traced, next(number))
            return model(tokens)

        assert train(model, 4, run) == plain
        assert functional.cross_entropy is not original
        assert len(frames(traced, what="token_loss")) == 8
        source.inspect([])
        step(traced, 9)
        assert functional.cross_entropy is original


def test_ids_of_the_script_take_precedence():
    model = TinyGPT()
    with watching(model, {"what": "mlp"}) as (traced, source):
        step(traced, 0)
        source.take_tokens([[7, 8, 9, 10, 11], [1, 2, 3, 4, 5]])
        loss_of(model, batch(0)).backward()
        (one,) = frames(traced, what="tokens")
        assert one.values()[:, 0].tolist() == [7, 8, 9, 10, 11]
        step(traced, 1)
        with pytest.raises(ValueError, match=r"ids are torch.float32 of 1 dimensions"):
            source.take_tokens(torch.ones(3))
