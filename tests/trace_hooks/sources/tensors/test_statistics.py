"""Tensor statistics of small real models."""

from __future__ import annotations

import copy
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from tests.trace_hooks.sources.tensors import explicit_steps
from tests.trace_hooks.sources.tensors.explicit_steps import (
    rows_of,
    step,
    trained,
    trained_as_without,
)
from tests.trace_hooks.tiny_models import PARTS, TinyGPT, batch, loss_of, seeded, train
from trace_hooks.recording import guard
from trace_hooks.sources.tensors.statistics import Statistics
from trace_hooks.sources.tensors.tensor_samples import MAX_COPIES

watching = partial(explicit_steps.watching, kind=Statistics)
rows = partial(rows_of, table="tensor_stats")


def names(found: list[dict]) -> list[str]:
    return [row["name"] for row in found]


OUTPUTS = {
    "output": ["embedding", "norm", "head"],
    "attention": ["layers.0.attention", "layers.1.attention"],
    "mlp": ["layers.0.mlp", "layers.1.mlp"],
    "residual": ["layers.0", "layers.1"],
}


def test_every_output_and_every_group_of_parameters_has_a_row_a_step():
    model = TinyGPT()
    with watching(model) as traced:
        trained(traced, model, 2)
        for number in range(2):
            for tensor, expected in OUTPUTS.items():
                assert names(rows(traced, step=number, tensor=tensor)) == expected
            for tensor in ("weight", "gradient", "update"):
                assert sorted(names(rows(traced, step=number, tensor=tensor))) == sorted(PARTS)


def test_numbers_are_those_of_the_tensors():
    model = seeded(TinyGPT)
    seen: dict[str, torch.Tensor] = {}
    model.layers[1].register_forward_hook(lambda m, a, out: seen.update(residual=out.detach()))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    with watching(model) as traced:
        step(traced, 0)
        loss_of(model, batch(0)).backward()
        before = torch.cat([p.detach().flatten() for p in model.layers[1].mlp.parameters()])
        gradient = torch.cat([p.grad.flatten() for p in model.layers[1].mlp.parameters()])
        optimizer.step()
        after = torch.cat([p.detach().flatten() for p in model.layers[1].mlp.parameters()])
        expected = {
            ("residual", "layers.1"): seen["residual"],
            ("gradient", "layers.1.mlp"): gradient,
            ("weight", "layers.1.mlp"): before,
            ("update", "layers.1.mlp"): after - before,
        }
        for (tensor, name), values in expected.items():
            (row,) = rows(traced, tensor=tensor, name=name)
            exact = values.double()
            assert (row["layer"], row["count"]) == (1, values.numel())
            assert row["mean"] == pytest.approx(exact.mean().item(), rel=1e-9, abs=1e-12)
            assert row["rms"] == pytest.approx(exact.square().mean().sqrt().item(), rel=1e-9)
            assert row["absmax"] == values.abs().max().item()
        ratio = (after - before).double().norm() / before.double().norm()
        (update,) = rows(traced, tensor="update", name="layers.1.mlp")
        assert update["update_ratio"] == pytest.approx(ratio.item(), rel=1e-9)


def test_the_checksum_of_weights_sees_every_bit_and_is_equal_on_copies():
    def checksums(model: nn.Module) -> dict[str, int]:
        with watching(model) as traced:
            trained(traced, model, 1)
            return {row["name"]: row["checksum"] for row in rows(traced, tensor="weight")}

    plain = checksums(seeded(TinyGPT))
    assert checksums(seeded(TinyGPT)) == plain
    expected = list(seeded(TinyGPT).norm.parameters())
    bits = sum(int(p.detach().view(torch.int32).sum(dtype=torch.int64)) for p in expected)
    assert plain["norm"] == bits
    changed = seeded(TinyGPT)
    with torch.no_grad():
        changed.layers[1].mlp[0].weight.view(torch.int32)[1, 2] ^= 1
    sums = checksums(changed)
    assert [name for name in plain if sums[name] != plain[name]] == ["layers.1.mlp"]


@pytest.mark.sampled
@pytest.mark.parametrize("reentrant", [None, False, True])
def test_losses_are_bitwise_equal_and_recomputation_counts_once(reentrant: bool | None):
    with trained_as_without(watching, reentrant) as traced:
        assert sorted(names(rows(traced, step=0, tensor="residual"))) == OUTPUTS["residual"]


def test_only_the_first_training_forward_of_a_due_step_is_looked_at():
    model = TinyGPT()
    with watching(model, every=2) as traced:
        for number in range(4):
            step(traced, number)
            model.eval()
            model(batch(0))
            model.train()
            for microbatch in range(3):
                traced.rank_state.microbatch = microbatch
                loss_of(model, batch(microbatch)).backward()
        selected = rows(traced, tensor="residual", name="layers.0")
        assert [(row["step"], row["microbatch"]) for row in selected] == [(0, 0), (2, 0)]


def test_a_forward_outside_of_micro_batches_gives_way_to_one_inside():
    """torch's pipelining finds shapes by a forward on made-up numbers."""
    model = TinyGPT()
    with watching(model) as traced:
        step(traced, 0)
        model(batch(0))
        traced.rank_state.microbatch = 1
        model(batch(1))
        assert {row["microbatch"] for row in rows(traced)} == {1}
        assert len(rows(traced)) == len(PARTS)


def test_between_due_steps_nothing_listens():
    model = TinyGPT()
    with watching(model, every=5) as traced:
        step(traced, 5)
        assert traced.context.models.on_output is not None
        step(traced, 6)
        assert traced.context.models.on_output is None
    with watching(model, every=0) as traced:
        trained(traced, model)
        assert rows(traced) == []


def test_nonfinite_values_are_seen_even_where_no_sample_falls():
    model = nn.ModuleDict({"layers": nn.ModuleList([nn.Identity()])})
    with watching(model) as traced:
        step(traced, 0)
        optimizer_of = nn.Linear(1_000, 1_000)
        optimizer = torch.optim.SGD(optimizer_of.parameters(), lr=0.1)
        optimizer_of.weight.grad = torch.zeros(1_000, 1_000)
        optimizer_of.weight.grad[0, 1] = torch.nan
        optimizer.step()
        (gradient,) = rows(traced, tensor="gradient")
        assert gradient["nonfinite"] >= 1
        assert gradient["sampled"] <= 8_192 < gradient["count"] == 1_000_000
        assert (gradient["name"], gradient["layer"]) == ("parameters", -1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_dtypes(dtype: torch.dtype):
    model = seeded(TinyGPT).to(dtype)
    with watching(model) as traced:
        trained(traced, model, 1)
        (row,) = rows(traced, tensor="weight", name="norm")
        assert row["absmax"] == 1.0


def test_sparse_gradients_frozen_parameters_and_odd_outputs_are_passed_over():
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(5, 4, sparse=True)
            self.frozen = nn.Linear(4, 4).requires_grad_(False)

        def forward(self, x):
            return {"ids": x, "hidden": (self.frozen(self.table(x)),), "none": None}

    model = Odd()
    with watching(model) as traced:
        step(traced, 0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.tensor([1, 2]))["hidden"][0].sum().backward()
        optimizer.step()
        assert names(rows(traced, tensor="gradient")) == []
        assert names(rows(traced, tensor="weight")) == ["table"]


def test_compiled_models_have_their_output_and_all_their_parameters():
    model = seeded(TinyGPT)
    with watching(model) as traced:
        compiled = torch.compile(model, backend="eager", fullgraph=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for number in range(2):
            step(traced, number)
            loss_of(compiled, batch(number)).backward()
            optimizer.step()
        assert sorted(names(rows(traced, tensor="update", step=1))) == sorted(PARTS)
        assert len(rows(traced, tensor="output", step=1)) == 1
    torch._dynamo.reset()


def test_two_optimizers_and_one_that_steps_twice():
    model = seeded(TinyGPT)
    first = torch.optim.SGD(model.layers[0].parameters(), lr=0.1)
    second = torch.optim.SGD(model.layers[1].parameters(), lr=0.1)
    with watching(model) as traced:
        step(traced, 0)
        loss_of(model, batch(0)).backward()
        first.step()
        first.step()
        second.step()
        expected = [name for name in PARTS if name.startswith("layers")]
        assert sorted(names(rows(traced, tensor="update"))) == sorted(expected)


@pytest.mark.parametrize(
    "hook", ["statistics.output", "statistics.optimizer_begin", "statistics.optimizer_end"]
)
def test_training_goes_on_when_a_hook_raises(hook: str, monkeypatch):
    plain = train(seeded(TinyGPT), 3)

    def fail(*args):
        raise RuntimeError("injected")

    monkeypatch.setitem(guard.HOOKS, hook, fail)
    model = seeded(TinyGPT)
    with watching(model, errors=True) as traced:
        assert trained(traced, model) == plain
        assert guard.account.errors == {hook: 1}
        assert rows(traced)  # the rest goes on


def test_what_nobody_takes_is_dropped_and_counted():
    model = TinyGPT()
    with watching(model) as traced:
        trained(traced, model, MAX_COPIES + 3)
        held = len(traced.sources[-1]._copies)
        assert held == MAX_COPIES
        assert traced.recorder.dropped > 0
        assert {row["step"] for row in rows(traced)} == set(range(MAX_COPIES))


def test_a_model_that_is_watched_can_be_copied():
    model = TinyGPT()
    with watching(model) as traced:
        step(traced, 0)
        twin = copy.deepcopy(model)
        twin(batch(0))
        assert rows(traced) == []


def test_the_sample_of_a_large_tensor_is_close_to_the_whole():
    generator = torch.Generator().manual_seed(3)
    hidden = torch.randn(64, 32, 768, generator=generator)
    hidden[..., 100] *= 50  # an outlier feature, as residual streams have

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Sequential(nn.Identity()), nn.Sequential()])

        def forward(self, x):
            return self.layers[1](self.layers[0](x))

    model = Model()
    with watching(model) as traced:
        step(traced, 0)
        model(hidden)
        row = rows(traced, name="layers.0")[0]
        exact = hidden.double()
        assert row["absmax"] == hidden.abs().max().item()
        assert row["rms"] == pytest.approx(exact.square().mean().sqrt().item(), rel=0.2)
        assert row["std"] ** 2 + row["mean"] ** 2 == pytest.approx(row["rms"] ** 2)
        assert np.sum(row["log2_counts"]) == row["sampled"]
