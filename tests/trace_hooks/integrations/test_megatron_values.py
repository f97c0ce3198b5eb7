"""What is read of a Megatron training loop; Megatron itself runs in test_megatron.py."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch

from trace_hooks.integrations.megatron_timers import TimerSpans
from trace_hooks.integrations.megatron_values import iteration, mean_loss
from trace_hooks.recording.recorder import SPAN_FIELDS, Recorder, SpanRow

pytestmark = pytest.mark.torch


def test_losses_of_micro_batches_are_averaged() -> None:
    logged = [{"lm loss": torch.tensor(2.0)}, {"lm loss": torch.tensor([4.0])}]
    assert float(mean_loss(logged)) == 3.0


@pytest.mark.parametrize("pair", [torch.tensor, lambda pair: tuple(map(torch.tensor, pair))])
def test_sums_over_tokens_are_divided_by_their_number(pair) -> None:
    logged = [{"lm loss": pair([6.0, 2.0])}, {"lm loss": pair([2.0, 2.0])}]
    assert float(mean_loss(logged)) == 2.0


def test_what_is_no_loss_is_not_taken_for_one() -> None:
    assert mean_loss([]) is None
    assert mean_loss([{"accuracy": torch.tensor(1.0)}]) is None
    assert mean_loss([{"loss of each token": torch.ones(7)}]) is None


def test_the_iteration_is_megatron_lms(monkeypatch: pytest.MonkeyPatch) -> None:
    assert iteration() is None
    module = ModuleType("megatron.training.global_vars")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert iteration() is None
    module._GLOBAL_ARGS = SimpleNamespace(curr_iteration=7)  # type: ignore[attr-defined]
    assert iteration() == 7


def spans_of(*calls: str) -> list[tuple[str, str, int]]:
    """Name, kind and depth of the spans when timers start (+name) and stop (-name) in turn."""
    recorder = Recorder()
    timers = TimerSpans(recorder)
    by_name = {call[1:]: SimpleNamespace(name=call[1:]) for call in calls}
    for call in calls:
        arguments = (by_name[call[1:]],)
        timers.started(None, arguments, {}) if call[0] == "+" else timers.stops(arguments, {})
    flat = recorder.spans
    rows = [SpanRow(*flat[at : at + SPAN_FIELDS]) for at in range(0, len(flat), SPAN_FIELDS)]
    sites = recorder.sites
    return [(sites[row.site].name, sites[row.site].kind, row.depth) for row in rows]


def test_timers_are_spans_inside_each_other() -> None:
    assert spans_of("+optimizer", "+all-grads-sync", "-all-grads-sync", "-optimizer") == [
        ("all-grads-sync", "host", 1),
        ("optimizer", "optimizer", 0),
    ]


def test_timers_around_what_has_spans_are_left_out() -> None:
    assert spans_of("+forward-backward", "+batch-generator", "-batch-generator") == [
        ("batch-generator", "data_fetch", 0)
    ]


def test_a_timer_that_outlives_the_one_around_it_is_left_out() -> None:
    crossed = ("+outer", "+inner", "-outer", "-inner")
    assert spans_of(*crossed, *crossed) == [("outer", "host", 0), ("outer", "host", 0)]
