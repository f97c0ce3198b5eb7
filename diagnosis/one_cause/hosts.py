"""Ranks that are slow together, for what their host does to all of them."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from diagnosis.findings import Finding, Place
from diagnosis.kind_titles import KIND_TITLES
from diagnosis.one_cause.episodes import NEAR_STEPS, lost_ms, most_urgent, overlap, spanning
from diagnosis.statistics.shared_location import FEWEST_OF_HOST
from diagnosis.statistics.units import named_ranks

_NEARLY_ALL = 0.8
_MANY = 0.25
"""So many of a job whose hosts are unknown have a cause in common: perhaps they are one host's."""

OF_HOSTS = "host_contention"
"""Of this kind two ranks are enough: what keeps them from their cores is on their host."""

Still = Callable[[int, int, int], float]
"""Of a rank and the first and last step: the share of a step that it stands still in its compute
beyond its peers; NaN without peers."""


def of_one_host(
    findings: Sequence[Finding], hosts: dict[int, str | None], still: Still
) -> dict[int, Finding | str | None]:
    """Single ranks of one kind that are nearly all of their host as one finding on the host, or as
    none where they are nearly all of the job. Two that are kept from their cores bring those of
    their host with them that stand still, too. Ranks that left no steps stay as they are.
    """
    sizes = Counter(hosts.values())
    groups = defaultdict[tuple[str, str | None], list[int]](list)
    for index, finding in enumerate(findings):
        is_of_rank = len(finding.culprits) == 1 and not finding.stages
        if is_of_rank and (rank := finding.culprits[0].rank) in hosts:
            groups[finding.kind, hosts[rank]].append(index)
    changed: dict[int, Finding | str | None] = {}
    for (kind, host), members in groups.items():
        main = max(members, key=lambda index: lost_ms(findings[index]))
        together = [index for index in members if overlap(findings[index], findings[main])]
        num = len(together)
        of_host = kind == OF_HOSTS and host is not None and num > 1
        many = sizes[host] * _NEARLY_ALL if host is not None else len(hosts) * _MANY
        least = max(FEWEST_OF_HOST, many)
        if not of_host and num < least:
            changed |= _beginning_together(findings, together, main) if host is None else {}
            continue
        ranks = sorted(findings[index].culprits[0].rank for index in together)
        if num >= _NEARLY_ALL * len(hosts) or host is None:
            title = KIND_TITLES[kind]
            why = f"{num} of {len(hosts)} ranks ({named_ranks(ranks[:8])}) stand out by “{title}”: "
            changed |= dict.fromkeys(together, f"{why}so many may share one cause.")
            continue
        changed |= dict.fromkeys(together)
        known = {place.rank: place for i in together for place in findings[i].culprits}
        if of_host:
            members = [rank for rank, its_host in hosts.items() if its_host == host]
            fellows = _standing_still(still, findings[main], members, ranks)
            known = {rank: known.get(rank, Place(rank, host)) for rank in fellows}
        whole = (str(host),) if not of_host or len(known) == sizes[host] else ()
        parts = [findings[i] for i in together]
        changed[main] = _on_host(parts, known, whole, sizes[host])
    return changed


def _beginning_together(
    findings: Sequence[Finding], together: Sequence[int], main: int
) -> dict[int, Finding | None]:
    """Ranks of unknown hosts that begin with the costliest one as one finding with it: of so many
    the cause is rather one that they share than one for each.
    """
    begins = findings[main].first_step
    begin = [i for i in together if abs(findings[i].first_step - begins) <= NEAR_STEPS]
    if len(begin) < FEWEST_OF_HOST:
        return {}
    parts = [findings[i] for i in begin]
    worst = most_urgent(parts)
    known = {place.rank: place for part in parts for place in part.culprits}
    others = named_ranks(sorted(known.keys() - {place.rank for place in worst.culprits}))
    whole = spanning(worst, parts)
    return dict.fromkeys(begin) | {
        main: replace(
            whole,
            title=f"{len(known)} ranks together: {worst.title[0].lower()}{worst.title[1:]}",
            text=f"{whole.text} In the same way {others} stand out, from about the same step on.",
            culprits=tuple(known[rank] for rank in sorted(known)),
            victims=tuple(rank for rank in worst.victims if rank not in known),
            next_step=f"Look for what these ranks share, such as a host. {_next_step_of(worst)}",
        )
    }


def _standing_still(
    still: Still, main: Finding, members: Iterable[int], found: Sequence[int]
) -> list[int]:
    """Those found, and the members of their host that stand still for half as long or longer; of
    whom nothing is known in these steps, nobody knows that.
    """
    share = {rank: still(rank, main.first_step, main.last_step) for rank in members}
    least = statistics.median(share[rank] for rank in found) / 2
    return [rank for rank in share if rank in found or share[rank] >= least]


def _on_host(
    parts: Sequence[Finding], places: Mapping[int, Place], hosts: tuple[str, ...], size: int
) -> Finding:
    """`hosts`: the host, none where only some of its ranks are meant; `size`: ranks that it has."""
    main, host = most_urgent(parts), str(parts[0].culprits[0].host)
    on_host = replace(
        spanning(main, parts),
        title=f"{len(places)} ranks of host {host}: {main.title[0].lower()}{main.title[1:]}",
        culprits=tuple(places[rank] for rank in sorted(places)),
        victims=tuple(rank for rank in main.victims if rank not in places),
        hosts=hosts,
    )
    if not hosts or main.kind != "slow_worker":
        return on_host
    return _slow_host(on_host, main, f"{_all_of(len(places), size)} ranks of host {host}")


def _all_of(num: int, size: int) -> str:
    return f"All {num}" if num == size else f"{num} of {size}"


def _slow_host(on_host: Finding, main: Finding, who: str) -> Finding:
    """With words on the host instead of one of its ranks; `who`: its ranks that are slow.
    Only where the compute of ranks was compared is it known that they compute longer.
    """
    host, rank = on_host.hosts[0], main.culprits[0].rank
    take, shared = ("take" if main.ongoing else "took"), "power, cooling, other jobs"
    text, cause = on_host.text, f"{main.cause} So it is on {who[0].lower()}{who[1:]}.".strip()
    if text.startswith("It"):
        text = f"Rank {rank}: {text[0].lower()}{text[1:]}"
    if main.slowdown is not None:
        cause = f"{who} {take} longer to compute the same work than ranks of other hosts."
    return replace(
        on_host,
        title=f"Host {host} {'is' if main.ongoing else 'was'} slow",
        text=text,
        cause=cause,
        next_step=f"Look at what the ranks of {host} share ({shared}). {_next_step_of(main)}",
    )


def _next_step_of(finding: Finding) -> str:
    """Of a finding on one rank, where it stands among words on others."""
    return finding.next_step.replace("this rank", f"rank {finding.culprits[0].rank}")
