import copy
import gc
import inspect
import io
import pickle  # noqa: TID251 - of our own making
import subprocess
import sys
import weakref
from functools import partial

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend

from tests.trace_hooks.tiny_models import (
    PARTS,
    Block,
    TinyGPT,
    batch,
    loss_of,
    seeded,
    tracing,
    train,
)

BACKWARD = [
    "head",
    "norm",
    "layers.1",
    "layers.1.mlp",
    "layers.1.attention",
    "layers.0",
    "layers.0.mlp",
    "layers.0.attention",
    "embedding",
]
BLOCKS = {"embedding", "layers.0", "layers.1", "norm", "head"}


def names(spans) -> list[str]:
    return [span.name for span in spans]


def hooks_on(model: nn.Module) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def assert_nested(spans) -> None:
    """No two spans of a track overlap by halves, and depth counts the spans around."""
    around: list = []
    for span in spans:
        while around and around[-1].row.end_ns <= span.row.begin_ns:
            around.pop()
        assert all(span.row.end_ns <= outer.row.end_ns for outer in around), span
        assert span.row.depth == len(around), span
        around.append(span)


def test_forward_and_backward_of_every_part_in_order_and_nested():
    with tracing("modules") as traced:
        model = TinyGPT()
        traced.watch(model)
        loss_of(model, batch(0)).backward()
        assert names(traced.spans("forward")) == PARTS
        assert names(traced.spans("backward")) == BACKWARD
        assert_nested(traced.spans(whole=True))
        assert all(span.row.cpu_ns >= 0 and span.mode == "eager" for span in traced.spans())


def test_the_whole_model_and_the_whole_backward_pass_are_around_their_parts():
    with tracing("modules") as traced:
        model = TinyGPT()
        traced.watch(model)
        loss_of(model, batch(0)).backward()
        whole = [span for span in traced.spans(whole=True) if span.row.depth == 0]
        assert [(span.kind, span.name) for span in whole] == [
            ("forward", "TinyGPT"),
            ("backward", "backward"),
        ]
        loss_of(model, batch(0)).backward(retain_graph=True)
        assert len(traced.spans("backward", whole=True)) == 2 * (len(BACKWARD) + 1)


def test_inside_an_action_of_a_pipeline_there_is_no_whole_pass():
    with tracing("modules") as traced:
        model = TinyGPT()
        traced.watch(model, stage=0)
        traced.rank_state.chunk = 0
        loss_of(model, batch(0)).backward()
        assert len(traced.spans("backward", whole=True)) == len(BACKWARD)


@pytest.mark.parametrize("level", ["blocks", "steps"])
def test_lower_levels_record_less(level: str):
    with tracing("modules", level=level) as traced:
        model = TinyGPT()
        traced.watch(model)
        loss_of(model, batch(0)).backward()
        assert set(names(traced.spans())) == (BLOCKS if level == "blocks" else set())
        assert hooks_on(model) == (12 if level == "blocks" else 0)


@pytest.mark.sampled
@pytest.mark.parametrize("reentrant", [None, False, True])
def test_losses_and_gradients_are_bitwise_equal(reentrant: bool | None):
    plain = train(seeded(lambda: TinyGPT(reentrant=reentrant)), 8)
    with tracing("modules", "optimizer", "data", "gc", "checkpoint", "memory") as traced:
        model = seeded(lambda: TinyGPT(reentrant=reentrant))
        traced.watch(model)
        assert train(model, 8) == plain
        assert len(traced.spans("backward")) == 8 * len(BACKWARD)


@pytest.mark.parametrize("reentrant", [False, True])
def test_the_repeated_forward_of_checkpointing_is_marked(reentrant: bool):
    with tracing("modules") as traced:
        model = TinyGPT(reentrant=reentrant)
        traced.watch(model)
        loss_of(model, batch(0)).backward()
        first = [span for span in traced.spans("forward") if not span.row.recompute]
        again = [span for span in traced.spans("forward") if span.row.recompute]
        assert names(first) == PARTS
        assert sorted(names(again)) == sorted(name for name in PARTS if "layers" in name)
        assert sorted(names(traced.spans("backward"))) == sorted(BACKWARD)
        assert_nested(traced.spans(whole=True))


def test_the_stage_given_to_watch_is_the_chunk():
    with tracing("modules") as traced:
        model = TinyGPT()
        traced.watch(model, stage=5)
        loss_of(model, batch(0)).backward()
        assert {span.chunk for span in traced.spans()} == {5}


def test_evaluation_without_gradients_is_forward_only():
    with tracing("modules") as traced:
        model = TinyGPT()
        traced.watch(model)
        with torch.no_grad():
            model(batch(0))
        assert names(traced.spans()) == PARTS


def test_an_exception_in_a_forward_passes_and_leaves_order():
    class Fails(nn.Module):
        def forward(self, x):
            raise KeyError("the user's own")

    with tracing("modules") as traced:
        model = TinyGPT()
        model.layers[1].mlp = Fails()
        traced.watch(model)
        with pytest.raises(KeyError, match="the user's own"):
            model(batch(0))
        model.layers[1].mlp = nn.Identity()
        loss_of(model, batch(0)).backward()
        assert_nested(traced.spans(whole=True))
        assert not traced.source("modules").open.calls


def test_copies_run_their_own_weights_and_are_not_recorded():
    with tracing("modules") as traced:
        model = TinyGPT()
        traced.watch(model)
        twin = copy.deepcopy(copy.deepcopy(model))
        with torch.no_grad():
            for parameter in twin.parameters():
                parameter.add_(1.0)
            expected = TinyGPT()
            expected.load_state_dict(twin.state_dict())
            assert torch.equal(twin(batch(0)), expected(batch(0)))
            assert not torch.equal(twin(batch(0)), expected(batch(0)) + 1)
        assert not traced.spans()


def test_state_dict_is_unchanged():
    with tracing("modules") as traced:
        model = seeded(TinyGPT)
        before = {name: value.clone() for name, value in model.state_dict().items()}
        traced.watch(model)
        after = model.state_dict()
        assert list(after) == list(before)
        assert all(torch.equal(after[name], before[name]) for name in before)
        assert getattr(after, "_metadata", None) == seeded(TinyGPT).state_dict()._metadata


LOAD_WITHOUT_HOOKS = """
import io, sys
sys.modules["trace_hooks"] = None
import torch
model = torch.load(io.BytesIO(sys.stdin.buffer.read()), weights_only=False)
print(model(torch.ones(1, 3)).sum().item())
"""


@pytest.mark.torch
def test_a_pickled_model_loads_where_there_are_no_hooks():
    with tracing("modules") as traced:
        model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
        traced.watch(model)
        buffer = io.BytesIO()
        torch.save(model, buffer)
        expected = model(torch.ones(1, 3)).sum().item()
    loaded = subprocess.run(
        [sys.executable, "-I", "-c", LOAD_WITHOUT_HOOKS],
        input=buffer.getvalue(),
        capture_output=True,
        timeout=120,
    )
    assert float(loaded.stdout) == expected, loaded.stderr.decode()


def test_uninstall_takes_everything_away():
    model = TinyGPT()
    model.layers[0].compile(backend="eager")
    before = [(m.__dict__.get("_compiled_call_impl"), m.__dict__.keys()) for m in model.modules()]
    originals = torch.compile, torch.optim.Optimizer.__dict__["__init__"]
    with tracing("modules") as traced:
        assert torch.compile is not originals[0]
        traced.watch(model)
        assert hooks_on(model) > 0
    assert hooks_on(model) == 0
    assert (torch.compile, torch.optim.Optimizer.__dict__["__init__"]) == originals
    after = [(m.__dict__.get("_compiled_call_impl"), m.__dict__.keys()) for m in model.modules()]
    assert after == before


def test_what_is_watched_must_be_a_module():
    with tracing("modules") as traced, pytest.raises(TypeError, match=r"nn\.Module, got str"):
        traced.watch("model")


# --- torch.compile


def test_torch_compile_looks_and_pickles_as_without_hooks() -> None:
    """A model or a configuration that keeps it, alone or in a partial, may be saved or sent."""
    original = torch.compile
    with tracing("modules"):
        kept = pickle.dumps(partial(torch.compile, backend="eager"))
        assert inspect.signature(torch.compile) == inspect.signature(original)
        assert torch.compile.__doc__ == original.__doc__
    assert pickle.loads(kept).func is original


@pytest.fixture
def backend():
    torch._dynamo.reset()
    yield CompileCounterWithBackend("eager")
    torch._dynamo.reset()


def compiled_model(model: TinyGPT, how: str, backend) -> nn.Module:
    if how == "blocks":
        for layer in model.layers:
            layer.compile(fullgraph=True, backend=backend)
        return model
    if how == "in place":
        model.compile(fullgraph=True, backend=backend)
        return model
    return torch.compile(model, fullgraph=True, backend=backend)


@pytest.mark.sampled
@pytest.mark.filterwarnings("ignore:The .grad attribute")  # torch's own, while it traces
@pytest.mark.parametrize(
    ("how", "watch_first"),
    [("model", True), ("model", False), ("in place", True), ("blocks", True), ("blocks", False)],
)
def test_compiled_modules_keep_their_graphs_and_are_seen_from_outside(
    how: str, watch_first: bool, backend
):
    plain_backend = CompileCounterWithBackend("eager")
    plain = seeded(TinyGPT)
    plain_losses = train(plain, 3, compiled_model(plain, how, plain_backend))
    torch._dynamo.reset()
    with tracing("modules") as traced:
        model = seeded(TinyGPT)
        if watch_first:
            traced.watch(model)
        run = compiled_model(model, how, backend)
        if not watch_first:
            traced.watch(run)
        assert train(model, 3, run) == plain_losses
        assert (backend.frame_count, backend.op_count) == (
            plain_backend.frame_count,
            plain_backend.op_count,
        )
        seen = {(span.name, span.mode) for span in traced.spans("forward")}
        assert seen == {(span.name, span.mode) for span in traced.spans("backward")}
        if how == "blocks":
            assert {name for name, mode in seen if mode == "compiled"} == {"layers.0", "layers.1"}
            assert {name for name, mode in seen if mode == "eager"} == BLOCKS - {
                "layers.0",
                "layers.1",
            }
        else:
            assert seen == {("TinyGPT", "compiled")}
        assert_nested(traced.spans(whole=True))


@pytest.mark.filterwarnings("ignore:The .grad attribute")
def test_a_compiled_training_function_keeps_one_graph(backend):
    with tracing("modules", "optimizer") as traced:
        model = TinyGPT()
        traced.watch(model)
        run = torch.compile(lambda tokens: model(tokens) * 2, fullgraph=True, backend=backend)
        train(model, 3, run)
        assert backend.frame_count == 1
        assert not traced.spans("forward", "backward")


def test_a_user_who_watches_decides_what_is_watched():
    with tracing("modules") as traced:
        watched, other = TinyGPT(), nn.Linear(2, 2)
        traced.watch(watched)
        torch.optim.SGD(other.parameters())
        assert hooks_on(other) == 0


def test_parts_of_several_models_are_told_apart() -> None:
    with tracing("modules") as traced:
        models = [TinyGPT(), TinyGPT(), nn.Sequential(Block(8))]
        for model in models:
            traced.watch(model)
        for model, value in zip(models, (batch(0), batch(0), torch.ones(1, 8)), strict=True):
            model(value)
        names = [span.name for span in traced.spans("forward", whole=True)]
    assert [name for name in names if "layers.0" in name and name.endswith("0")] == [
        "layers.0",
        "TinyGPT 2.layers.0",
    ]
    assert {"TinyGPT", "TinyGPT 2", "Sequential", "Sequential.0"} <= set(names)
    assert "0" not in names


def test_a_second_model_that_is_compiled_has_the_name_of_its_class() -> None:
    with tracing("modules") as traced:
        for model in (nn.Linear(2, 2), torch.compile(TinyGPT(), backend="eager")):
            traced.watch(model)
            model(torch.ones(1, 2) if isinstance(model, nn.Linear) else batch(0))
        names = [span.name for span in traced.spans("forward", whole=True)]
    assert names == ["Linear", "TinyGPT"]


def test_chunks_of_one_model_need_no_names() -> None:
    with tracing("modules") as traced:
        models = [TinyGPT(), TinyGPT()]
        for stage, model in enumerate(models):
            traced.watch(model, stage)
        for model in models:
            model(batch(0))
        found = [(span.name, span.chunk) for span in traced.spans("forward")]
    assert [where for where in found if where[0] == "layers.0"] == [
        ("layers.0", 0),
        ("layers.0", 1),
    ]


@pytest.mark.parametrize(
    "source", ["modules", "attention_statistics", "statistics", "inspection", "optimizer"]
)
def test_a_model_that_the_job_drops_is_freed_at_once(source: str) -> None:
    """Not when Python looks for garbage: the next model needs the memory."""
    train(TinyGPT(blocks=1), 1)  # torch imports more at the first step
    with tracing(*{"modules", source}) as traced:
        gc.collect()
        gc.disable()
        try:
            model = TinyGPT(blocks=1)
            traced.watch(model)
            train(model, 2)
            dropped = weakref.ref(model)
            del model
            assert dropped() is None
        finally:
            gc.enable()


def test_a_model_that_the_job_drops_is_freed_and_the_next_one_is_recorded():
    with tracing("modules", "experts", "optimizer") as traced:
        dropped = []
        for number in range(2):
            model = TinyGPT(blocks=1)
            if number == 0:  # as compile() leaves it
                model.head._compiled_call_impl = model.head._call_impl
            train(model, 1)
            assert len(traced.spans("forward")) == 6
            traced.recorder.spans.clear()
            dropped.append(weakref.ref(model))
            del model
            gc.collect()
        assert [model() for model in dropped] == [None, None]
        assert len(traced.context.models.roots) == 0
