"""docs/adding-a-source.md holds: its module and one line are a source, its tests pass."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import trace_hooks.sources.training
from tests.guide_examples import added_entry, added_module, example
from tests.trace_hooks.tiny_models import tracing
from trace_hooks.recording import guard
from trace_hooks.settings import chosen_sources
from trace_hooks.sources import SOURCES

GUIDE = "adding-a-source.md"


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The guide's module, and its line in SOURCES."""
    code = example(GUIDE, "class Fsync(Source)")
    monkeypatch.setitem(SOURCES, "fsync", added_entry(GUIDE, "fsync"))
    with added_module(trace_hooks.sources.training, "fsync", code, tmp_path / "sources"):
        yield
    for name in [name for name in guard.HOOKS if name.startswith("fsync.")]:
        del guard.HOOKS[name]


@pytest.mark.usefixtures("added")
def test_the_tests_of_the_guide_pass(tmp_path: Path) -> None:
    names: dict[str, Any] = {"os": os, "pytest": pytest, "Path": Path, "tracing": tracing}
    exec(example(GUIDE, "def test_a_call_is_a_span"), names)
    names["test_a_call_is_a_span"](tmp_path)
    names["test_an_error_of_the_call_passes_unchanged"]()
    names["test_the_function_is_restored"]()


@pytest.mark.usefixtures("added")
def test_settings_choose_it_by_its_name() -> None:
    assert chosen_sources(["fsync"]) == ("fsync",)
    assert "fsync" not in chosen_sources(["-fsync"])


@pytest.mark.usefixtures("added")
def test_a_hook_of_it_that_fails_is_off_and_the_call_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_arguments: object) -> None:
        raise RuntimeError("planted")

    with tracing("fsync", errors=True) as traced, (tmp_path / "x").open("w") as file:
        monkeypatch.setitem(guard.HOOKS, "fsync.begin", failing)
        os.fsync(file.fileno())
        os.fsync(file.fileno())
        assert "fsync.begin" in guard.disabled
    assert traced.spans() == []
    assert "trace_hooks.sources.training.fsync" in sys.modules
