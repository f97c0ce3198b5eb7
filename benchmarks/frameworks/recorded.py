"""What a run has recorded of a job, as the saved queries tell it."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from statistics import median
from typing import Any

from ingest.run import Run, open_run

STEPS = "SELECT * FROM step_rows WHERE dur_ns IS NOT NULL ORDER BY rank, step"

WARM = 3
"""First steps, with warm-up and imports, that coverage and micro-batches leave out."""


def recorded(folder: Path) -> dict[str, Any]:
    """Ranks, steps, layout, micro-batches, losses, tokens, coverage and cost of a run."""
    with open_run(folder) as run:
        rows = run.index_rows(STEPS)
        layout = run.layout()
        return {
            "ranks": sorted(info["rank"] for info in run.ranks),
            "world_sizes": sorted({info["world_size"] for info in run.ranks}),
            "layout": dict(layout.axes) if layout is not None else None,
            "steps": steps_by_rank(rows),
            "losses": {
                f"{r['rank']}:{r['step']}": r["loss"] for r in rows if r["loss"] is not None
            },
            "tokens": sorted({r["tokens"] for r in warmed(rows) if r["tokens"] is not None}),
            **span_facts(run),
            **cost(run, rows),
            "errors": {k: v for i in run.ranks for k, v in i["hooks"]["errors"].items()},
        }


def steps_by_rank(rows: list[dict[str, Any]]) -> dict[int, list[int]]:
    """Numbers of the finished steps of each rank."""
    found: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        found[row["rank"]].append(row["step"])
    return dict(found)


def warmed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of the steps after the first ones."""
    first = min((row["step"] for row in rows), default=0) + WARM
    return [row for row in rows if row["step"] >= first]


def span_facts(run: Run) -> dict[str, Any]:
    """Coverage of the steps after the first ones, what lies unseen, and micro-batches."""
    numbers = [row["step"] for row in run.index_rows("SELECT DISTINCT step FROM step_rows")]
    first = min(numbers, default=0) + WARM
    covered = run.ask("coverage", step_min=first).to_pylist()
    spans = run.ask("export_spans", step_min=first).to_pylist()
    microbatches: dict[tuple[int, int], set[int]] = defaultdict(set)
    for span in spans:
        if span["kind"] == "forward" and not span["recompute"]:
            microbatches[span["rank"], span["step"]].add(span["microbatch"])
    return {
        "coverage": min((row["covered_ratio"] for row in covered), default=None),
        "unseen": unseen(run, spans, first),
        "microbatches": sorted({len(seen) for seen in microbatches.values()}),
        "numbered": all(-1 not in seen or len(seen) == 1 for seen in microbatches.values()),
    }


def unseen(run: Run, spans: list[dict[str, Any]], first: int) -> list[tuple[str, float]]:
    """Longest unseen stretches of rank 0, by what lies before and after: share of its steps."""
    text = "SELECT start_ns, dur_ns FROM step_rows WHERE rank = 0 AND step >= $first"
    windows = run.index_rows(text, first=first)
    whole_ns = sum(row["dur_ns"] for row in windows)
    own = sorted((s for s in spans if s["rank"] == 0), key=lambda s: s["ts_ns"])
    lost: Counter[str] = Counter()
    for window in windows:
        at_ns, before = window["start_ns"], "begin"
        end_ns = at_ns + window["dur_ns"]
        inside = [s for s in own if s["ts_ns"] + s["dur_ns"] > at_ns and s["ts_ns"] < end_ns]
        for span in inside:
            if span["ts_ns"] > at_ns:
                lost[f"{before} to {span['kind']}"] += span["ts_ns"] - at_ns
            if span["ts_ns"] + span["dur_ns"] >= at_ns:
                at_ns, before = span["ts_ns"] + span["dur_ns"], span["kind"]
        lost[f"{before} to end"] += max(end_ns - at_ns, 0)
    return [(name, round(ns / whole_ns, 4)) for name, ns in lost.most_common(3) if whole_ns]


def cost(run: Run, steps: list[dict[str, Any]]) -> dict[str, Any]:
    """CPU time that the hooks take a step, on the rank where it is most; rows that were dropped."""
    warm = warmed(steps)
    first = min((row["step"] for row in warm), default=0)
    rows = run.ask("hook_cost", step_min=first).to_pylist()
    costs = [row["self_ms_per_step"] for row in rows if row["self_ms_per_step"] is not None]
    return {
        "step_ms": median(row["dur_ns"] for row in warm) / 1e6 if warm else None,
        "cost_ms": max(costs, default=None),
        "dropped": sum(row["dropped"] for row in rows),
    }
