"""Members of a group that entered the same instance with another operation, dtype or size.

The majority decides who is wrong; of two members that differ both are named, since which one is
wrong is not known. What lies in the program's logic (a group whose members issue their collectives
in another order) shows as another operation, too.

Source: PyTorch's fr_trace compares the same fields. Sizes are compared where all members give
equally much; those of all_to_all, gather and scatter may differ.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from diagnosis.stuck.evidence import COMPLETED, Entered, Evidence
from diagnosis.stuck.stacks import communicates

EQUAL_SIZES = ("all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter")

_FIELDS = (("op", "mismatched_op"), ("dtype", "mismatched_dtype"), ("num_bytes", "mismatched_size"))


@dataclass(frozen=True)
class Mismatch:
    """`ranks` entered `seq` with `theirs`, the others (`others`) with `usual`. `is_pair`: each of
    two members may be wrong, and both are named. `is_whole`: no member's entry is missing that
    could turn the majority.
    """

    kind: str
    group_id: int
    seq: int
    op: str
    ranks: tuple[int, ...]
    others: tuple[int, ...]
    theirs: str
    usual: str
    is_pair: bool
    since_ns: int
    is_whole: bool = True

    @property
    def culprits(self) -> tuple[int, ...]:
        """Who is blamed: nobody where other members of the group would have to decide."""
        return self.ranks if self.is_whole or not self.is_pair else ()


def mismatches_of(evidence: Evidence) -> list[Mismatch]:
    """One per group at most: the first instance that differs; the oldest first."""
    found = [_in_group(group_id, evidence) for group_id in evidence.entered]
    return sorted((one for one in found if one), key=lambda one: one.since_ns)


def is_of_threads(mismatch: Mismatch, evidence: Evidence) -> bool:
    """Whether members entered the same two operations in another order, from two threads each."""
    if mismatch.kind != "mismatched_op" or not mismatch.others:
        return False
    ranks = (*mismatch.ranks, *mismatch.others)
    looks = [evidence.looks.get(rank) for rank in ranks]
    if not all(look and any(map(communicates, look.threads)) for look in looks):
        return False
    by_rank = evidence.entered[mismatch.group_id]
    opened = [{one.op for one in by_rank[r] if one.seq >= mismatch.seq} for r in ranks]
    return all({mismatch.theirs, mismatch.usual} <= ops for ops in opened)


def _in_group(group_id: int, evidence: Evidence) -> Mismatch | None:
    num_members = len(evidence.members(group_id))
    by_seq: dict[int, dict[int, Entered]] = {}
    for rank, rows in evidence.entered[group_id].items():
        for one in rows:
            if not one.is_message:
                by_seq.setdefault(one.seq, {})[rank] = one
    for seq in sorted(by_seq):
        members = by_seq[seq]
        if len(members) < 2 or all(one.state == COMPLETED for one in members.values()):
            continue
        for name, kind in _FIELDS:
            if mismatch := _of_field(group_id, seq, members, name, kind):
                most = 1 if mismatch.is_pair else len(mismatch.others)
                return replace(mismatch, is_whole=2 * most >= num_members)
    return None


def _of_field(
    group_id: int, seq: int, members: dict[int, Entered], name: str, kind: str
) -> Mismatch | None:
    if name == "num_bytes" and any(one.op not in EQUAL_SIZES for one in members.values()):
        return None
    values = {rank: getattr(one, name) for rank, one in members.items()}
    known = {rank: value for rank, value in values.items() if value not in ("", -1)}
    counts = Counter(known.values()).most_common()
    if len(counts) < 2:
        return None
    (usual, most), (_, second) = counts[0], counts[1]
    if most == second and len(known) > 2:
        return None  # halves differ: there is no majority
    is_pair = most == second
    ranks = tuple(sorted(r for r, value in known.items() if is_pair or value != usual))
    others = tuple(sorted(known.keys() - set(ranks)))
    theirs = sorted({_in_words(name, known[rank]) for rank in ranks})
    since_ns = min(one.enqueue_ns for one in members.values())
    op = members[(others or ranks)[0]].op
    text = _in_words(name, usual)
    return Mismatch(
        kind, group_id, seq, op, ranks, others, " and ".join(theirs), text, is_pair, since_ns
    )


def _in_words(name: str, value: object) -> str:
    return f"{value:,} bytes" if name == "num_bytes" else str(value)
