"""How phases of the start-up are called in sentences."""

from __future__ import annotations

DOING = {
    "before": "before the hooks began",
    "imports": "importing",
    "hooks": "starting the hooks",
    "rendezvous": "in the rendezvous",
    "groups": "making process groups",
    "communication": "waiting for other ranks",
    "device": "opening its device",
    "model": "building the model",
    "restore": "reading a checkpoint",
    "compile": "compiling",
    "data": "waiting for its first batch",
    "other": "in other code of the job",
}
"""What a rank is doing in a phase."""


def ranks_in_words(ranks: tuple[int, ...], most: int = 5) -> str:
    """rank 3, or ranks 1, 2 and 5 more."""
    named = ", ".join(map(str, ranks[:most]))
    more = f" and {len(ranks) - most} more" if len(ranks) > most else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {named}{more}"
