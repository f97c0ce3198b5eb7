"""The step at which ranks begin something together."""

from __future__ import annotations

import pytest

from app.live.connected_rank import ConnectedRank, Hello
from app.live.first_step import AHEAD_S, AHEAD_STEPS, first_step, with_first_step, with_steps


def ranks(*steps: int, steps_per_s: float = 0.0) -> list[ConnectedRank]:
    connected = [ConnectedRank(Hello("job", 0, rank, len(steps))) for rank in range(len(steps))]
    for rank, step in zip(connected, steps, strict=True):
        rank.step, rank.steps_per_s = step, steps_per_s
    return connected


def test_no_rank_has_begun_it_when_the_command_arrives() -> None:
    assert first_step(ranks(-1, -1)) == AHEAD_STEPS
    assert first_step(ranks(7, 9)) == 9 + AHEAD_STEPS
    assert first_step(ranks(7, 9, steps_per_s=2.0)) == 9 + AHEAD_STEPS + 2 * AHEAD_S


def test_a_capture_keeps_the_step_it_names() -> None:
    assert with_first_step({"steps": 2, "from": 30}, ranks(5))["from"] == 30
    assert with_first_step({"steps": 2}, ranks(5))["from"] == 5 + AHEAD_STEPS
    spans = with_first_step({"steps": 200}, ranks(5), "record_spans")
    assert spans == {"steps": 200, "from": 5 + AHEAD_STEPS}
    with pytest.raises(ValueError, match="capture_kernels: steps is 200; give 1 to 50"):
        with_first_step({"steps": 200}, ranks(5))


def test_a_number_of_steps_becomes_a_window() -> None:
    first = 5 + AHEAD_STEPS
    assert with_steps({"id": "p", "num_steps": 3}, ranks(5)) == {
        "id": "p",
        "steps": [first, first + 2],
    }
    assert with_steps({"steps": [1, 2]}, ranks(5)) == {"steps": [1, 2]}
    for args in ({"num_steps": 0}, {"num_steps": True}, {"num_steps": 1, "steps": [1, 2]}):
        with pytest.raises(ValueError, match="num_steps"):
            with_steps(args, ranks(5))
