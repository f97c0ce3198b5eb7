"""Checkpoint saves: torch.save and torch.distributed.checkpoint.save / async_save.

Sees: the time the calling thread is blocked; of async_save that is the staging alone. A save inside
another (the distributed one writes its files with torch.save, on threads) is part of the outer one.
Meanwhile the rank's phase is "checkpoint", so that a silent rank is known to be saving.
Misses: names bound before the hooks were started (`from torch import save`), other libraries'
savers (safetensors), and what async_save does in the background.
Costs: two guarded calls a save; see benchmarks/hook_overhead.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch

from trace_hooks.recording.guard import guarded
from trace_hooks.recording.recorder import Mark, Recorder
from trace_hooks.sources.base import Source
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.patching import Patches, around

PHASE = "checkpoint"

DISTRIBUTED = "torch.distributed.checkpoint"
DISTRIBUTED_MODULES = (DISTRIBUTED, f"{DISTRIBUTED}.state_dict_saver")
"""The public name and the module that defines the functions; users import from both."""


class _Save(NamedTuple):
    name: str
    mark: Mark
    phase: str  # before the save


class Checkpoints(Source):
    """Spans of checkpoint saves, see the module's docstring."""

    name = "checkpoint"

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self._patches = Patches()
        self._distributed = False

    def install(self) -> None:
        """Wrap torch.save, and the distributed savers where they are imported already."""
        self._wrap(torch, "save", "torch.save")
        self.step_begin()

    def uninstall(self) -> None:
        """Restore the functions."""
        self._patches.restore()
        self._distributed = False

    def step_begin(self) -> None:
        """Wrap the distributed savers once they are imported; importing them costs seconds."""
        if self._distributed or DISTRIBUTED_MODULES[-1] not in sys.modules:
            return
        self._distributed = True
        for module in DISTRIBUTED_MODULES:
            for function in ("save", "async_save"):
                self._wrap(sys.modules[module], function, f"distributed.{function}")

    def _wrap(self, owner: Any, function: str, name: str) -> None:
        self._patches.replace(owner, function, partial(_recorded, self.recorder, name))


def _recorded(recorder: Recorder, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def before(*args: Any, **kwargs: Any) -> _Save | None:
        return _begin(recorder, name)

    def after(save: _Save) -> None:
        _end(recorder, save)

    return around(original, before, after, "checkpoint.save_end")


@guarded("checkpoint.save_begin")
def _begin(recorder: Recorder, name: str) -> _Save | None:
    if recorder.rank_state.phase == PHASE:
        return None
    save = _Save(name, recorder.open(), recorder.rank_state.phase)
    recorder.rank_state.phase = PHASE
    return save


@guarded("checkpoint.save_end")
def _end(recorder: Recorder, save: _Save) -> None:
    recorder.rank_state.phase = save.phase
    recorder.close(recorder.site(save.name, "checkpoint"), save.mark)
