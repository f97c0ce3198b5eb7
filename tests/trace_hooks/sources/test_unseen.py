"""Operations of hooks that neither autograd nor dispatch modes of the job see."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

from trace_hooks.sources.unseen import unseen


class Log(TorchDispatchMode):
    """Writes down the operations that it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


@unseen
def squared(tensor: torch.Tensor, times: int = 1) -> torch.Tensor:
    for _ in range(times):
        tensor = tensor * tensor
    return tensor


@unseen
def fails() -> None:
    raise KeyError("injected")


def test_modes_see_nothing_and_are_all_there_afterwards() -> None:
    twos = torch.full((2,), 2.0, requires_grad=True)
    with FakeTensorMode(), Log() as outer, Log() as inner:
        before = _get_current_dispatch_mode_stack()
        result = squared(twos, times=2)
        with pytest.raises(KeyError, match="injected"):
            fails()
        assert _get_current_dispatch_mode_stack() == before
        assert (outer.seen, inner.seen) == ([], [])
        torch.ones(2)
        assert (outer.seen, inner.seen) == (["aten.ones.default"], ["aten.ones.default"])
    assert result.tolist() == [16.0, 16.0]
    assert not result.requires_grad


@pytest.mark.parametrize("enabled", [True, False])
def test_nothing_is_saved_for_a_backward_and_the_mode_of_gradients_stays(enabled: bool) -> None:
    ones = torch.ones(2, requires_grad=True)
    saved: list[torch.Tensor] = []
    hooks = torch.autograd.graph.saved_tensors_hooks(saved.append, lambda tensor: tensor)
    with torch.set_grad_enabled(enabled), hooks:
        assert not squared(ones).requires_grad
        assert saved == []
        with pytest.raises(KeyError, match="injected"):
            fails()
        assert torch.is_grad_enabled() == enabled
        assert (ones * ones).requires_grad == enabled
        assert bool(saved) == enabled
