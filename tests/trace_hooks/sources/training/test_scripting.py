import copy

import pytest
import torch
from torch import nn

from tests.trace_hooks.tiny_models import tracing


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
