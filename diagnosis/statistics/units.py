"""How sentences write numbers with a unit, steps and ranks."""

from __future__ import annotations

from collections.abc import Iterable


def in_ms(value: float) -> str:
    """A time in words; s from 10 s on."""
    return (
        f"{value / 1000:.1f} s" if value >= 10_000 else f"{value:,.{0 if value >= 10 else 1}f} ms"
    )


def named_ranks(ranks: Iterable[int]) -> str:
    """Ranks in words: "rank 5", "ranks 5, 7"; nothing of none."""
    named = [str(rank) for rank in ranks]
    return f"rank{'s' if len(named) > 1 else ''} {', '.join(named)}" if named else ""


def waits_of_each(num_ranks: int, total_ms: float, is_past: bool = False) -> str:
    """What ranks wait per step, from the sum over them: "7 ranks wait 12 ms each per step"."""
    verb = "waited" if is_past else "wait" if num_ranks != 1 else "waits"
    if num_ranks == 1:
        return f"1 rank {verb} {in_ms(total_ms)} per step"
    each_ms = total_ms / max(num_ranks, 1)
    return f"{num_ranks:,} ranks {verb} {in_ms(each_ms)} each per step on average"


def steps_text(first: int, last: int) -> str:
    """ "step 6" or "steps 6 to 9"."""
    return f"step {first}" if first == last else f"steps {first} to {last}"


NOT_SINCE = ", not since then"


def when_text(first: int, last: int, ongoing: bool) -> str:
    """When it was wrong: "since step 6", "from step 6 to 9, not since then" or "in step 6"."""
    if first == last:
        return f"in step {first}{'' if ongoing else NOT_SINCE}"
    return f"since step {first}" if ongoing else f"from step {first} to {last}{NOT_SINCE}"
