"""How each kind of perturbation changes values."""

from __future__ import annotations

import pytest
import torch

from trace_hooks.sources.perturbation.perturbed_values import Draw, extent_of

pytestmark = pytest.mark.torch


def test_an_extent_is_spread_over_a_tensor_however_it_lies():
    tensor = torch.zeros(6, 10).t()
    extent_of(tensor, 7, Draw("x")).fill_(1.0)
    assert tensor.sum() == 7
    with pytest.raises(ValueError, match="contiguous"):
        extent_of(torch.zeros(6, 10)[:, ::2], 7, Draw("x"))
