"""Transfers of StragglerAnalysis traces, whose operations stand for cells of a stage and a replica.

Which sends and receives belong together, and what of each is waiting, is the what-if analysis'
matter (diagnosis/whatif); here its transfers become channels, as those of recorded collectives are.
Times of such a trace count from the first operation of each step, for all cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from diagnosis.statistics.rank_tables import Floats, Ranks
from diagnosis.statistics.straggler_cells import CELLS, straggler_cells
from diagnosis.statistics.transfer_times import QUESTIONS as OF_COLLECTIVES
from diagnosis.statistics.transfer_times import (
    Channel,
    Transfers,
    comparable_sets,
    steps_of,
    transfers_of,
)
from diagnosis.whatif.analysis import Prepared
from diagnosis.whatif.optypes import BACKWARD_SEND, FORWARD_SEND

QUESTIONS = (*OF_COLLECTIVES, CELLS)


def known_transfers(tables: Mapping[str, pa.Table]) -> Transfers:
    """Transfers of recorded collectives; of cells where those are not known."""
    transfers = transfers_of(tables)
    if np.isfinite(transfers.time_KS).any():
        return transfers
    cells = straggler_cells(tables, transfers.ranks)
    return transfers if cells is None else _of_cells(tables, transfers.ranks, cells.prepared)


def _of_cells(tables: Mapping[str, pa.Table], ranks: Ranks, prepared: Prepared) -> Transfers:
    channels, times = [], []
    row_of = {int(rank): row for row, rank in enumerate(ranks.rank_R)}
    for axis, cells, time_NS in (*_links(prepared), *_networks(prepared)):
        rows = tuple(row_of[rank] for rank in cells if rank in row_of)
        channels.append(Channel(cells, axis, axis == "pp", frozenset(), rows))
        times.append(time_NS * 1e3)
    step_S = prepared.ops.step_S
    known, window_S = steps_of(tables)
    shape = (len(channels), step_S.size)
    num_KS = np.array([[len(time_NS)] for time_NS in times], np.float64).reshape(-1, 1)
    time_KS = np.array([time_NS.mean(axis=0) for time_NS in times]).reshape(shape)
    unknown_KS = np.full(shape, np.nan)
    return Transfers(
        ranks,
        step_S,
        window_S[np.searchsorted(known, step_S)],
        tuple(channels),
        np.where(time_KS > 0, time_KS, np.nan),
        np.broadcast_to(num_KS, shape),
        np.array([time_NS.max(axis=0) for time_NS in times]).reshape(shape),
        unknown_KS,
        comparable_sets(channels, np.broadcast_to(num_KS, shape), unknown_KS),
        CELLS,
    )


def _links(prepared: Prepared) -> Iterator[tuple[str, tuple[int, ...], Floats]]:
    """Transfers between two stages of a replica: the longer of both sides, s."""
    ops, own_OSD = prepared.ops, prepared.own_OSD
    over: dict[tuple[int, int], list[Floats]] = {}
    for node in prepared.graph.nodes:
        if len(node.ops) == 2 and ops.optypes[ops.type_O[node.ops[0]]] in (
            FORWARD_SEND,
            BACKWARD_SEND,
        ):
            low, high = sorted(int(ops.stage_O[op]) for op in node.ops)
            over.setdefault((low, high), []).append(np.maximum(*own_OSD[list(node.ops)]))
    for stages, pairs in sorted(over.items()):
        time_NSD = np.array(pairs)
        for dp in range(ops.sizes.dp):
            ranks = tuple(sorted(int(ops.rank_PD[stage, dp]) for stage in stages))
            yield "pp", ranks, time_NSD[:, :, dp]


def _networks(prepared: Prepared) -> Iterator[tuple[str, tuple[int, ...], Floats]]:
    """Collectives over the replicas of a stage, s."""
    ops, own_OSD = prepared.ops, prepared.own_OSD
    members: dict[int, list[int]] = {}
    for node in prepared.graph.nodes:
        stages = {int(ops.stage_O[op]) for op in node.ops}
        if node.over_dp and len(stages) == 1:
            members.setdefault(stages.pop(), []).extend(node.ops)
    for stage, of_stage in sorted(members.items()):
        if ops.sizes.dp > 1:
            yield "dp", tuple(ops.rank_PD[stage].tolist()), own_OSD[of_stage].mean(axis=2)
