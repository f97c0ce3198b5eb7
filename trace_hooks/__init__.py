"""Lightweight hooks that record in Parquet files what a training job does.

>>> import trace_hooks as th
>>> tracer = th.start("runs")                         # doctest: +SKIP
>>> with tracer.step(): ...                           # doctest: +SKIP
>>> tracer.stop()                                     # doctest: +SKIP

Importing this package costs nothing: torch is never imported by it, pyarrow only by `start`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trace_hooks.layout import ParallelLayout
from trace_hooks.version import __version__

if TYPE_CHECKING:
    from trace_hooks.tracer import Tracer

__all__ = ["ParallelLayout", "Tracer", "__version__", "start", "transform"]


def start(
    folder: str | Path | None = None,
    *,
    run: str | None = None,
    model: Any = None,
    layout: ParallelLayout | Mapping[str, int] | str | Any | None = None,
    level: str | None = None,
    sources: Sequence[str] | None = None,
    statistics: int | None = None,
    allow_content: bool | None = None,
    allow_perturbation: bool | None = None,
) -> Tracer:
    """Start recording this process; a second call returns the tracer that is already running.

    `folder`: where runs are kept, one folder each (default TRACE_HOOKS_FOLDER, else "runs").
    `run`: the run's name (default TRACE_HOOKS_RUN, else the scheduler's job id, else made up).
    `model`: a torch module to watch, or a dict that describes the model in run.json.
    `layout`: a ParallelLayout, a DeviceMesh, axis sizes slowest first ({"pp": 2, "dp": 2, "tp": 2}
    or "pp=2,dp=2,tp=2"); None detects it where it can be known.
    `level`: steps | blocks | layers (default), how much of each model is recorded.
    `sources`: names of sources to record (trace_hooks.source_names lists them), or with a leading
    "-" to leave out.
    `statistics`: record statistics of the model's tensors every so many steps; 0: never.
    `allow_content`: let `tracer.inspect` and the dashboard capture values of tensors (attention,
    activations, logits, weights); False (default) refuses that.
    `allow_perturbation`: let `tracer.perturb` and the dashboard change weights and activations for
    some steps; False (default) refuses that.

    Raises ValueError for an invalid folder, level, source, run name, layout or interval; never for
    what the environment lacks (a writable folder, torch). TRACE_HOOKS=0 returns a tracer that does
    nothing.
    """
    from trace_hooks import active_tracer

    return active_tracer.start(
        model,
        folder=folder,
        run=run,
        layout=layout,
        level=level,
        sources=sources,
        statistics=statistics,
        allow_content=allow_content,
        allow_perturbation=allow_perturbation,
    )


def transform(name: str) -> AbstractContextManager[None]:
    """Marks a part of a dataset's work, such as decoding, in a data loader's worker.

    >>> with transform("tokenize"):                   # doctest: +SKIP
    ...     tokens = tokenizer(text)

    What a worker spends in it is recorded with each fetch (table loader_fetches). Elsewhere, and
    without tracing, it does nothing.
    """
    from trace_hooks.sources.training.worker_fetches import transform

    return transform(name)


def __getattr__(name: str) -> Any:
    if name == "Tracer":
        from trace_hooks.tracer import Tracer

        return Tracer
    from trace_hooks.integrations import FRAMEWORKS, load

    if name in FRAMEWORKS:
        return load(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
