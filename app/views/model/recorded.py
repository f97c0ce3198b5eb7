"""Which data of a run's model were recorded: what the page Model can show, if anything."""

from __future__ import annotations

from typing import Any

from app.views.model.tensor_levels import HEADS, STATISTICS
from ingest.run import Run
from trace_hooks.protocol.perturbations import MARK
from trace_hooks.schema import TENSORS

_TABLES = ("tensor_stats", "attention_stats", "frames")


def tables_recorded(run: Run) -> frozenset[str]:
    """Which tables of model data have rows, in any attempt."""
    rows = run.index_rows("SELECT DISTINCT table_name FROM files WHERE num_rows > 0")
    return frozenset(row["table_name"] for row in rows) & frozenset(_TABLES)


def can_record(run: Run) -> bool:
    """Whether the job is running with hooks, which could record model data."""
    return run.info["source"] == "hooks" and run.state != "finished"


def has_model(run: Run) -> bool:
    """Whether the page Model is a tab: there is something to show, or may be later."""
    return bool(tables_recorded(run)) or can_record(run) or is_perturbed(run)


def first_view(run: Run) -> str:
    """The first view of the page: one that has something to show."""
    tables = tables_recorded(run)
    if tables == {"frames"}:
        return "inspect"
    return "perturb" if not tables and is_perturbed(run) else "health"


def is_perturbed(run: Run) -> bool:
    """Whether any mark records a perturbation."""
    rows = run.index_rows("SELECT 1 FROM files WHERE num_rows > 0 AND table_name = 'marks' LIMIT 1")
    return bool(rows) and MARK in run.ask("marks").column("kind").to_pylist()


def recorded(run: Run, attempt: int | None) -> dict[str, Any]:
    """The page's choices: tensors in the model's order, and the statistics of each."""
    tables = tables_recorded(run)
    has = set()
    if "tensor_stats" in tables:
        has = set(run.ask("tensors_recorded", attempt=attempt).column("tensor").to_pylist())
    names = [name for name in TENSORS if name in has]
    if "attention_stats" in tables:
        names.append(HEADS)
    return {
        "tensors": [
            {
                "name": name,
                "statistics": [
                    statistic.to_json(name)
                    for statistic in STATISTICS.values()
                    if statistic.is_of(name)
                ],
            }
            for name in names
        ],
        "has_frames": "frames" in tables,
        "can_record": can_record(run),
    }
