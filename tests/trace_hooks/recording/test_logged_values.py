"""Numbers that a job logs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from trace_hooks.recording.logged_values import logged_value


@pytest.mark.parametrize(
    "value", [2, 2.0, "2", np.float32(2), torch.tensor(2.0), torch.ones(1, 1) * 2]
)
def test_a_number_on_the_host_is_known_at_once(value: Any) -> None:
    number = logged_value(value)
    assert number.is_ready()
    assert number.number() == 2.0


def test_a_value_with_a_gradient_keeps_its_graph() -> None:
    loss = torch.ones((), requires_grad=True) * 2
    assert logged_value(loss).number() == 2.0
    loss.backward()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("much", "'much' is not a number"),
        ([1], "is not a number"),
        (10**400, "beyond 1e308"),
        (torch.ones(2), r"only single numbers can be logged, not \(2,\)"),
    ],
)
def test_anything_else_is_refused(value: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        logged_value(value)
