"""Warnings about a server in the log of training are few."""

from __future__ import annotations

import pytest

from trace_hooks.agent import log_messages
from trace_hooks.agent.log_messages import FewWarnings
from trace_hooks.protocol.token_bucket import Rate


def test_warnings_are_few_and_those_left_out_are_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now_s = 0.0
    monkeypatch.setattr(
        log_messages, "Rate", lambda per_s, burst: Rate(per_s, burst, lambda: now_s)
    )
    warnings = FewWarnings("the dashboard says")
    for number in (1, 1, 2, 3, 4, 5, 6, 7):
        warnings.warn(f"number {number}")
    assert [record.getMessage()[-1] for record in caplog.records] == list("12345")
    now_s = log_messages.EVERY_S + 1
    warnings.warn("number 8")
    warnings.warn("number 9")
    assert caplog.messages[5:] == [
        "trace_hooks: the dashboard says: number 8 (2 warnings before this were left out)"
    ]
