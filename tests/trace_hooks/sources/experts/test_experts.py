"""Loads of experts of small real models, against counts made by hand."""

from __future__ import annotations

import copy

import pytest
import torch

from tests.trace_hooks.sources.experts.tiny_moe import (
    NUM_EXPERTS,
    TOP_K,
    TinyMoE,
    by_hand,
    end_step,
    register,
    trained,
)
from tests.trace_hooks.tiny_models import batch, idle_forwards, loss_of, seeded, tracing, train
from trace_hooks.recording import guard
from trace_hooks.sources.experts import experts, router_calls
from trace_hooks.sources.experts.routers import own_router

TOKENS = 10  # of a batch


def one_hot(_scores, indices):
    return torch.zeros(len(indices), NUM_EXPERTS, dtype=torch.bool).scatter_(1, indices, True)


def test_each_layer_has_a_row_a_step_that_equals_a_count_by_hand():
    model = seeded(TinyMoE)
    with tracing("modules", "experts") as traced:
        traced.watch(model)
        register(traced, model, local=range(2, 4), bias="bias")
        model.layers[1].moe.router.bias += torch.arange(NUM_EXPERTS) / 10
        trained(traced, model, 3)
        rows = traced.rows("expert_load")
    assert [(row["step"], row["layer"]) for row in rows] == [
        (s, n) for s in range(3) for n in (0, 1)
    ]
    for row in rows:
        router = model.layers[row["layer"]].moe.router
        assert row["tokens"] == by_hand(router.seen[row["step"]])
        assert row["name"] == f"layers.{row['layer']}.moe.router"
        assert row["bias"] == router.bias.tolist()
        assert (row["top_k"], row["batch_tokens"], row["dropped"]) == (TOP_K, TOKENS, 0)
        assert (row["first_expert"], row["local_experts"], row["aux_loss"]) == (2, 2, None)


FORMS = {
    "indices": (lambda _scores, indices: indices, {}),
    "one hot": (one_hot, {"top_k": TOP_K}),
    "counts": (lambda _scores, indices: one_hot(_scores, indices).sum(0), {}),
    "scores": (lambda scores, _indices: scores, {"top_k": TOP_K}),
    "three dimensions": (lambda _scores, indices: indices.view(2, 5, TOP_K), {}),
    "int32": (lambda _scores, indices: indices.to(torch.int32), {}),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_choices_is_counted(form: str) -> None:
    make, how = FORMS[form]
    model = seeded(lambda: TinyMoE(form=make))
    with tracing("experts") as traced:
        traced.watch(model)
        register(traced, model, chosen=2, **how)
        trained(traced, model)
        rows = traced.rows("expert_load")
    for row, router in zip(rows, model.routers(), strict=True):
        assert row["tokens"] == by_hand(router.seen[0])
        known = form != "counts"
        assert row["batch_tokens"] == (TOKENS if known else -1)
        assert row["dropped"] == (0 if known else -1)


def test_dropped_choices_and_wrong_indices_are_no_experts_tokens():
    def dropping(_scores, indices):
        return indices.masked_fill(indices == 1, -1).masked_fill(indices == 2, 10**6)

    model = seeded(lambda: TinyMoE(form=dropping))
    with tracing("experts") as traced:
        register(traced, model, chosen=2)
        trained(traced, model)
        rows = traced.rows("expert_load")
    for row, router in zip(rows, model.routers(), strict=True):
        zero, one, two, three = by_hand(router.seen[0])
        assert row["tokens"] == [zero, 0, 0, three]
        assert row["dropped"] == one + two
        assert one + two > 0


def test_micro_batches_add_up_and_the_auxiliary_loss_is_their_mean():
    model = seeded(lambda: TinyMoE(form=lambda scores, _indices: scores.square().mean()))
    seen: list[float] = []
    model.layers[0].moe.router.register_forward_hook(lambda m, a, out: seen.append(out[2].item()))
    with tracing("experts") as traced:
        traced.watch(model)
        register(traced, model, chosen=1, aux_loss=2)
        traced.source("experts").step_begin()
        for number in range(3):
            loss_of(model, batch(number)).backward()
        end_step(traced)
        first, second = traced.rows("expert_load")
    assert first["tokens"] == by_hand(torch.cat(model.layers[0].moe.router.seen))
    assert second["tokens"] == by_hand(torch.cat(model.layers[1].moe.router.seen))
    assert first["batch_tokens"] == 3 * TOKENS
    assert first["aux_loss"] == pytest.approx(sum(seen) / 3, rel=1e-6)


def test_the_forward_in_which_a_pipeline_finds_shapes_does_not_count():
    model = seeded(TinyMoE)
    with tracing("experts") as traced:
        traced.watch(model)
        register(traced, model)
        traced.source("experts").step_begin()
        loss_of(model, batch(5)).backward()  # outside of micro-batches
        for number in range(2):
            traced.rank_state.microbatch = number
            loss_of(model, batch(number)).backward()
        end_step(traced)
        rows = traced.rows("expert_load")
    for row, router in zip(rows, model.routers(), strict=True):
        assert row["tokens"] == by_hand(torch.cat(router.seen[1:]))
        assert row["batch_tokens"] == 2 * TOKENS


@pytest.mark.parametrize("reentrant", [True, False])
def test_recomputed_forwards_count_once_and_losses_are_bitwise_equal(reentrant: bool) -> None:
    plain = train(seeded(lambda: TinyMoE(reentrant)), 3)
    model = seeded(lambda: TinyMoE(reentrant))
    with tracing("modules", "experts") as traced:
        traced.watch(model)
        register(traced, model)
        assert trained(traced, model, 3) == plain
        rows = traced.rows("expert_load")
    assert {row["batch_tokens"] for row in rows} == {TOKENS}
    assert len(rows) == 2 * 3
    for row in rows:  # each forward ran twice
        router = model.layers[row["layer"]].moe.router
        assert row["tokens"] == by_hand(router.seen[2 * row["step"]])


def test_forwards_that_train_nothing_and_those_outside_of_steps_are_not_counted():
    model = seeded(TinyMoE)
    with tracing("experts") as traced:
        traced.watch(model)
        register(traced, model)
        loss_of(model, batch(0)).backward()
        trained(traced, model)
        traced.source("experts").step_begin()
        idle_forwards(model)
        end_step(traced)
        rows = traced.rows("expert_load")
    assert [row["batch_tokens"] for row in rows] == [TOKENS, TOKENS]


WRONG = {
    "nothing": lambda _scores, _indices: None,
    "a map of other experts": lambda _scores, indices: one_hot(None, indices)[:, 1:],
    "scores without top_k": lambda scores, _indices: scores,
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_router_that_cannot_be_read_stops_neither_the_job_nor_another_router(kind: str) -> None:
    form = WRONG[kind]
    plain = train(seeded(lambda: TinyMoE(form=form)), 2)
    model = seeded(lambda: TinyMoE(form=form))
    first, second = model.routers()
    with tracing("experts", errors=True) as traced:
        traced.watch(model)
        for router, at in ((first, 2), (second, 1)):
            described = dict.fromkeys(("top_k", "local", "bias", "aux_loss"))
            own = own_router(router, NUM_EXPERTS, chosen=at, **described)
            traced.source("experts").add(own)
        assert trained(traced, model, 2) == plain
        assert guard.account.errors == {"experts.routed": 1}
        rows = traced.rows("expert_load")
    assert [row["tokens"] for row in rows] == [by_hand(indices) for indices in second.seen]


def test_many_choices_are_counted_before_the_step_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router_calls, "MAX_KEPT", 30)
    model = seeded(TinyMoE)
    with tracing("experts") as traced:
        traced.watch(model)
        register(traced, model)
        traced.source("experts").step_begin()
        for number in range(5):
            loss_of(model, batch(number)).backward()
        end_step(traced)
        rows = traced.rows("expert_load")
    for row, router in zip(rows, model.routers(), strict=True):
        assert row["tokens"] == by_hand(torch.cat(router.seen))


def test_choices_that_the_job_overwrites_are_dropped_and_counted_as_lost():
    model = seeded(TinyMoE)
    with tracing("experts") as traced:
        traced.watch(model)
        register(traced, model)
        traced.source("experts").step_begin()
        loss_of(model, batch(0))
        model.layers[0].moe.router.seen[0].zero_()
        end_step(traced)
        (row,) = traced.rows("expert_load")
        assert row["layer"] == 1
        assert traced.recorder.dropped == 1


def test_uninstalling_leaves_no_hook_and_a_copy_has_none():
    model = seeded(TinyMoE)
    with tracing("experts") as traced:
        traced.watch(model)
        register(traced, model)
        copied = copy.deepcopy(model)
        trained(traced, copied)
        assert not traced.rows("expert_load")
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_a_compiled_model_runs_and_a_mark_says_what_is_missed():
    model = seeded(TinyMoE)
    plain = loss_of(seeded(TinyMoE), batch(0)).item()
    with tracing("modules", "experts") as traced:
        traced.watch(model)
        register(traced, model)
        compiled = torch.compile(model, backend="eager", fullgraph=True)
        traced.source("experts").step_begin()
        loss = loss_of(compiled, batch(0))
        loss.backward()
        end_step(traced)
        assert loss.item() == plain
        assert not traced.rows("expert_load")
        (mark,) = traced.rows("marks")
        assert "2 compiled routers are not counted" in mark["text"]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"num_experts": 0}, "num_experts is 0; give a whole number from 1"),
        ({"local": range(2, 9)}, "give a range within the 4 experts"),
        ({"module": len}, "router needs an nn.Module"),
    ],
)
def test_a_wrong_description_is_refused_with_a_sentence(how: dict, message: str) -> None:
    described = {"module": TinyMoE().layers[0].moe.router, "num_experts": NUM_EXPERTS}
    described |= dict.fromkeys(("chosen", "top_k", "local", "bias", "aux_loss"))
    with pytest.raises((TypeError, ValueError), match=message):
        own_router(**(described | how))


def test_nothing_is_kept_outside_of_steps_and_only_so_much_within_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(router_calls, "MAX_KEPT", 0)
    monkeypatch.setattr(experts, "MAX_CALLS", 3)
    model = seeded(TinyMoE)
    with tracing("experts") as traced:
        traced.watch(model)
        register(traced, model)
        source = traced.source("experts")
        for number in range(4):
            loss_of(model, batch(number)).backward()
        assert (source.num_kept, source._counted) == (0, [])
        source.step_begin()
        for number in range(4, 7):
            loss_of(model, batch(number)).backward()
        end_step(traced)
        for number in range(7, 10):
            loss_of(model, batch(number)).backward()
        assert (source.num_kept, source._counted) == (0, [])
        first, second = traced.rows("expert_load")
        assert traced.recorder.dropped == 3
    routers = model.routers()
    assert first["tokens"] == by_hand(torch.cat(routers[0].seen[4:6]))
    assert second["tokens"] == by_hand(routers[1].seen[4])


def test_choices_whose_memory_the_job_frees_are_not_read():
    model = seeded(TinyMoE)
    with tracing("experts") as traced:
        traced.watch(model)
        register(traced, model)
        traced.source("experts").step_begin()
        loss_of(model, batch(0)).backward()
        model.layers[0].moe.router.seen[0].untyped_storage().resize_(0)
        end_step(traced)
        (row,) = traced.rows("expert_load")
        assert row["layer"] == 1
        assert traced.recorder.dropped == 1


def notes(traced) -> list[str]:
    return [mark["text"] for mark in traced.rows("marks")]


def test_nothing_is_counted_into_a_graph_that_is_captured_and_the_router_is_followed_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Here torch only says that a graph is captured: see pretended_cuda.py."""
    captured = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: bool(captured))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: bool(captured))
    model = seeded(TinyMoE)
    asked = []

    def chosen(output):
        asked.append(output)
        return output[1]

    with tracing("experts") as traced:
        traced.watch(model)
        register(traced, model, chosen=chosen)
        source = traced.source("experts")
        source.step_begin()
        captured.append(True)
        loss_of(model, batch(0)).backward()
        assert asked == []
        end_step(traced)
        captured.clear()

        source.step_begin()
        loss_of(model, batch(1)).backward()
        captured.append(True)  # by the end of the step
        end_step(traced)
        captured.clear()
        assert traced.recorder.dropped == 2
        assert not traced.rows("expert_load")

        source.step_begin()
        loss_of(model, batch(2)).backward()
        end_step(traced)
        rows = traced.rows("expert_load")
        (note,) = notes(traced)
    assert "routers such as layers.0.moe.router (2 in all) are not counted in a CUDA graph" in note
    assert [row["tokens"] for row in rows] == [by_hand(r.seen[2]) for r in model.routers()]


@pytest.mark.sampled
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # torch's
@pytest.mark.parametrize("part", ["a function that calls the model", "a block"])
def test_routers_in_code_that_is_compiled_later_are_named(part: str) -> None:
    model = seeded(TinyMoE)
    plain = train(seeded(TinyMoE), 2)
    run = None
    with tracing("experts") as traced:
        traced.watch(model)
        register(traced, model)
        if part == "a block":
            model.layers[0].compile(backend="eager")
        else:
            run = torch.compile(lambda tokens: model(tokens), backend="eager", fullgraph=True)

        def begin(step: int) -> None:
            if step:
                end_step(traced)
            traced.rank_state.step = step
            traced.source("experts").step_begin()

        assert train(model, 2, run, begin) == plain
        end_step(traced)
        (note,) = notes(traced)
        rows = traced.rows("expert_load")
    num = 1 if part == "a block" else 2
    assert f"routers such as layers.0.moe.router ({num} in all) are not counted: comp" in note
    assert [row["layer"] for row in rows] == ([1, 1] if part == "a block" else [])


def test_top_1_choices_need_no_dimension_of_their_own():
    forms = {
        "flat": lambda _scores, indices: indices[:, 0],
        "two dimensions": lambda _scores, indices: indices[:, 0].view(2, 5),
        "its own dimension": lambda _scores, indices: indices[:, :1],
    }
    for form in forms.values():
        model = seeded(lambda form=form: TinyMoE(form=form))
        with tracing("experts") as traced:
            traced.watch(model)
            register(traced, model, chosen=2, top_k=1)
            trained(traced, model)
            rows = traced.rows("expert_load")
        for row, router in zip(rows, model.routers(), strict=True):
            assert row["tokens"] == by_hand(router.seen[0][:, 0])
            assert (row["top_k"], row["batch_tokens"], row["dropped"]) == (1, TOKENS, 0)


@pytest.mark.parametrize(
    ("shape", "top_k", "message"),
    [
        ((), -1, r"returns choices of shape \(\)"),
        ((), 1, r"returns choices of shape \(\)"),
        ((10, 5), -1, r"shape \(10, 5\); if each token has one, say top_k=1"),
        ((10, 3), 2, r"shape \(10, 3\), and top_k is 2"),
        ((10,), 2, r"shape \(10,\), and top_k is 2"),
        ((10,), -1, r"shape \(10,\); if each token has one"),
    ],
)
def test_integers_of_another_shape_are_refused_with_a_sentence(
    shape: tuple[int, ...], top_k: int, message: str
) -> None:
    described = dict.fromkeys(("chosen", "top_k", "local", "bias", "aux_loss"))
    router = own_router(torch.nn.Identity(), NUM_EXPERTS, **(described | {"top_k": top_k}))
    with pytest.raises(ValueError, match=message):
        router_calls.check(router, torch.zeros(shape, dtype=torch.int64))


def test_routers_in_no_known_model_have_names_of_their_own_and_a_mark_says_so():
    model = seeded(TinyMoE)
    with tracing("experts") as traced:
        register(traced, model)
        trained(traced, model, 2)
        (note,) = notes(traced)
        rows = traced.rows("expert_load")
    assert "routers such as Router 0 (2 in all) are in no model that the hooks know" in note
    assert [(row["layer"], row["name"]) for row in rows[:2]] == [(-1, "Router 0"), (-1, "Router 1")]


def test_a_bias_or_loss_that_cannot_be_read_takes_nothing_else_away():
    def fails():
        raise RuntimeError("injected")

    model = seeded(TinyMoE)
    with tracing("experts", errors=True) as traced:
        traced.watch(model)
        register(traced, model, bias=fails)
        trained(traced, model, 2)
        assert set(guard.account.errors) == {"experts.bias"}
        rows = traced.rows("expert_load")
    assert [row["bias"] for row in rows] == [None] * 4
    model = seeded(lambda: TinyMoE(form=lambda scores, _indices: scores))
    with tracing("experts", errors=True) as traced:
        traced.watch(model)
        register(traced, model, chosen=1, aux_loss=2)
        trained(traced, model)
        assert guard.account.errors == {"experts.routed": 2}
        text = dict(guard.account.take_news())["experts.routed"]
        assert "the auxiliary loss of a router has shape (10, 4); give a number" in text
