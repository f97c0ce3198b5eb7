"""Which ranks are the lanes of a timeline, and what each is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.view_state import MOST_RANKS
from ingest.errors import UserError

MOST_AT_ONCE = 64
"""Lanes of one answer; the browser asks for those in sight."""
CHOICES = ("default", "pipeline", "tp", "dp", "host", "all")
_AXES = ("pp", "dp", "cp", "tp")


@dataclass(frozen=True)
class Place:
    """One rank of an attempt; coordinates are None where unknown."""

    rank: int
    host: str | None
    pp: int | None
    dp: int | None
    cp: int | None
    tp: int | None
    shift_min_ns: int | None
    """least offset of its clock, None not aligned"""
    shift_max_ns: int | None
    err_ns: int | None

    @property
    def label(self) -> str:
        """`r5 pp1 dp0 tp1`; only what is known."""
        known = [
            f"{axis}{getattr(self, axis)}" for axis in _AXES if getattr(self, axis) is not None
        ]
        return " ".join([f"r{self.rank}", *known])

    def shares(self, other: Place, *axes: str) -> bool:
        """Whether both are known to be at the same place on these axes."""
        return all(
            getattr(self, axis) is not None and getattr(self, axis) == getattr(other, axis)
            for axis in axes
        )


def choose(places: Mapping[int, Place], choice: str, rank: int | None) -> list[int]:
    """Ranks of a named choice of lanes around `rank`, in drawing order; raises UserError.

    default: the pipeline of `rank` and the TP peers of its stage; without a rank all of a small
    job, else the first. Where the layout is unknown every choice is all.
    """
    if choice not in CHOICES:
        raise UserError(
            f"lanes={choice!r} is not a choice of lanes; give one of {', '.join(CHOICES)}"
        )
    if not places:
        raise UserError("this attempt has no ranks (yet); take the attempt out of the link")
    if rank is None and choice != "all":
        if choice == "default":
            return sorted(places)[:MOST_AT_ONCE]
        raise UserError(f"lanes={choice} needs a rank; select one first")
    if rank is not None and rank not in places:
        raise UserError(_unknown_ranks([rank], places))
    if choice == "all" or rank is None:
        return sorted(places)[:MOST_RANKS]
    if choice == "host":
        return _of_host(places, places[rank])
    return _around(places, choice, places[rank])


def _of_host(places: Mapping[int, Place], own: Place) -> list[int]:
    if not own.host:
        raise UserError(f"the host of rank {own.rank} is not recorded; choose other lanes")
    return sorted(place.rank for place in places.values() if place.host == own.host)


def _around(places: Mapping[int, Place], choice: str, own: Place) -> list[int]:
    def sharing(*axes: str) -> list[int]:
        known = tuple(axis for axis in axes if getattr(own, axis) is not None)
        found = [p for p in places.values() if known and own.shares(p, *known)]
        return [p.rank for p in sorted(found, key=lambda p: (p.pp or 0, p.dp or 0, p.rank))]

    pipeline, tp_peers = sharing("dp", "cp", "tp"), sharing("pp", "dp", "cp")
    both = sorted({*pipeline, *tp_peers}, key=lambda rank: (places[rank].pp or 0, rank))
    dp_peers = sharing("pp", "cp", "tp")
    chosen = {"pipeline": pipeline, "tp": tp_peers, "dp": dp_peers, "default": both}[choice]
    return chosen or sorted(places)[:MOST_AT_ONCE]


def known(places: Mapping[int, Place], ranks: Sequence[int]) -> list[int]:
    """The ranks that exist; raises UserError where none does."""
    found = [rank for rank in ranks if rank in places]
    if not found:
        raise UserError(_unknown_ranks(ranks, places))
    return found


def _unknown_ranks(ranks: Sequence[int], places: Mapping[int, Place]) -> str:
    named = ", ".join(str(rank) for rank in ranks[:8]) + (", ..." if len(ranks) > 8 else "")
    has = f"ranks {min(places)} to {max(places)}" if places else "no ranks yet"
    what = "is no rank" if len(ranks) == 1 else "are no ranks"
    return f"there {what} {named} in this attempt; it has {has}"
