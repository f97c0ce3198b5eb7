"""Findings on groups, links and hosts that move data slowly."""

from __future__ import annotations

import math
from dataclasses import dataclass

from diagnosis.findings import Evidence, Finding, cost_of
from diagnosis.statistics.episodes import MIN_VOTES, OVER_AFTER_STEPS
from diagnosis.statistics.evidence_links import first_two, question_params, timeline_view
from diagnosis.statistics.peers import MIN_PEERS
from diagnosis.statistics.phase_findings import URGENT_SHARE
from diagnosis.statistics.phase_times import middle
from diagnosis.statistics.shared_location import place_of
from diagnosis.statistics.transfer_times import Channel, SlowChannel, Transfers
from diagnosis.statistics.units import in_ms, steps_text, when_text

_MOST_LANES = 16
_MOST_NAMED = 8


@dataclass(frozen=True)
class Slowness:
    """Channels that are slow for one reason. `rows`: of the ranks meant; `kind` "": nobody.
    `suspects`: hosts of which some are meant, and which ones is not known; rows has none then.
    """

    kind: str
    channels: tuple[SlowChannel, ...]
    rows: tuple[int, ...]
    hosts: tuple[str, ...] = ()
    stages: tuple[int, ...] = ()
    suspects: tuple[str, ...] = ()

    @property
    def worst(self) -> SlowChannel:
        """The one that costs most."""
        return max(self.channels, key=lambda channel: channel.lost_ms)


def finding_of(transfers: Transfers, slowness: Slowness, attempt: int) -> Finding:
    """The finding of one episode."""
    worst = slowness.worst
    first, last = (
        int(transfers.step_S[worst.episode.first]),
        int(transfers.step_S[worst.episode.last]),
    )
    ongoing = transfers.step_S.size - 1 - worst.episode.last < OVER_AFTER_STEPS
    longer_ms, window_ms = _longer(transfers, worst)
    share = min(longer_ms / window_ms, 1.0) if window_ms > 0 else 0.0
    num_ranks = transfers.ranks.rank_R.size
    who, why, others, then = _texts(transfers, slowness)
    since = when_text(first, last, ongoing)
    ratio = worst.own_ms / worst.others_ms
    what = "as long as before" if not worst.num_others else "as long as comparable ones"
    urgent = "urgent" if share >= URGENT_SHARE else "warning"
    return Finding(
        kind=slowness.kind,
        attempt=attempt,
        severity=urgent if ongoing else "past",
        confidence=_confidence(transfers, slowness),
        title=f"{who}: data moves slowly",
        text=f"Transfers take {ratio:.1f}x {what} {since}: {in_ms(worst.own_ms)} each instead of "
        f"{in_ms(worst.others_ms)}.",
        culprits=tuple(place_of(transfers.ranks, row) for row in slowness.rows),
        first_step=first,
        last_step=last,
        ongoing=ongoing,
        slowdown=round(ratio, 4),
        cost=cost_of(longer_ms, window_ms, last - first + 1, num_ranks),
        evidence=_evidence(transfers, slowness, attempt),
        alternatives=others,
        next_step=then,
        stages=slowness.stages,
        hosts=slowness.hosts,
        cause=f"{who}: {why}",
    )


def _confidence(transfers: Transfers, slowness: Slowness) -> str:
    if not transfers.ranks.has_roles:
        return "medium"
    compared = all(channel.num_others >= MIN_PEERS for channel in slowness.channels)
    if slowness.kind == "comm_regression":
        return "high" if _is_clear(slowness) else "medium"
    if slowness.kind in ("slow_host", "slow_node_link"):
        return "high" if compared and _is_clear(slowness) else "medium"
    return "high" if slowness.worst.num_others >= MIN_PEERS else "medium"


CLEAR_RATIO = 2.0
"""Of transfers of hosts or of all: noise and other traffic do not double what all of them take."""


def _is_clear(slowness: Slowness) -> bool:
    """Whether several channels are all slow by far."""
    ratios = [channel.own_ms / channel.others_ms for channel in slowness.channels]
    return len(ratios) > 1 and min(ratios) >= CLEAR_RATIO


def _longer(transfers: Transfers, worst: SlowChannel) -> tuple[float, float]:
    """What a step is longer by, ms, and how long it is: the transfers' excess, or what steps became
    longer by if that is less; transfers may hide behind compute or other stages.
    """
    span = slice(worst.episode.first, worst.episode.last + 1)
    window_ms, longer_ms = middle(transfers.window_S[span]), worst.lost_ms
    before_ms = middle(transfers.window_S[: worst.episode.first])
    if worst.episode.first >= MIN_VOTES and math.isfinite(before_ms):
        longer_ms = min(longer_ms, max(window_ms - before_ms, 0.0))
    return longer_ms, window_ms


def _evidence(transfers: Transfers, slowness: Slowness, attempt: int) -> tuple[Evidence, ...]:
    worst = slowness.worst
    span = slice(worst.episode.first, worst.episode.last + 1)
    first, last = int(transfers.step_S[span.start]), int(transfers.step_S[span.stop - 1])
    params = question_params(first, last, attempt)
    channel = transfers.channels[worst.k]
    shown = channel.ranks[:_MOST_LANES]
    link = timeline_view(attempt, int(shown[0]), shown, first_two(first, last))
    against = (
        f"the median of {worst.num_others} comparable ones is {in_ms(worst.others_ms)}"
        if worst.num_others
        else f"before, it was {in_ms(worst.others_ms)}"
    )
    wait_ms = middle(transfers.wait_KS[worst.k, span]) / middle(transfers.num_KS[worst.k, span])
    evidence = [
        Evidence(
            f"A transfer of {_name(channel)} takes {in_ms(worst.own_ms)} in "
            f"{steps_text(first, last)}; {against}.",
            round(worst.own_ms, 4),
            "ms",
            transfers.question,
            params,
            link,
        ),
        Evidence(
            f"Slow in these steps: {len(slowness.channels)} of {len(transfers.channels)} groups "
            f"and links, all of {_where(transfers, slowness)}.",
            len(slowness.channels),
            "groups and links",
            transfers.question,
            params,
            link,
        ),
    ]
    if math.isfinite(wait_ms):
        evidence.append(
            Evidence(
                f"Its members come at most {in_ms(wait_ms)} apart: late ranks are not the reason, "
                "transfers count from the last one's start.",
                round(wait_ms, 4),
                "ms",
                transfers.question,
                params,
                link,
            )
        )
    return tuple(evidence)


def _name(channel: Channel) -> str:
    if channel.is_pair:
        return _named(channel.ranks)
    return f"the {channel.axis} group of {_named(channel.ranks)}"


def _named(ranks: tuple[int, ...]) -> str:
    if len(ranks) == 2:
        return f"ranks {ranks[0]} and {ranks[1]}"
    shown = ", ".join(map(str, ranks[:_MOST_NAMED]))
    more = len(ranks) - _MOST_NAMED
    return f"ranks {shown}" + (f" and {more} others" if more > 0 else "")


def _where(transfers: Transfers, slowness: Slowness) -> str:
    if slowness.suspects:
        return ", ".join(slowness.suspects)
    if not slowness.rows:
        return "all axes"
    if slowness.hosts:
        return ", ".join(slowness.hosts)
    return _named(tuple(transfers.ranks.rank_R[list(slowness.rows)].tolist()))


def _texts(transfers: Transfers, slowness: Slowness) -> tuple[str, str, tuple[str, ...], str]:
    """Who, why, what else, what then."""
    if slowness.suspects:
        return f"Network of some of {len(slowness.suspects)} hosts", *_OF_SOME
    where = _where(transfers, slowness)
    who = {
        "slow_link": f"Link of {where}",
        "slow_dp_network": f"Data-parallel network of stage {(*slowness.stages, 'unknown')[0]}",
        "slow_node_link": f"Links inside {where}",
        "slow_host": f"Network of {where}",
        "many_hosts_slow": f"Network of {len(slowness.hosts)} hosts",
        "comm_regression": "All groups and links",
    }[slowness.kind]
    return who, *_TEXTS[slowness.kind]


_OF_SOME = (
    "transfers are slow in the same steps, and more than one of these hosts takes part in each "
    "of them, so that they do not tell which ones are slow.",
    (
        "A link or switch between these hosts.",
        "Another job that began on some of them at that time.",
    ),
    "Read the error and congestion counters of the ports of all these hosts, or time transfers of "
    "each with a host that is not among them.",
)
_PCIE = "PCIe, NIC and cable of a host (slow host): only its counters distinguish them."
_TEXTS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "slow_link": (
        "its transfers are slow whoever comes last, and those of comparable links are not.",
        (
            "A NIC or port of one of its ends, the cable, or a neighbour's traffic on the same "
            "path: transfers do not distinguish them.",
            _PCIE,
        ),
        "Test the link alone (ib_write_bw, nccl-tests between these ranks) and read the error and "
        "congestion counters of both ports.",
    ),
    "slow_dp_network": (
        "collectives over its replicas are slow whoever comes last, comparable ones are not.",
        (
            "One slow host or link among its members: a collective goes at the pace of its slowest "
            "member.",
            "Where all its members sit on one host, the links inside it (slow node link).",
        ),
        "Time the same collective alone on this group and on halves of it; compare the ports and "
        "the path of its hosts with those of another group.",
    ),
    "slow_node_link": (
        "groups inside this host are slow, those of other hosts and those that leave it are not.",
        (
            "NVLink and PCIe of the host (slow host): only its counters distinguish them.",
            "The host's own processes that copy for the collectives (host contention).",
        ),
        "Read the link states and error counters of this host (nvidia-smi nvlink -s and -e, "
        "dcgmi diag) and compare with another one.",
    ),
    "slow_host": (
        "all channels by which it reaches other hosts are slow, the others' are not.",
        (
            "Its NIC, the cable, the port of the switch or PCIe: only its counters "
            "distinguish them.",
            "NVLink of the host (slow node link), where the groups inside it are slow, too.",
        ),
        "Read PCIe width and speed (lspci -vv), NIC errors and copies between host and device of "
        "this host, and compare with another one.",
    ),
    "many_hosts_slow": (
        "these hosts turned slow in the same steps, and what they share is the network.",
        (
            "Another job that began on the same hosts or the same switch at that time.",
            "Several hosts that broke at once.",
        ),
        "Find the switch, rack or power line that these hosts share and read its counters.",
    ),
    "comm_regression": (
        "transfers of every axis take longer than before, with the same bytes.",
        (
            "Another job on the same network, or a network that slows down as a whole.",
            "More bytes than before, where bytes were not recorded.",
        ),
        "Look at what changed at that step (algorithm, topology, other jobs on the network) and "
        "compare with a good run: rankscope diagnose RUN --baseline GOOD_RUN.",
    ),
}
