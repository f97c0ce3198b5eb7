"""An exception inside any hook of a source leaves training as it is, and is counted."""

import gc
import io
from tempfile import TemporaryDirectory

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch import distributed, nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from tests.trace_hooks.tiny_models import TinyGPT, batch, seeded, tracing
from trace_hooks.recording import guard
from trace_hooks.sources import load_source

SOURCES = ("modules", "pipeline", "optimizer", "data", "gc", "checkpoint", "memory")

for _name in SOURCES:
    load_source(_name)

SCRIPTING = ("modules.take_off", "modules.put_back")  # of torch.jit.script, see test_scripting.py
HOOKS = sorted(
    name for name in guard.HOOKS if name.split(".")[0] in SOURCES and name not in SCRIPTING
)


@pytest.fixture(scope="module", autouse=True)
def alone(tmp_path_factory):
    """A process group of one, for a pipeline of one stage."""
    store = distributed.FileStore(str(tmp_path_factory.mktemp("store") / "store"), 1)
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def everything() -> list[float]:
    """Losses of a training that passes through every hook, without a call to `watch`."""
    model = seeded(lambda: TinyGPT(reentrant=False))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    data = TensorDataset(torch.cat([batch(step) for step in range(3)]))
    for (tokens,) in DataLoader(data, batch_size=2):
        loss = functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    gc.collect()
    torch.compile(model, backend="eager")  # makes a wrapper, compiles nothing yet
    torch.save(model.state_dict(), io.BytesIO())
    with TemporaryDirectory() as folder:
        dcp.async_save(model.state_dict(), checkpoint_id=folder).result()
    return losses + pipelined()


def pipelined() -> list[float]:
    module = seeded(lambda: nn.Sequential(nn.Linear(3, 3), nn.Tanh()))
    stage = PipelineStage(module, 0, 1, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, 2, loss_fn=functional.mse_loss)
    losses: list[torch.Tensor] = []
    schedule.step(torch.ones(4, 3), target=torch.zeros(4, 3), losses=losses)
    return [loss.item() for loss in losses] + module[0].weight.grad.flatten().tolist()


@pytest.fixture(scope="module")
def plain() -> list[float]:
    return everything()


def test_all_sources_are_covered():
    hooked = set(SOURCES) - {"memory"}  # which leaves no hook behind: the tracer calls it
    assert {name.split(".")[0] for name in HOOKS} == hooked


@pytest.mark.sampled(every=12)
@pytest.mark.parametrize("hook", HOOKS)
def test_training_goes_on_when_a_hook_raises(hook: str, plain, monkeypatch):
    def fail(*args, **kwargs):
        raise RuntimeError("injected")

    monkeypatch.setitem(guard.HOOKS, hook, fail)
    with tracing(*SOURCES, errors=True) as traced:
        assert everything() == plain
        assert guard.account.errors == {hook: 1}
        assert not guard.disabled - {hook}
        assert traced.spans()  # the other sources go on


def test_without_an_error_everything_is_seen_and_equal(plain):
    with tracing(*SOURCES) as traced:
        assert everything() == plain
        kinds = {span.kind for span in traced.spans()}
        assert kinds == {
            "forward",
            "backward",
            "optimizer",
            "data_fetch",
            "data_wait",
            "gc",
            "checkpoint",
            "host",
        }
