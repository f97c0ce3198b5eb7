"""Collectives of a group of one rank, and sources of communication that see them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist

from trace_hooks.recording.recorder import Recorder
from trace_hooks.sources.context import SourceContext


def installed(kind: Any, recorder: Recorder) -> Iterator[Any]:
    source = kind(SourceContext(recorder, None))  # type: ignore[arg-type]
    source.install()
    yield source
    source.uninstall()


def all_reduce(count: int = 1, **kwargs: Any) -> Any:
    for _ in range(count):
        work = dist.all_reduce(torch.ones(4), **kwargs)
    return work
