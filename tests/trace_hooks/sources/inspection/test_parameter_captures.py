"""Gradients and weights as the optimizer gets them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.trace_hooks.tiny_models import TinyGPT, seeded
from tests.trace_hooks.watched_models import forward_backward, frames, watching

pytestmark = pytest.mark.torch

HALF = 2.0**-10  # relative error of float16, with a margin


def test_gradients_and_weights_before_the_step():
    model = seeded(TinyGPT)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    watches = ({"what": "weights", "layers": [0]}, {"what": "gradients", "layers": [0]})
    with watching(model, *watches) as (traced, _):
        forward_backward(traced, model)
        kept = {
            what: {
                name: (p if what == "weights" else p.grad).detach().clone()
                for name, p in model.named_parameters()
                if name.startswith("layers.0")
            }
            for what in ("weights", "gradients")
        }
        optimizer.step()
        for what, parameters in kept.items():
            by_name = {one.name: one for one in frames(traced, what=what)}
            assert set(by_name) == set(parameters)
            for name, exact in parameters.items():
                peak = float(exact.abs().max())
                np.testing.assert_allclose(
                    by_name[name].values().ravel(), exact.ravel(), rtol=HALF, atol=peak * 1e-7
                )
