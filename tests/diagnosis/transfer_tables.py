"""Answers of the questions about transfers, built by hand: every group and link of a layout."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pyarrow as pa

from tests.diagnosis.answer_schema import answer_schema
from tests.diagnosis.work_tables import phase_tables
from trace_hooks.layout import ParallelLayout

Factor = Callable[[str, tuple[int, ...], int], float]
"""(axis or `link`, ranks, step) -> how many times as long as usual transfers take"""

USUAL_MS = {"tp": 0.8, "dp": 40.0, "world": 0.3, "link": 0.5}
NUM = {"tp": 32, "dp": 1, "world": 1, "link": 16}
STEP_MS = 200.0


def transfer_tables(
    layout: ParallelLayout,
    num_steps: int,
    factor: Factor,
    *,
    seed: int = 1,
    noise: float = 0.03,
    ranks_per_host: int = 8,
    step_ms: Callable[[int], float] = lambda step: STEP_MS,
) -> dict[str, pa.Table]:
    """Answers of transfers, groups, rank_places and rank_phases; noise: sigma of the logarithm."""
    random = np.random.default_rng(seed)
    world = tuple(range(layout.world_size))
    channels = [
        (axis, tuple(ranks))
        for axis in ("tp", "dp")
        if layout.size(axis) > 1
        for ranks in layout.groups(axis)
    ]
    pipelines = [tuple(ranks) for ranks in layout.groups("pp")] if layout.size("pp") > 1 else []
    links = [pair for ranks in pipelines for pair in pairwise(ranks)]
    groups = [*channels, ("world", world), *(("pp", ranks) for ranks in pipelines)]
    number = {one: at for at, one in enumerate(groups)}
    rows = []
    for axis, ranks in [*channels, ("world", world), *(("link", pair) for pair in links)]:
        is_link = axis == "link"
        group = next(("pp", p) for p in pipelines if ranks[0] in p) if is_link else (axis, ranks)
        for step in range(num_steps):
            one_ms = USUAL_MS[axis] * factor(axis, ranks, step)
            one_ms *= float(np.exp(random.normal(0, noise)))
            rows.append(
                {
                    "group_id": number[group],
                    "rank": ranks[0] if is_link else -1,
                    "peer": ranks[1] if is_link else -1,
                    "step": step,
                    "num_instances": NUM[axis],
                    "num_bytes": 1 << 20,
                    "transfer_ms": one_ms * NUM[axis],
                    "longest_ms": one_ms * 1.1,
                    "wait_ms": 2.0,
                }
            )
    phases = phase_tables(
        layout,
        num_steps,
        lambda rank, step: {"step_ms": step_ms(step)},
        ranks_per_host=ranks_per_host,
    )
    group_rows = [
        {"group_id": at, "axis": axis, "ranks": ranks} for (axis, ranks), at in number.items()
    ]
    return {
        **phases,
        "transfers": pa.Table.from_pylist(rows, _TRANSFERS),
        "groups": pa.Table.from_pylist(group_rows, _GROUPS),
    }


_TRANSFERS = answer_schema(
    "group_id BIGINT, rank INTEGER, peer INTEGER, step BIGINT, num_instances BIGINT, "
    "num_bytes BIGINT, transfer_ms DOUBLE, longest_ms DOUBLE, wait_ms DOUBLE"
)
_GROUPS = answer_schema("group_id BIGINT, axis VARCHAR, ranks INTEGER[]")
