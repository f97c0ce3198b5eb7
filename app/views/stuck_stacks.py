"""What ranks do: groups of ranks with equal stacks, one tree of all stacks, groups on the grid."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa

from diagnosis.statistics.natural_order import natural
from diagnosis.stuck.evidence import Look
from diagnosis.stuck.stacks import alike, is_users, users_frame, without_line
from diagnosis.stuck.text import named

MOST_GROUPS = 26
"""Groups that have a letter and a colour of their own: the smallest; others are left out."""

_MOST_CELLS = 256
"""Ranks with a cell each; of more ranks, equal neighbours share one."""
_MOST_ROWS, _ROW_RANKS = 64, 16
_MOST_BRANCHES, _DEEPEST = 32, 24

_WITHOUT_STACK = {
    "T": "stopped by a signal",
    "t": "held by a debugger",
    "Z": "ended",
    "gone": "gone",
    "D": "in a call of the kernel",
}


@dataclass(frozen=True)
class StackGroup:
    """Ranks that stand at the same place. `frames`: innermost first; () where no stack is known."""

    ranks: tuple[int, ...]
    activity: str
    frames: tuple[str, ...]


def stack_groups(looks: Mapping[int, Look]) -> list[StackGroup]:
    """The smallest group first; ranks without a stack by the state of their process."""
    groups = [
        StackGroup(one.ranks, one.activity, _all_lines([looks[rank].stack for rank in one.ranks]))
        for one in alike({rank: look.stack for rank, look in looks.items()})
    ]
    by_state = defaultdict[str, list[int]](list)
    for rank, look in sorted(looks.items()):
        if not look.stack:
            by_state[_WITHOUT_STACK.get(look.process, "unknown, no stack was read")].append(rank)
    groups += [StackGroup(tuple(ranks), what, ()) for what, ranks in by_state.items()]
    return sorted(groups, key=lambda group: (len(group.ranks), group.ranks))


def _all_lines(stacks: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """One stack of several that are equal but for their line numbers."""
    return tuple(_frame(frames)["text"] for frames in zip(*stacks, strict=True))


def groups_as_plain(groups: Sequence[StackGroup]) -> tuple[dict[str, Any], ...]:
    """The first MOST_GROUPS, for JSON."""
    return tuple(
        {
            "ranks": named(group.ranks),
            "num_ranks": len(group.ranks),
            "activity": group.activity,
            "where": users_frame(group.frames),
            "frames": list(group.frames),
        }
        for group in groups[:MOST_GROUPS]
    )


def merged_stacks(looks: Mapping[int, Look]) -> tuple[dict[str, Any], ...]:
    """All stacks as one tree from the outermost frame, without line numbers: the branch that the
    fewest ranks take comes first. Frames that all ranks of a branch share stand together.
    """
    stacks = {rank: look.stack[::-1] for rank, look in sorted(looks.items()) if look.stack}
    return _branches(stacks, 0)


def _branches(stacks: Mapping[int, tuple[str, ...]], depth: int) -> tuple[dict[str, Any], ...]:
    by_frame = defaultdict[str, dict[int, tuple[str, ...]]](dict)
    for rank, frames in stacks.items():
        if len(frames) > depth:
            by_frame[without_line(frames[depth])][rank] = frames
    parts = sorted(by_frame.values(), key=lambda part: (len(part), min(part)))
    return tuple(_branch(part, depth) for part in parts[:_MOST_BRANCHES])


def _branch(stacks: Mapping[int, tuple[str, ...]], depth: int) -> dict[str, Any]:
    end = depth + 1
    while _are_equal(frames[end : end + 1] for frames in stacks.values()):
        end += 1
    frames = [_frame([frames[at] for frames in stacks.values()]) for at in range(depth, end)]
    branches = _branches(stacks, end) if end < _DEEPEST else ()
    ranks = sorted(stacks)
    return {"ranks": named(ranks), "num_ranks": len(ranks), "frames": frames, "branches": branches}


def _are_equal(nexts: Iterable[tuple[str, ...]]) -> bool:
    """Whether all go on, into the same frame."""
    different = {tuple(map(without_line, one)) for one in nexts}
    return len(different) == 1 and different != {()}


def _frame(frames: Sequence[str]) -> dict[str, Any]:
    """One frame of several ranks: 'function file:12, 31'."""
    lines = sorted({frame.rpartition(":")[2] for frame in frames}, key=lambda text: text.zfill(9))
    text = f"{without_line(frames[0])}:{', '.join(lines[:4])}{', ..' if len(lines) > 4 else ''}"
    return {"text": text, "is_users": is_users(frames[0])}


def grid_rows(groups: Sequence[StackGroup], places: pa.Table) -> tuple[dict[str, Any], ...]:
    """Rows of the grid of ranks with the group of each cell; None where the rank has none.

    A row is a pipeline stage, else a host, else some ranks. A cell is a rank, in large jobs equal
    neighbours: {rank, num_ranks, group}.
    """
    of_rank = {rank: index for index, one in enumerate(groups) for rank in one.ranks}
    of_rank = {rank: index for rank, index in of_rank.items() if index < MOST_GROUPS}
    rows = sorted(places.to_pylist(), key=lambda row: row["rank"])
    place_of = _row_places(rows)
    by_row = defaultdict[tuple[int, str], list[int]](list)
    for row in rows:
        by_row[place_of(row)].append(row["rank"])
    is_large = len(rows) > _MOST_CELLS
    return tuple(
        {"name": name, "cells": list(_cells(ranks, of_rank, is_large))}
        for (_, name), ranks in sorted(by_row.items())[:_MOST_ROWS]
    )


def _row_places(
    rows: Sequence[Mapping[str, Any]],
) -> Callable[[Mapping[str, Any]], tuple[int, str]]:
    """Of a rank: where its row comes, and the row's name."""
    if len({row["pp"] for row in rows} - {None}) > 1:
        last = max(row["pp"] for row in rows if row["pp"] is not None) + 1
        return lambda row: (last, "pp ?") if row["pp"] is None else (row["pp"], f"pp {row['pp']}")
    hosts = {row["host"] for row in rows}
    if 1 < len(hosts) <= _MOST_ROWS and all(hosts):
        order = {host: number for number, host in enumerate(sorted(hosts, key=natural))}
        return lambda row: (order[row["host"]], str(row["host"]))
    wide = max(_ROW_RANKS, -(-len(rows) // _MOST_ROWS))
    return lambda row: (row["rank"] // wide, f"from rank {row['rank'] // wide * wide}")


def _cells(
    ranks: Sequence[int], of_rank: Mapping[int, int], is_large: bool
) -> Iterable[dict[str, Any]]:
    if not is_large:
        for rank in ranks:
            yield {"rank": rank, "num_ranks": 1, "group": of_rank.get(rank)}
        return
    for group, members in groupby(ranks, key=of_rank.get):
        alike_ranks = list(members)
        yield {"rank": alike_ranks[0], "num_ranks": len(alike_ranks), "group": group}
