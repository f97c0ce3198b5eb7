"""How the parts of one process are put together."""

from __future__ import annotations

from pathlib import Path

import pytest

import trace_hooks as th
from trace_hooks.sources.context import SourceOptions

pytestmark = pytest.mark.usefixtures("plain_environment")


def test_what_the_user_chose_reaches_the_sources(tmp_path: Path) -> None:
    tracer = th.start(
        tmp_path, level="blocks", sources=["gc"], statistics=3, allow_content=True, layout={"tp": 1}
    )
    try:
        assert tracer.context.options == SourceOptions("blocks", 3, True, (), False)
        assert [source.name for source in tracer.sources] == ["gc"]
        assert str(tracer.context.rank_state.layout) == "tp 1"
        assert all(source.context is tracer.context for source in tracer.sources)
    finally:
        tracer.stop()
    assert tracer.context.rank_state.phase == "ending"
    assert tracer.context.rank_state.ring is None
