"""What the sources of frameworks have in common; no framework is needed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.trace_hooks.tracers import rows, start
from tests.waiting import wait_until
from trace_hooks.integrations.framework_source import FrameworkSource, named
from trace_hooks.recording import guard
from trace_hooks.sources.context import SourceContext

pytestmark = pytest.mark.torch


class Framework(FrameworkSource):
    """Records the function `step` of an object."""

    def __init__(self, context: SourceContext, name: str, owner: Any, action_of: Any) -> None:
        super().__init__(context)
        self.name, self._owner, self._action_of = name, owner, action_of

    def install(self) -> None:
        self.record(self._owner, "step", self._action_of)


@pytest.mark.usefixtures("plain_environment")
def test_a_framework_that_fails_leaves_the_spans_of_the_others(tmp_path: Path) -> None:
    def fails(*_args: Any, **_kwargs: Any) -> Any:
        raise AttributeError("a newer version has no such name")

    broken, sound = (SimpleNamespace(step=lambda: "stepped") for _ in range(2))
    tracer = start(tmp_path, sources=["pipeline"])
    tracer.install(Framework(tracer.context, "broken", broken, fails))
    tracer.install(Framework(tracer.context, "sound", sound, named("sound.step", "optimizer")))
    with tracer.step(0):
        assert [broken.step(), broken.step(), sound.step()] == ["stepped"] * 3
    assert "broken.action_begin" in guard.disabled
    tracer.stop()
    wait_until(lambda: rows(tmp_path, "spans"))  # the collector of the host writes them
    assert [row["name"] for row in rows(tmp_path, "spans")] == ["sound.step"]
