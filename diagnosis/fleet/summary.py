"""What a fleet keeps of each run: a few numbers, its findings and its hosts.

Summaries are stored and read again, also those that others made: their types and sizes are checked
when they are read, by the limits here.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

MOST_HOSTS = 16_384
MOST_RANKS = 64
"""Ranks of a finding that are kept: the first ones."""
MOST_FINDINGS = 32
MOST_NAME, MOST_TEXT = 200, 1000
"""Characters."""
MOST, MOST_S, MOST_MFU = 1e18, 1e9, 100.0
"""Greater numbers are none of a run."""

Name = Annotated[str, Meta(max_length=MOST_NAME)]
Text = Annotated[str, Meta(max_length=MOST_TEXT)]
Kind = Annotated[str, Meta(max_length=64, pattern="^[a-z]+(_[a-z]+)*$")]
Count = Annotated[int, Meta(ge=0, le=2**40)]
TimeNs = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Amount = Annotated[float, Meta(ge=0, le=MOST)]


class Found(Struct, frozen=True):
    """A finding. `rank_hours`: time that all ranks lost to it, None where its cost is unknown;
    `hosts`: those that it names, at most MOST_HOSTS.
    """

    id: Name
    kind: Kind
    title: Text
    severity: Name
    first_step: Annotated[int, Meta(ge=-1, le=2**62)]
    hosts: Annotated[tuple[Name, ...], Meta(max_length=MOST_HOSTS)] = ()
    ranks: Annotated[tuple[Count, ...], Meta(max_length=MOST_RANKS)] = ()
    num_ranks: Count = 0
    rank_hours: Amount | None = None
    share: Annotated[float, Meta(ge=0, le=1)] | None = None


class Summary(Struct, frozen=True):
    """One run; None: not recorded. Findings, S, hosts, layout and ranks are of the newest attempt.

    `version`, `state`: of the code that made it, and of the run's index that it is about.
    `rank_hours`: wall time of all attempts times their ranks. `goodput`: productive share of that
    wall time, 0 to 1. `outside_hours`: rank-hours outside kept steps, by OUTSIDE. `S`: times as
    long as without stragglers (2505.05713); `no_S`: why that is unknown; '' of a self-test,
    which has none. `judged`: whether a detector had enough data; `num_noted`: what stood out and is
    no finding; `is_partial`: something that it records could not be judged. `hosts`: in the order
    of their first ranks.
    """

    version: Name
    state: Name
    run: Name
    started_ns: TimeNs | None
    attempts: Count
    num_ranks: Count
    layout: Name
    model: Name
    parameters: Amount | None
    num_steps: Count
    step_ms: Amount | None
    wall_s: Amount | None
    rank_hours: Amount | None
    goodput: Annotated[float, Meta(ge=0, le=1)] | None
    outside_hours: Annotated[dict[Kind, Amount], Meta(max_length=16)]
    mfu: Annotated[float, Meta(ge=0, le=MOST_MFU)] | None
    S: Annotated[float, Meta(ge=0, le=MOST_S)] | None
    no_S: Text
    judged: bool
    num_noted: Count
    is_partial: bool
    findings: Annotated[tuple[Found, ...], Meta(max_length=MOST_FINDINGS)]
    hosts: Annotated[tuple[Name, ...], Meta(max_length=MOST_HOSTS)]

    @property
    def job(self) -> tuple[str, str, int]:
        """Runs of equal jobs: the same model in the same layout on as many ranks."""
        return self.model, self.layout, self.num_ranks


OUTSIDE = {
    "start_up": "before the first step",
    "rewound": "repeated steps",
    "stalled": "after the last step",
    "restart": "between attempts",
}
"""Time outside kept steps: its cause in `outside_hours` -> in words."""
