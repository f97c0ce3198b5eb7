"""Perturbations of small real models: what is asked for, for as long as asked, and nothing else."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.optimizer import register_optimizer_step_pre_hook

from tests.trace_hooks.tiny_models import TinyGPT, Tracing, batch, loss_of, seeded, tracing, train
from trace_hooks.protocol.perturbations import of_mark
from trace_hooks.recording import guard
from trace_hooks.sources.perturbation import perturbed_outputs
from trace_hooks.sources.perturbation.perturbation import Perturbing
from trace_hooks.sources.perturbation.perturbed_values import Draw, extent_of

pytestmark = pytest.mark.torch

NOISE = {"kind": "gaussian", "strength": 0.5, "steps": [2, 3]}
WEIGHTS = {**NOISE, "id": "w", "target": "weights", "layer": 1}
HEAD = {"id": "h", "target": "activations", "module": "attention", "layer": 1, "head": 1}


@contextmanager
def perturbable(
    model: nn.Module, allow: bool = True, errors: bool = False
) -> Iterator[tuple[Tracing, Perturbing]]:
    """A model that may be perturbed; steps are begun by `run`."""
    with tracing("modules", errors=errors, allow_perturbation=allow) as traced:
        source = Perturbing(traced.context)
        source.install()
        traced.watch(model)
        try:
            yield traced, source
        finally:
            source.uninstall()


Seen = Callable[[int, str], object]


def run(
    traced: Tracing,
    source: Perturbing,
    model: nn.Module,
    steps: int = 6,
    first: int = 0,
    seen: Seen | None = None,
) -> list[float]:
    """Losses of steps as `train` makes them; `seen(step, "before" | "after")` the backward pass."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for number in range(first, steps):
        traced.rank_state.step = number
        source.step_begin()
        if seen:
            seen(number, "before")
        loss = loss_of(model, batch(number))
        loss.backward()
        if seen:
            seen(number, "after")
        optimizer.step()
        optimizer.zero_grad()
        source.step_end()
        losses.append(loss.item())
    return losses


def parameters(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def differing(one: dict[str, Tensor], other: dict[str, Tensor]) -> set[str]:
    """Names of tensors of which any bit differs."""
    return {name for name in one if differences(one[name], other[name])}


def differences(one: Tensor, other: Tensor) -> int:
    return int((one.view(torch.int32) != other.view(torch.int32)).sum())


@contextmanager
def optimizer_inputs() -> Iterator[list[dict[int, Tensor]]]:
    """Weights as each optimizer step gets them, after the hook of the source."""
    found: list[dict[int, Tensor]] = []

    def keep(optimizer: Any, args: Any, kwargs: Any) -> None:
        own = [p for group in optimizer.param_groups for p in group["params"]]
        found.append({at: p.detach().clone() for at, p in enumerate(own)})

    handle = register_optimizer_step_pre_hook(keep)
    try:
        yield found
    finally:
        handle.remove()


def test_losses_are_bitwise_equal_where_nothing_is_asked():
    plain = train(seeded(TinyGPT), 6)
    model = seeded(TinyGPT)
    with perturbable(model) as (traced, source):
        assert run(traced, source, model) == plain


def test_strength_0_is_bitwise_nothing_and_one_above_is_not():
    plain_model = seeded(TinyGPT)
    plain = train(plain_model, 6)
    for strength in (0, 0.5):
        for more in ({}, {"target": "residual"}, {"kind": "uniform"}, {"extent": 5}):
            model = seeded(TinyGPT)
            with perturbable(model) as (traced, source):
                assert source.ask(WEIGHTS | more | {"strength": strength}).ok
                losses = run(traced, source, model)
            same = losses == plain and not differing(parameters(model), parameters(plain_model))
            assert same is (strength == 0), (strength, more)
            assert losses[:2] == plain[:2]


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"kind": "uniform"},
        {"kind": "offset", "module": "mlp"},
        {"extent": 3},
        {"kind": "ablate", "strength": None, "module": "attention"},
        {"kind": "bit_flip", "strength": None},
        {"kind": "bit_flip", "strength": None, "bit": 30},
        {"kind": "bit_flip", "strength": None, "extent": 7, "bit": 31},
    ],
)
def test_weights_are_changed_in_forward_and_backward_and_back_before_the_optimizer(
    asked: dict[str, Any],
):
    model = seeded(TinyGPT)
    states: dict[tuple[int, str], dict[str, Tensor]] = {}

    def seen(number: int, when: str) -> None:
        states[number, when] = parameters(model)

    with perturbable(model) as (traced, source):
        assert source.ask(WEIGHTS | asked).ok
        with optimizer_inputs() as inputs:
            clean = parameters(model)
            run(traced, source, model, seen=seen)
        names = list(clean)
    for number in range(6):
        changed = states[number, "before"]
        assert not differing(changed, states[number, "after"])
        told = {names[at]: value for at, value in inputs[number].items()}
        touched = differing(changed, told)
        if number in (2, 3):
            assert touched
            module = asked.get("module") or ""
            assert all(name.startswith(f"layers.1.{module}") for name in touched)
            few = asked.get("extent", 1 if asked.get("kind") == "bit_flip" else None)
            for name in touched if few else ():
                assert 0 < differences(changed[name], told[name]) <= few
        else:
            assert not touched
    assert not source._kept


def test_what_the_optimizer_gets_is_what_the_step_before_left():
    model = seeded(TinyGPT)
    left: list[dict[str, Tensor]] = []
    with perturbable(model) as (traced, source), optimizer_inputs() as inputs:
        source.ask(WEIGHTS)
        for number in range(6):
            run(traced, source, model, number + 1, number)
            left.append(parameters(model))
    for number in range(1, 6):
        for at, name in enumerate(left[0]):
            assert not differences(inputs[number][at], left[number - 1][name]), (number, name)


def test_weights_come_back_where_no_optimizer_does():
    model = seeded(TinyGPT)
    with perturbable(model) as (traced, source):
        run(traced, source, model, 1)
        clean = parameters(model)
        steps_of = {"step_end": 2, "step_begin": 4, "uninstall": 6}
        for leave, number in steps_of.items():
            assert source.ask(WEIGHTS | {"id": leave, "steps": [number, number]}).ok
            traced.rank_state.step = number
            source.step_begin()
            assert differing(parameters(model), clean)
            traced.rank_state.step += leave == "step_begin"
            getattr(source, leave)()
            assert not differing(parameters(model), clean), leave


def test_a_script_that_goes_on_after_an_error_has_its_weights():
    model = seeded(TinyGPT)
    with perturbable(model, errors=True) as (traced, source):
        run(traced, source, model, 1)
        clean = parameters(model)
        assert source.ask(WEIGHTS).ok
        assert source.ask(WEIGHTS | {"id": "b", "kind": "bit_flip", "strength": None, "bit": 40}).ok
        traced.rank_state.step = 2
        guard.attempt("tracer.perturbing.step_begin", source.step_begin)
        assert "perturbing" in str(guard.account.errors)
        assert not differing(parameters(model), clean)
        assert not source._active
        texts = [row["text"] for row in traced.rows("marks")]
        assert [text.split()[2] for text in texts] == ["begins", "begins", "ended,", "ended,"]
        assert "has failed on this rank" in source.ask(WEIGHTS).text


def test_an_error_in_an_output_leaves_the_output_and_ends_everything(
    monkeypatch: pytest.MonkeyPatch,
):
    plain = train(seeded(TinyGPT), 6)
    model = seeded(TinyGPT)

    def broken(*args: Any) -> Tensor:
        raise RuntimeError("on purpose")

    monkeypatch.setattr(perturbed_outputs, "perturbed", broken)
    with perturbable(model, errors=True) as (traced, source):
        source.ask(WEIGHTS | {"id": "zero", "strength": 0})
        source.ask(NOISE | {"target": "residual", "layer": 0})
        assert run(traced, source, model) == plain
        assert not source._active
        assert not model.layers[0]._forward_hooks or len(model.layers[0]._forward_hooks) == 1


def test_the_random_state_of_the_job_is_untouched():
    model = seeded(TinyGPT)
    with perturbable(model) as (traced, source):
        for at, target in enumerate(("weights", "activations", "residual")):
            assert source.ask(WEIGHTS | {"id": f"g{at}", "target": target}).ok
            flip = {"kind": "bit_flip", "strength": None, "bit": 1}
            assert source.ask(WEIGHTS | {"id": f"b{at}", "target": target} | flip).ok
        torch.manual_seed(5)
        before = torch.get_rng_state()
        run(traced, source, model)
        assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("target", "module", "path"),
    [
        ("activations", "mlp", "layers.1.mlp"),
        ("activations", "attention", "layers.1.attention"),
        ("residual", None, "layers.1"),
    ],
)
def test_outputs_are_changed_in_the_window_and_gradients_pass(
    target: str, module: str | None, path: str
):
    model = seeded(TinyGPT)
    outputs: list[Tensor] = []
    model.get_submodule(path).register_forward_hook(lambda m, a, out: outputs.append(out))
    with perturbable(model) as (traced, source):
        asked = {"kind": "offset", "strength": 2.0, "extent": 10, "steps": [1, 1]}
        assert source.ask(asked | {"target": target, "module": module, "layer": 1}).ok
        grads = []
        for number in range(3):
            traced.rank_state.step = number
            source.step_begin()
            model.zero_grad()
            loss_of(model, batch(0)).backward()
            grads.append(model.embedding.weight.grad.clone())
            source.step_end()
        first, second, third = outputs
        moved = second - first
        assert torch.equal(first, third)
        assert (moved != 0).sum() == 10
        torch.testing.assert_close(moved[moved != 0], torch.full((10,), 2.0))
        assert torch.equal(grads[0], grads[2])
        assert not torch.equal(grads[0], grads[1])
        model.eval()
        traced.rank_state.step = 1
        source.ask(asked | {"id": "again", "steps": [2, 2], "target": target, "layer": 1})
        traced.rank_state.step = 2
        source.step_begin()
        model(batch(0))
        assert torch.equal(outputs[-1], first)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_recomputed_forward_gets_the_same_noise(reentrant: bool):
    asked = WEIGHTS | {"target": "activations", "steps": [0, 5]}
    losses = []
    for mode in (None, reentrant):
        model = seeded(lambda m=mode: TinyGPT(reentrant=m))
        with perturbable(model) as (traced, source):
            assert source.ask(asked).ok
            losses.append(run(traced, source, model))
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


class Heads(nn.Module):
    """Causal attention with 4 heads over 2 of keys."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.q, self.kv = nn.Linear(width, width), nn.Linear(width, width)
        self.mixed: list[Tensor] = []
        self.value: Tensor | None = None

    def forward(self, x):
        query = self.q(x).unflatten(-1, (4, -1)).transpose(1, 2)
        key, self.value = self.kv(x).unflatten(-1, (2, 2, -1)).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(
            query, key, self.value, is_causal=True, enable_gqa=True
        )
        self.mixed.append(mixed)
        return mixed.transpose(1, 2).flatten(-2)


def with_heads() -> TinyGPT:
    model = TinyGPT()
    for layer in model.layers:
        layer.attention = Heads(8)
    return model


@pytest.mark.parametrize("kind", ["ablate", "flat_attention", "gaussian"])
def test_a_head_of_attention(kind: str):
    model = seeded(with_heads)
    original = functional.scaled_dot_product_attention
    strength = {"strength": 0.1} if kind == "gaussian" else {}
    with perturbable(model) as (traced, source):
        assert source.ask(HEAD | strength | {"kind": kind, "steps": [1, 1]}).ok
        for number in range(3):
            traced.rank_state.step = number
            source.step_begin()
            loss_of(model, batch(0)).backward()
            source.step_end()
        assert functional.scaled_dot_product_attention is original
    module = model.layers[1].attention
    plain, changed, after = module.mixed
    assert torch.equal(plain, after)
    others = [0, 2, 3]
    assert torch.equal(plain[:, others], changed[:, others])
    assert not torch.equal(plain[:, 1], changed[:, 1])
    if kind == "ablate":
        assert not changed[:, 1].any()
    if kind == "flat_attention":
        number = torch.arange(1, 6)[:, None]
        even = module.value[:, 0].cumsum(1) / number
        torch.testing.assert_close(changed[:, 1], even)
    assert torch.equal(model.layers[0].attention.mixed[0], model.layers[0].attention.mixed[1])


def test_begin_and_end_are_marks():
    model = seeded(TinyGPT)
    with perturbable(model) as (traced, source):
        source.ask(WEIGHTS | {"module": "mlp"})
        run(traced, source, model)
        begin, end = traced.rows("marks")
    assert begin["kind"] == end["kind"] == "perturbation"
    assert (begin["step"], end["step"]) == (2, 3)
    assert begin["text"] == (
        "perturbation w begins (gaussian 0.5 on weights of layer 1, mlp, steps 2 to 3)"
    )
    assert "its steps are over: in 2 steps it changed 8 times a tensor" in end["text"]
    told = json.loads(begin["args"]), json.loads(end["args"])
    assert [one["event"] for one in told] == ["begin", "end"]
    assert (told[1]["why"], told[1]["num_steps"]) == ("its steps are over", 2)
    assert told[1]["num_tensors"] == 8
    assert of_mark(told[0]) == of_mark(told[1])
    assert of_mark(told[0]).steps == (2, 3)


def test_one_is_ended_by_who_wants_it():
    model = seeded(TinyGPT)
    with perturbable(model) as (traced, source):
        source.ask(WEIGHTS | {"steps": [1, 100]})
        source.ask(NOISE | {"id": "r", "target": "residual", "layer": 0, "steps": [1, 100]})
        run(traced, source, model, 3)
        assert len(model.layers[0]._forward_hooks) == 2
        assert source.ask({"end": "w"}).ok
        assert source.ask({"end": "r"}).ok
        assert not source.ask({"end": "w"}).ok
        run(traced, source, model, 5, 3)
        assert len(model.layers[0]._forward_hooks) == 1
        assert not source._active
        assert [row["step"] for row in traced.rows("marks")] == [1, 1, 3, 3]


def test_a_copy_of_the_model_is_not_perturbed():
    model = seeded(TinyGPT)
    with perturbable(model) as (traced, source):
        source.ask(NOISE | {"target": "residual", "layer": 0})
        traced.rank_state.step = 2
        source.step_begin()
        twin = copy.deepcopy(model)
        assert not torch.equal(twin(batch(0)), model(batch(0)))


def test_weights_that_nobody_would_take_back_are_left():
    model = seeded(TinyGPT)
    with perturbable(model) as (traced, source):
        clean = parameters(model)
        assert source.ask(WEIGHTS | {"steps": [0, 3]}).ok
        traced.rank_state.step = 0
        source.step_begin()
        assert not differing(parameters(model), clean)
        assert "no torch optimizer has stepped" in traced.rows("marks")[-1]["text"]


def test_refusals():
    model = seeded(TinyGPT)
    with perturbable(model, allow=False) as (traced, source):
        text = source.ask(WEIGHTS).text
        assert text.startswith("this job does not allow changes to its model; start it with allow_")
        command = {"type": "command", "id": 4, "name": "perturb", "args": WEIGHTS}
        ack = traced.live.commands.answer(command)
        assert ack == {"type": "ack", "id": 4, "ok": False, "text": text}
    with perturbable(model) as (traced, source):
        answer = traced.live.commands.answer

        def refused(value: Any) -> str:
            ack = answer(command | {"args": value})
            assert ack is not None
            assert not ack["ok"]
            return str(ack["text"])

        traced.rank_state.step = 4
        assert refused(WEIGHTS).startswith("step 2 has begun on this rank, which is in step 4")
        later = WEIGHTS | {"steps": [5, 6]}
        assert refused(later | {"layer": 9}) == "this rank has no layer 9; its layers: 0, 1"
        assert "extent is 1000000000" in refused(later | {"extent": 10**9})
        assert "strength is nan" in refused(later | {"strength": float("nan")})
        assert "is an object" in refused("exit()")
        assert "no perturbation x" in refused({"end": "x"})
        assert "id is ['w']" in refused({"end": ["w"]})
        assert answer(command | {"args": later})["ok"]  # type: ignore[index]
        assert "another perturbation has the id w" in refused(later)
        for number in range(7):
            assert source.ask(later | {"id": f"p{number}"}).ok
        assert refused(later | {"id": "p8"}).startswith("8 perturbations are in progress")
        assert traced.live.about["allow_perturbation"]() is True


def test_an_extent_is_spread_over_a_tensor_however_it_lies():
    tensor = torch.zeros(6, 10).t()
    extent_of(tensor, 7, Draw("x")).fill_(1.0)
    assert tensor.sum() == 7
    with pytest.raises(ValueError, match="gaps"):
        extent_of(torch.zeros(6, 10)[:, ::2], 7, Draw("x"))
