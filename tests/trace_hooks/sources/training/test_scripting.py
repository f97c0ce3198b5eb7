"""torch.jit.script of modules that have hooks of ours."""

import copy

import pytest
import torch
from torch import nn

from tests.trace_hooks.tiny_models import tracing
from trace_hooks.recording import guard


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_watched_model_and_its_copies_can_be_scripted_and_are_recorded_afterwards():
    model = nn.Sequential(nn.Sequential(nn.Linear(3, 3), nn.ReLU()), nn.Linear(3, 1))
    row = torch.ones(1, 3)
    with tracing("modules") as traced:
        traced.watch(model)
        before = [dict(m._forward_hooks) for m in model.modules()]
        scripted = torch.jit.script(model)
        assert [dict(m._forward_hooks) for m in model.modules()] == before
        twin = copy.deepcopy(model)
        expected = model(row)
        assert {span.name for span in traced.spans("forward")} == {"0", "1"}
    assert torch.equal(scripted(row), expected)
    assert torch.equal(torch.jit.script(twin)(row), expected)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_what_torch_cannot_script_raises_its_own_error_and_the_hooks_are_back():
    class Unscriptable(nn.Module):
        def forward(self, x):
            return x + nn.Parameter(torch.ones(1)) if (yield) else x

    model = Unscriptable()
    with tracing("modules") as traced:
        traced.watch(model)
        before = dict(model._forward_hooks)
        with pytest.raises(Exception, match="yield"):
            torch.jit.script(model)
        assert dict(model._forward_hooks) == before != {}


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_where_the_hooks_cannot_be_put_back_the_job_goes_on_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("injected")

    model, row = nn.Linear(3, 1), torch.ones(1, 3)
    expected = model(row)
    with tracing("modules", errors=True) as traced:
        traced.watch(model)
        monkeypatch.setitem(guard.HOOKS, "modules.put_back", fail)
        assert torch.equal(torch.jit.script(model)(row), expected)
        assert torch.equal(model(row), expected)
        assert guard.account.errors == {"modules.put_back": 1}
