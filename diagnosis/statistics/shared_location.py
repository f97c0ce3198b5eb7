"""What ranks have in common: a host, a replica or a stage of which all are meant."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from diagnosis.findings import Place
from diagnosis.statistics.rank_tables import AXES, Ints, Ranks

FEWEST_OF_HOST = 3
"""Ranks of a host that are slow together for one reason; two are two slow ranks."""

_SHARED_AXES = {"pp": "pipeline stage", "dp": "replica"}


def place_of(ranks: Ranks, row: int) -> Place:
    """Rank, host and coordinates of one row."""
    coords = tuple(
        (axis, int(ranks.coords_R[axis][row])) for axis in AXES if ranks.coords_R[axis][row] >= 0
    )
    return Place(int(ranks.rank_R[row]), ranks.host_R[row], coords)


def shared_place(
    ranks: Ranks, row: int, together: npt.NDArray[np.intp]
) -> tuple[str, set[int]] | None:
    """Name and rows of a host, stage or replica of this row that is wholly among `together`.

    Places of a single rank, and places that are the whole job, do not count.
    """
    candidates = [(f"host {ranks.host_R[row]}", _of_host(ranks, row))]
    for axis, word in _SHARED_AXES.items():
        index_R = ranks.coords_R[axis]
        candidates.append((f"{word} {index_R[row]}", np.flatnonzero(index_R == index_R[row])))
    for name, members in candidates:
        if 1 < members.size < ranks.rank_R.size and np.isin(members, together).all():
            return name, set(members.tolist())
    return None


def whole_host(ranks: Ranks, row: int, together: npt.NDArray[np.intp]) -> set[int]:
    """Rows of this row's host where all of them are among `together`; empty where they are not.

    A host of fewer than three ranks or that is the whole job does not count, nor one with a rank
    whose whole replica or stage is among them: these may have more work.
    """
    members = _of_host(ranks, row)
    if (
        not FEWEST_OF_HOST <= members.size < ranks.rank_R.size
        or not np.isin(members, together).all()
    ):
        return set()
    for axis in _SHARED_AXES:
        index_R = ranks.coords_R[axis]
        for index in np.unique(index_R[members]):
            sharing = np.flatnonzero(index_R == index)
            if 1 < sharing.size < index_R.size and np.isin(sharing, together).all():
                return set()
    return set(members.tolist())


def _of_host(ranks: Ranks, row: int) -> npt.NDArray[np.intp]:
    host = ranks.host_R[row]
    if host is None:
        return np.array([row])
    return np.array([index for index, other in enumerate(ranks.host_R) if other == host])


def pipeline_ranks(ranks: Ranks, row: int) -> tuple[int, ...]:
    """Ranks of the row's pipeline group in order of the stages; only itself without a layout."""
    if ranks.coords_R["pp"][row] < 0:
        return (int(ranks.rank_R[row]),)
    same_R = np.ones(ranks.rank_R.size, np.bool_)
    for axis in ("dp", "cp", "tp"):
        same_R &= ranks.coords_R[axis] == ranks.coords_R[axis][row]
    rows = np.flatnonzero(same_R)
    ordered: Ints = ranks.rank_R[rows[np.argsort(ranks.coords_R["pp"][rows], kind="stable")]]
    return tuple(int(rank) for rank in ordered)
