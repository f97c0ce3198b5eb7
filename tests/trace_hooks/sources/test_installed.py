"""Sources of one process are called together; one that fails does not stop the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.trace_hooks.tiny_models import ListedSteps
from trace_hooks.recording import guard
from trace_hooks.recording.recorder import Recorder
from trace_hooks.sources import installed
from trace_hooks.sources.base import Source
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.installed import InstalledSources

CALLS: list[str] = []


class Quiet(Source):
    def install(self) -> None:
        CALLS.append("quiet install")

    def uninstall(self) -> None:
        CALLS.append("quiet uninstall")


class Failing(Source):
    def install(self) -> None:
        CALLS.append("failing install")
        raise RuntimeError("no")

    def instrument(self, model: Any, stage: int | None = None) -> None:
        raise TypeError("no model")

    def step_begin(self) -> None:
        CALLS.append("failing step_begin")
        raise RuntimeError("no")

    def uninstall(self) -> None:
        CALLS.append("failing uninstall")


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> Iterator[InstalledSources]:
    kinds: dict[str, type[Source]] = {"quiet": Quiet, "failing": Failing}
    monkeypatch.setattr(installed, "load_source", kinds.__getitem__)
    guard.account.reset()
    CALLS.clear()
    recorder = Recorder()
    yield InstalledSources(
        ("failing", "missing", "quiet"), SourceContext(recorder, ListedSteps(recorder))
    )
    guard.account.reset()


def test_what_cannot_be_loaded_is_left_out(sources: InstalledSources) -> None:
    assert [source.name for source in sources.all] == ["failing", "quiet"]
    assert guard.account.errors == {"tracer.missing.load": 1}
    assert sources.named("quiet") is sources.all[1]
    assert sources.named("missing") is None
    assert [chore.name for chore in sources.chores()] == [
        "tracer.failing.poll",
        "tracer.quiet.poll",
    ]


def test_a_failure_stops_no_other_source(sources: InstalledSources) -> None:
    sources.install()
    sources.uninstall()
    assert CALLS == ["failing install", "quiet install", "quiet uninstall", "failing uninstall"]


def test_a_failing_hook_of_steps_is_called_once(sources: InstalledSources) -> None:
    for _ in range(3):
        sources.step_begins()
    assert CALLS == ["failing step_begin"]


def test_a_wrong_model_does_not_keep_the_next_one_away(sources: InstalledSources) -> None:
    for _ in range(2):
        sources.instrument(object(), None)
    assert guard.account.errors["tracer.failing.watch"] == 2
