"""Operations of a job as dense arrays: one op per (type, number, stage), all steps and dp ranks.

Rows come as a table with the columns of COLUMNS. Shape suffixes: see the package.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from diagnosis.whatif.optypes import OPTYPES

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

COLUMNS = {
    "step": "optimizer step",
    "dp": "index on the data-parallel axis",
    "stage": "pipeline stage",
    "rank": "global rank that stands for the cell",
    "optype": "one of OPTYPES",
    "seq": "number by start among ops of this type in the step and cell, from 0",
    "chunk": "model chunk inside the stage, from 0; -1 none",
    "start_s": "start since the step's first operation, s",
    "duration_s": "s; waiting for others included",
}
"""What `dense` reads. Times as float32 are added as float32, as the paper's artifact does."""

INSIDE = "inside_s"
"""One more column, where a source has it: how much of a duration goes to collectives over
replicas inside the op, s. The replay leaves it where it is; causes are looked for without it.
"""

LAG, RANKS = "lag_s", "ranks"
"""Two more, lists of equal length, where a cell has several ranks: how much less than the slowest
of them each needs for an op itself, s (NaN: it has no such op); and who they are (-1: nobody).
"""

_MOST_STEPS_NAMED = 5


class NotAnswerable(ValueError):
    """The operations do not allow the analysis; the message is one sentence that says why."""


@dataclass(frozen=True)
class Sizes:
    """Parallel sizes of a job. `context`: context or sequence parallel, folded into the cells."""

    dp: int
    pp: int
    context: int = 1

    def __post_init__(self) -> None:
        if min(self.dp, self.pp, self.context) < 1:
            raise ValueError(f"sizes are {self}; give whole numbers from 1")

    @property
    def has_dp_communication(self) -> bool:
        """Whether gradients are exchanged between replicas."""
        return self.dp * self.context > 1


@dataclass(frozen=True)
class Members:
    """Ranks of each cell, where they are several. `rank_PDT`: -1 where there is none; `lag_OSDT`: s
    by which each needs less than the slowest of its cell, NaN where it has no such op.
    """

    rank_PDT: Ints
    lag_OSDT: Floats


@dataclass(frozen=True)
class Operations:
    """All ops of the chosen steps. Order of ops: stage, type, number."""

    sizes: Sizes
    optypes: tuple[str, ...]
    type_O: Ints  # into optypes
    stage_O: Ints
    seq_O: Ints
    chunk_O: Ints  # model chunk inside the stage, -1 none
    step_S: Ints
    rank_PD: Ints
    start_OSD: npt.NDArray[np.floating]
    duration_OSD: npt.NDArray[np.floating]
    inside_OSD: npt.NDArray[np.floating] | None  # s, of durations; None: unknown
    reference: int  # index of the step whose dp rank 0 gives the order of ops
    notes: tuple[str, ...] = ()
    members: Members | None = None  # None: each cell is one rank, or nothing distinguishes them

    @property
    def num_chunks(self) -> int:
        """Model chunks of a stage (virtual pipeline size)."""
        return int(self.chunk_O.max(initial=0)) + 1

    @property
    def rank_PDT(self) -> Ints:
        """Global ranks of the workers: of each cell one, or all its members (-1: none)."""
        return self.rank_PD[..., None] if self.members is None else self.members.rank_PDT

    @property
    def end_OSD(self) -> npt.NDArray[np.floating]:
        """start + duration in the precision of both."""
        return self.start_OSD + self.duration_OSD

    def of_type(self, optype: str, stage: int) -> list[int]:
        """Ops of a type on a stage, by number."""
        if optype not in self.optypes:
            return []
        is_of_type = (self.type_O == self.optypes.index(optype)) & (self.stage_O == stage)
        return np.flatnonzero(is_of_type).tolist()


def dense(table: pa.Table, sizes: Sizes) -> Operations:
    """Arrays of the rows of a table (see COLUMNS).

    Steps in which some cell lacks an op, or has one more, are left out with a note. Raises
    NotAnswerable where no step is left, a cell is missing or an op type is unknown.
    """
    if table.num_rows == 0:
        raise NotAnswerable("there are no operations in any step, so nothing can be replayed")
    if table["dp"].null_count or table["stage"].null_count:
        raise NotAnswerable("operations lie on ranks whose stage or dp rank is unknown")
    step_S, step_N = _coded(table["step"])
    optypes, type_N = _coded_types(table["optype"])
    stage_N, dp_N, seq_N = (_ints(table, name) for name in ("stage", "dp", "seq"))
    _check_cells(stage_N, dp_N, sizes)
    num_seq = int(seq_N.max()) + 1
    key_N = (stage_N.astype(np.int64) * len(optypes) + type_N) * num_seq + seq_N
    del type_N
    reference = _reference(step_N, len(step_S))
    first_N = np.flatnonzero((step_N == reference) & (dp_N == 0))
    first_N = first_N[np.argsort(key_N[first_N], kind="stable")]
    key_O = key_N[first_N]
    op_of_key = np.full(sizes.pp * len(optypes) * num_seq, -1, np.int32)
    op_of_key[key_O] = np.arange(len(key_O))
    op_N = op_of_key[key_N]
    del key_N
    cells = len(step_S) * sizes.dp
    at_N = op_N.astype(np.int64) * cells + step_N * sizes.dp + dp_N
    shape = (len(key_O), len(step_S), sizes.dp)
    fits_S, at_N, rows = _fitting(step_N, op_N, at_N, shape)
    start_OSD = _spread(table, "start_s", rows, at_N, shape)
    duration_OSD = _spread(table, "duration_s", rows, at_N, shape)
    inside_OSD = None
    if INSIDE in table.column_names:
        inside_OSD = _spread(table, INSIDE, rows, at_N, shape)[:, fits_S]
    members = _members(table, (stage_N, dp_N), rows, at_N, shape, fits_S, sizes)
    notes = _notes(step_S, fits_S)
    if not fits_S.all():
        start_OSD, duration_OSD = start_OSD[:, fits_S], duration_OSD[:, fits_S]
    typed_O, seq_O = np.divmod(key_O, num_seq)
    stage_O, coded_O = np.divmod(typed_O, len(optypes))
    used, type_O = np.unique(coded_O, return_inverse=True)  # others only in steps left out
    return Operations(
        sizes,
        tuple(optypes[code] for code in used),
        type_O,
        stage_O,
        seq_O,
        np.asarray(table["chunk"].take(pa.array(first_N)), np.int64),
        step_S[fits_S],
        _ranks(table, stage_N, dp_N, sizes),
        start_OSD,
        duration_OSD,
        inside_OSD,
        min(int(fits_S[:reference].sum()), int(fits_S.sum()) - 1),
        notes,
        members,
    )


def _ints(table: pa.Table, name: str) -> npt.NDArray[np.int32]:
    return np.asarray(table[name].to_numpy(), np.int32)


def _coded(column: pa.ChunkedArray) -> tuple[Ints, npt.NDArray[np.int32]]:
    """Distinct values ascending, and each row's index; hashed, since sorting all rows is slow."""
    coded = column.combine_chunks().dictionary_encode()
    values = np.asarray(coded.dictionary, np.int64)
    order = np.argsort(values)
    place = np.empty(len(values), np.int32)
    place[order] = np.arange(len(values))
    return values[order], place[np.asarray(coded.indices)]


def _coded_types(column: pa.ChunkedArray) -> tuple[tuple[str, ...], npt.NDArray[np.int32]]:
    """Types that occur, in the order of OPTYPES, and the index of each row's."""
    coded = column.combine_chunks()
    if not pa.types.is_dictionary(coded.type):
        coded = coded.dictionary_encode()
    if coded.null_count:
        raise NotAnswerable(
            f"{coded.null_count} operations are of a type the analysis does not know; it knows "
            f"{', '.join(OPTYPES)}"
        )
    texts = coded.dictionary.to_pylist()
    used = pc.unique(coded.indices).to_pylist()
    unknown = sorted({str(texts[code]) for code in used if texts[code] not in OPTYPES})
    if unknown:
        raise NotAnswerable(f"operations of unknown types: {', '.join(map(repr, unknown[:5]))}")
    optypes = sorted((texts[code] for code in used), key=OPTYPES.index)
    place = np.array([optypes.index(t) if t in optypes else -1 for t in texts], np.int32)
    return tuple(optypes), place[np.asarray(coded.indices)]


def _check_cells(stage_N: npt.NDArray[np.int32], dp_N: npt.NDArray[np.int32], sizes: Sizes) -> None:
    low, high_stage, high_dp = min(stage_N.min(), dp_N.min()), stage_N.max(), dp_N.max()
    if low < 0 or high_stage >= sizes.pp or high_dp >= sizes.dp:
        raise NotAnswerable(
            f"operations lie on stages up to {high_stage} and dp ranks up to {high_dp}, but the "
            f"layout has {sizes.pp} stages and {sizes.dp} dp ranks"
        )
    seen = np.bincount(stage_N * np.int32(sizes.dp) + dp_N, minlength=sizes.pp * sizes.dp)
    if not seen.all():
        stage, dp = divmod(int(np.argmin(seen)), sizes.dp)
        raise NotAnswerable(
            f"{int((seen == 0).sum())} of {seen.size} cells have no operations, first stage "
            f"{stage} of dp rank {dp}; the replay needs all of them"
        )


def _reference(step_N: npt.NDArray[np.int32], num_steps: int) -> int:
    """First step with as many operations as most steps have."""
    count_S = np.bincount(step_N, minlength=num_steps)
    counts, times = np.unique(count_S, return_counts=True)
    return int(np.argmax(count_S == counts[np.argmax(times)]))


def _fitting(
    step_N: npt.NDArray[np.int32],
    op_N: npt.NDArray[np.int32],
    at_N: Ints,
    shape: tuple[int, int, int],
) -> tuple[Bools, Ints, Bools | None]:
    """Steps that have every op once in every cell, places of the known rows, which those are."""
    num_ops, num_steps, num_dp = shape
    known_N = op_N >= 0
    rows = None if known_N.all() else known_N
    fits_S = np.ones(num_steps, np.bool_)
    if rows is not None:
        fits_S[np.unique(step_N[~known_N])] = False
        at_N = at_N[known_N]
    seen = np.zeros(num_ops * num_steps * num_dp, np.uint8)
    seen[at_N] = 1
    fits_S &= seen.reshape(shape).all(axis=(0, 2))
    count_S = np.bincount(step_N, minlength=num_steps)
    fits_S &= count_S == num_ops * num_dp
    if not fits_S.any():
        raise NotAnswerable(
            "in no step do all cells of a stage have the same operations, so no common graph of "
            "dependencies exists"
        )
    return fits_S, at_N, rows


def _spread(
    table: pa.Table, name: str, rows: Bools | None, at_N: Ints, shape: tuple[int, ...]
) -> npt.NDArray[np.floating]:
    values = table[name].to_numpy()
    values = values if rows is None else values[rows]
    spread = np.zeros(shape, values.dtype)
    spread.reshape(-1)[at_N] = values
    if not np.isfinite(spread).all():
        raise NotAnswerable(f"some operations have no finite {name}")
    return spread


def _ranks(
    table: pa.Table, stage_N: npt.NDArray[np.int32], dp_N: npt.NDArray[np.int32], sizes: Sizes
) -> Ints:
    rank_PD = np.full((sizes.pp, sizes.dp), -1, np.int64)
    rank_PD[stage_N, dp_N] = table["rank"].to_numpy()
    return rank_PD


def _members(
    table: pa.Table,
    cell_N: tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]],
    rows: Bools | None,
    at_N: Ints,
    shape: tuple[int, int, int],
    fits_S: Bools,
    sizes: Sizes,
) -> Members | None:
    """The lists of LAG and RANKS as arrays; None where the table has none."""
    if LAG not in table.column_names:
        return None
    lag_NT, rank_NT = (_lists(table[name]) for name in (LAG, RANKS))
    num_members = lag_NT.shape[1]
    rank_PDT = np.full((sizes.pp, sizes.dp, num_members), -1, np.int64)
    rank_PDT[cell_N] = rank_NT
    lag = np.full((math.prod(shape), num_members), np.nan)
    lag[at_N] = lag_NT if rows is None else lag_NT[rows]
    return Members(rank_PDT, lag.reshape(*shape, num_members)[:, fits_S])


def _lists(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    """A column of lists of equal length, one row each."""
    values: npt.NDArray[Any] = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return values.reshape(len(column), -1)


def _notes(step_S: Ints, fits_S: Bools) -> tuple[str, ...]:
    left_out = step_S[~fits_S].tolist()
    if not left_out:
        return ()
    named = ", ".join(map(str, left_out[:_MOST_STEPS_NAMED]))
    more = ", ..." if len(left_out) > _MOST_STEPS_NAMED else ""
    return (
        f"{len(left_out)} of {len(step_S)} steps are left out, because their cells have other "
        f"operations than most: {named}{more}",
    )
