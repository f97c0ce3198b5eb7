"""What a stuck job is said to be, in sentences: the same on the page and in the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from diagnosis.stuck.causes import Cause
from diagnosis.stuck.evidence import Evidence
from diagnosis.stuck.left_early import Left
from diagnosis.stuck.mismatches import Mismatch
from diagnosis.stuck.stacks import users_frame
from diagnosis.stuck.waiting import Wait, Waiting

_MOST_NAMED = 8

_TITLES = {
    "hung_rank": "{who} hung",
    "missing_rank": "{who} missing from {op}",
    "data_stalled": "{who} without data",
    "stalled_storage": "{who} stuck in storage",
}


def named(ranks: Sequence[int]) -> str:
    """rank 5; ranks 1, 2 and 3; ranks 1, 2, .. and 12 more; '' for none."""
    shown = [str(rank) for rank in ranks[:_MOST_NAMED]]
    if not ranks:
        return ""
    if len(ranks) == 1:
        return f"rank {shown[0]}"
    if len(ranks) > _MOST_NAMED:
        return f"ranks {', '.join(shown)} and {len(ranks) - _MOST_NAMED} more"
    return f"ranks {', '.join(shown[:-1])} and {shown[-1]}"


def counted(ranks: Sequence[int]) -> str:
    """Up to three ranks by name, more by their number."""
    return named(ranks) if len(ranks) <= 3 else f"{len(ranks):,} ranks"


def waits_text(wait: Wait, evidence: Evidence) -> str:
    """7 ranks wait for rank 5 in all_reduce 412 of group 3 (dp) for 9 s."""
    who, verb = counted(sorted(wait.waiting)), _verb(wait.waiting)
    what = f"{wait.op or 'collective'} {wait.seq:,} of {evidence.name_of(wait.group_id)}"
    if wait.seq < 0:
        what = wait.op
    if wait.unseen and not wait.awaited:
        known = f"{_capital(who)} {verb} in {what}{for_text(wait, evidence)}"
        return f"{known}; nothing is known of {named(wait.unseen)}."
    if not wait.awaited:
        different = _different_ops(wait, evidence)
        if different:
            what = f"number {wait.seq:,} of {evidence.name_of(wait.group_id)}"
            return f"{_capital(who)} are in {what}{for_text(wait, evidence)}: {different}."
        return f"{_capital(who)} are all in {what}{for_text(wait, evidence)}."
    return f"{_capital(who)} {verb} for {named(wait.awaited)} in {what}{for_text(wait, evidence)}."


def _different_ops(wait: Wait, evidence: Evidence) -> str:
    """'rank 2 in broadcast, ranks 0, 1 and 3 in all_reduce'; '' where all are in the same."""
    ranks_of: dict[str, list[int]] = {}
    for rank, rows in evidence.entered.get(wait.group_id, {}).items():
        for op in {one.op for one in rows if one.seq == wait.seq and not one.is_message}:
            if rank in wait.waiting:
                ranks_of.setdefault(op, []).append(rank)
    if wait.seq < 0 or len(ranks_of) < 2:
        return ""
    few_first = sorted(ranks_of.items(), key=lambda item: (len(item[1]), item[0]))
    return ", ".join(f"{named(sorted(ranks))} in {op}" for op, ranks in few_first)


def entered_at(group_id: int, seq: int, ranks: Sequence[int], evidence: Evidence) -> str:
    """Which line of the user's code ranks entered an instance in: 'step train.py:40'; '' unknown.

    Where they did so in several lines, the one that most of them have.
    """
    by_rank = evidence.entered.get(group_id, {})
    frames = [
        users_frame(one.stack)
        for rank in ranks
        for one in by_rank.get(rank, ())
        if one.seq == seq and not one.is_message and one.stack
    ]
    return Counter(frames).most_common(1)[0][0] if frames else ""


def for_text(wait: Wait, evidence: Evidence) -> str:
    """' for 9 s', up to the last look; '' where nobody looked, or within half a second."""
    seconds = 0.0 if evidence.at_ns is None else (evidence.at_ns - wait.since_ns) / 1e9
    return f" for {seconds:,.0f} s" if seconds >= 0.5 else ""


def status_of(waiting: Waiting, evidence: Evidence) -> str:
    """One sentence on who waits for whom, whatever the reason; '' where nobody waits."""
    first = waiting.shown_first()
    if first is None:
        return ""
    others = {rank for wait in waiting.waits for rank in wait.waiting} - set(first.waiting)
    others -= {*first.awaited, *waiting.roots}
    ranks = "rank" if len(others) == 1 else "ranks"
    more = f" {len(others):,} other {ranks} {_verb(others)}, too." if others else ""
    return f"{waits_text(first, evidence)}{more}"


def _verb(ranks: Collection[int]) -> str:
    return "waits" if len(ranks) == 1 else "wait"


def described_cause(
    causes: Sequence[Cause], first: Wait | None, evidence: Evidence
) -> tuple[str, str]:
    """Title and text on ranks that others wait for."""
    ranks = [cause.rank for cause in causes]
    who = f"{_capital(named(ranks))} {'is' if len(ranks) == 1 else 'are'}"
    op = "a collective"
    if first is not None:
        op = f"{first.op or 'collective'} {first.seq:,}" if first.seq >= 0 else first.op
    title = _TITLES[causes[0].kind].format(who=who, op=op)
    if first is not None and first.is_message and causes[0].kind == "missing_rank":
        verb = "send to" if first.op == "recv" else "receive from"
        title = f"{_capital(named(ranks))} did not {verb} {named(first.waiting)}"
    waits = f"{waits_text(first, evidence)} {_line_of(first, evidence)}" if first else ""
    return title, f"{waits}{_capital(_why(causes))}."


def _why(causes: Sequence[Cause]) -> str:
    hows = {cause.how for cause in causes}
    if len(hows) > 1:
        return what_keeps(causes)
    return f"{'' if len(causes) == 1 else 'of each of them: '}{causes[0].how}"


def what_keeps(causes: Sequence[Cause]) -> str:
    """rank 5: its process is stopped; each of ranks 5 and 6: its process is stopped."""
    ranks_of: dict[str, list[int]] = {}
    for cause in causes:
        ranks_of.setdefault(cause.how, []).append(cause.rank)
    of_each = [
        f"{'each of ' if len(ranks) > 1 else ''}{named(ranks)}: {how}"
        for how, ranks in ranks_of.items()
    ]
    return "; ".join(of_each) if len(of_each) < 4 else of_each[0]


def described_all(causes: Sequence[Cause]) -> tuple[str, str]:
    """Title and text on all ranks of a job, which the same keeps: none of them is at fault."""
    ranks = [cause.rank for cause in causes]
    hows = list(dict.fromkeys(cause.how for cause in causes))
    title_of = _TITLES[causes[0].kind].format
    if len(ranks) == 1:
        return title_of(who="The only rank is", op=""), f"{_capital(hows[0])}."
    title = title_of(who=f"All {len(ranks):,} ranks are", op="")
    return title, f"Nobody waits for another rank. Of rank {ranks[0]}: {hows[0]}."


def described_mismatch(mismatch: Mismatch, evidence: Evidence) -> tuple[str, str]:
    """Title and text on members that entered one instance differently."""
    what = {"mismatched_op": "operation", "mismatched_dtype": "dtype", "mismatched_size": "size"}
    word, group = what[mismatch.kind], evidence.name_of(mismatch.group_id)
    if mismatch.is_pair:
        title = f"{_capital(named(mismatch.ranks))} differ in the {word} of a collective"
        text = f"In {group}, number {mismatch.seq:,}, they entered {mismatch.theirs}."
        return title, text
    title = f"{_capital(named(mismatch.ranks))} entered {mismatch.op} with another {word}"
    if mismatch.kind == "mismatched_op":
        title = f"{_capital(named(mismatch.ranks))} entered another operation than the others"
    theirs, usual = (
        entered_at(mismatch.group_id, mismatch.seq, ranks, evidence)
        for ranks in (mismatch.ranks, mismatch.others)
    )
    text = (
        f"In {group}, number {mismatch.seq:,}, {named(mismatch.ranks)} entered "
        f"{mismatch.theirs}{_in(theirs)}, {counted(mismatch.others)} {mismatch.usual}{_in(usual)}."
    )
    return title, text


def _in(frame: str) -> str:
    return f" in {frame}" if frame else ""


def _line_of(wait: Wait, evidence: Evidence) -> str:
    """A sentence on where the ranks that wait called it, if that was recorded."""
    frame = entered_at(wait.group_id, wait.seq, wait.waiting, evidence)
    who = "It" if len(wait.waiting) == 1 else "They"
    return f"{who} called it in {frame}. " if frame else ""


def described_cycle(
    cycle: Sequence[int], waits: Sequence[Wait], evidence: Evidence
) -> tuple[str, str]:
    """Title and text on ranks that wait for each other."""
    links = []
    for rank, after in zip(cycle, (*cycle[1:], cycle[0]), strict=True):
        wait = next(w for w in waits if rank in w.waiting and after in w.awaited)
        group = evidence.name_of(wait.group_id)
        links.append(f"rank {rank} waits for rank {after} in {wait.op} {wait.seq:,} of {group}")
    title = f"{_capital(named(sorted(cycle)))} wait for each other"
    return title, f"{_capital('; '.join(links))}."


def described_left(left: Left, evidence: Evidence) -> tuple[str, str]:
    """Title and text on ranks that ended before a collective of all."""
    what = f"{left.op or 'collective'} {left.seq:,}"
    verb, owner = ("has", "its") if len(left.ranks) == 1 else ("have", "their")
    title = f"{_capital(named(left.ranks))} ended before {what}"
    text = (
        f"{_capital(counted(left.others))} entered {what} of {evidence.name_of(left.group_id)}; "
        f"{named(left.ranks)} {verb} come to the end of {owner} script without it."
    )
    return title, text


def described_network(stalled: Sequence[Wait], evidence: Evidence) -> tuple[str, str]:
    """Title and text on collectives that all have entered."""
    oldest = min(stalled, key=lambda wait: wait.since_ns)
    title = f"No rank completes {oldest.op} {oldest.seq:,}"
    more = f" The same holds for {len(stalled) - 1} other groups." if len(stalled) > 1 else ""
    text = f"{waits_text(oldest, evidence)} It completes on none of them.{more}"
    return title, text


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
