"""One cause, one finding: what several findings say of the same thing is said once.

- Episodes of the same ranks (or stage, or host, or job) and kind are one finding.
- Nearly all ranks of one host that are slow together for one reason are one finding on that host;
  where they are nearly all of the job, or a quarter of one whose hosts are unknown, no rank is at
  fault by itself.
- Ranks whose experts are given too many tokens compute longer for that.
- Links of ranks that are kept from their cores or stopped are slow for that.
- A host that computes longer while the network of other hosts is slow may be waiting for these.
- A rank that starts late from the step on from which another host is slow may be waiting for it.
- The same ranks that lose time in two ways, such as data and compute, over the same steps are one
  finding.
- A rank that comes late at intervals gets one finding, though its rare long steps or the retries of
  its allocator show, too; so does a rank that is slow in single steps.
- A whole job that is slower is no finding where others explain its steps.
- At most MOST_FINDINGS are listed, by urgency and cost.
"""

from __future__ import annotations

from functools import partial

from diagnosis.experts.echoes import Against, of_full_experts, unknown
from diagnosis.findings import Diagnosis
from diagnosis.one_cause.changes import Change, with_changes
from diagnosis.one_cause.episodes import of_one_place
from diagnosis.one_cause.hosts import Still, of_one_host
from diagnosis.one_cause.intervals import rare_steps_of_slow_ranks
from diagnosis.one_cause.same_ranks import of_same_ranks
from diagnosis.one_cause.waiting import links_of_held_ranks, of_held_hosts, waiting_for_hosts


def merged(
    diagnosis: Diagnosis,
    hosts: dict[int, str | None],
    still: Still,
    against: Against = unknown,
) -> Diagnosis:
    """With one finding for each cause. `hosts`: of every rank; `against`: ranks with the same
    experts.
    """
    of_host = partial(of_one_host, hosts=hosts, still=still)
    changes: list[Change] = [
        rare_steps_of_slow_ranks,
        partial(of_full_experts, against=against),
        of_one_place,
        of_host,
        of_one_place,
        waiting_for_hosts,
        of_held_hosts,
        links_of_held_ranks,
        of_same_ranks,
    ]
    return with_changes(diagnosis, changes)
