"""slow_link, slow_dp_network, slow_node_link, slow_host, many_hosts_slow, comm_regression: data
moves slowly, however late anybody came (diagnosis/statistics/transfer_times.py).

Channels that are slow in the same steps make one finding, by what they have in common:

slow_node_link   all groups of an axis inside one host, and none that leaves it
slow_host        all channels by which one host reaches others
many_hosts_slow  the same of several hosts, where no single one explains it: a switch; nobody is
                 named where others of them would explain it as well
slow_dp_network  groups over the replicas of a stage
slow_link        two ranks, the links of one rank or between two hosts; any other group
comm_regression  all channels take longer than before; what was always so shows only against
                 a baseline (diagnosis/detectors/against_baseline.py)

Where ranks wait for CPU cores most of the time, only what is far slower than comparable ones counts
(beyond_cores in diagnosis/statistics/transfer_times.py), with less confidence.

Source: the rules are ours. Assumes: aligned clocks, collectives with all members recorded. Known
false positives: links that are slower by the way the network is built (an oversubscribed rack),
where fewer than three of four comparable ones share it; more bytes where bytes were not recorded.
Not separable without counters of the host: NVLink and PCIe of one node; NIC, cable and neighbour.
Blind spots: what is slow on all comparable channels from the first step on; senders that are
through before the receiver has begun; groups that all cross one slow host. Cost: one pass over the
steps of each channel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from diagnosis.detectors.slow_network.cell_transfers import QUESTIONS as QUESTIONS
from diagnosis.detectors.slow_network.cell_transfers import known_transfers
from diagnosis.detectors.slow_network.text import Slowness, finding_of
from diagnosis.findings import NotEnoughData, Verdict
from diagnosis.statistics.natural_order import natural
from diagnosis.statistics.phase_times import kept_from_cores, phase_times
from diagnosis.statistics.transfer_times import (
    SlowChannel,
    Transfers,
    beyond_cores,
    overlap,
    slow_channels,
    transfers_missing,
)

NAME = "slow_network"
KINDS = (
    "slow_link",
    "slow_dp_network",
    "slow_node_link",
    "slow_host",
    "many_hosts_slow",
    "comm_regression",
)

Channels = frozenset[int]

_LESS = {"high": "medium", "medium": "low", "low": "low"}


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict:
    """Verdict on the steps in `tables`: answers of QUESTIONS for one attempt and range of steps."""
    transfers = known_transfers(tables)
    if missing := transfers_missing(NAME, transfers):
        return Verdict(NAME, not_enough=missing)
    slow = slow_channels(transfers)
    if (kept := kept_from_cores(phase_times(tables))) is not None:
        slow = beyond_cores(slow)
    causes = [Slowness("comm_regression", slow.everywhere, ())] if slow.everywhere else []
    for same_time in _together(slow.channels):
        at_cost = same_time[0].episode
        cheap = [channel for channel in slow.cheap if overlap(at_cost, channel.episode)]
        causes += _causes(transfers, same_time, cheap)
    findings = tuple(finding_of(transfers, cause, attempt) for cause in causes if cause.kind)
    set_aside = tuple(_of_all_ranks(transfers, cause) for cause in causes if not cause.kind)
    if kept is not None:
        findings = tuple(replace(f, confidence=_LESS[f.confidence]) for f in findings)
        return Verdict(NAME, findings, not_enough=(NotEnoughData(NAME, kept),))
    known = int(np.isfinite(transfers.time_KS).any(axis=1).sum())
    checked = (
        f"No {'other ' if findings else ''}group or link of {known} moved data more slowly "
        "than comparable ones or than before (by 1.5x and 3 % of the step)."
    )
    return Verdict(NAME, findings, checked, set_aside=set_aside)


def _together(slow: Sequence[SlowChannel]) -> list[list[SlowChannel]]:
    """Channels whose episodes overlap by more than half with that of the costliest of them."""
    left, together = sorted(slow, key=lambda channel: -channel.lost_ms), []
    while left:
        same = [channel for channel in left if overlap(left[0].episode, channel.episode)]
        together.append(same)
        left = [channel for channel in left if channel not in same]
    return together


def _causes(
    transfers: Transfers, slow: Sequence[SlowChannel], cheap: Sequence[SlowChannel]
) -> list[Slowness]:
    """What channels that are slow at the same time have in common, hosts first. A host's channels
    may all be slow, and only some of them cost much.
    """
    causes: list[Slowness] = []
    left = list(slow)
    slow_ks = frozenset(channel.k for channel in (*slow, *cheap))
    for kind, hosts, are_certain in _hosts(transfers, slow_ks):
        meant = set(hosts)
        explained = [channel for channel in left if _explains(transfers, channel.k, meant, kind)]
        rows = tuple(r for r, host in enumerate(transfers.ranks.host_R) if host in meant)
        if not explained:
            continue
        cause = Slowness(kind, tuple(explained), rows, hosts)
        causes.append(cause if are_certain else _of_some(tuple(explained), hosts))
        left = [channel for channel in left if channel not in explained]
    return causes + _of_channels(transfers, left)


def _of_some(slow: tuple[SlowChannel, ...], hosts: tuple[str, ...]) -> Slowness:
    """Some of these hosts are slow: each channel is between several that may be meant."""
    return Slowness("many_hosts_slow", slow, (), suspects=hosts)


def _explains(transfers: Transfers, k: int, hosts: set[str], kind: str) -> bool:
    touched = transfers.channels[k].hosts
    return touched <= hosts if kind == "slow_node_link" else bool(touched & hosts)


def _hosts(transfers: Transfers, slow: Channels) -> list[tuple[str, tuple[str, ...], bool]]:
    """Kinds and hosts where whole hosts are meant, and whether these and no others are."""
    known = [
        k
        for k, time_S in enumerate(transfers.time_KS)
        if np.isfinite(time_S).any() and not transfers.spans_job(k)
    ]
    outer: dict[str, set[int]] = {}
    for k in known:
        hosts = transfers.channels[k].hosts
        for host in hosts if len(hosts) > 1 else ():
            outer.setdefault(host, set()).add(k)
    outside = _reaching_out(outer, slow)
    kinds = []
    if outside:
        kind = "slow_host" if len(outside) == 1 else "many_hosts_slow"
        kinds.append((kind, outside, _are_certain(outer, slow, outside)))
    inside = [host for host in _inside(transfers, known, slow) if host not in outside]
    return kinds + [("slow_node_link", (host,), True) for host in inside]


def _reaching_out(outer: Mapping[str, set[int]], slow: Channels) -> tuple[str, ...]:
    """Hosts all whose channels to others (`outer`) are slow: the one that explains all slow ones,
    else all such hosts; none where several explain them one by one.
    """
    slow_outer = set().union(*outer.values()) & slow if outer else set()
    whole = [host for host, own in outer.items() if len(own) > 1 and own <= slow]
    whole.sort(key=natural)
    single = [host for host in whole if slow_outer <= outer[host]]
    if single:
        return tuple(single) if len(single) == 1 else ()
    explained = set().union(*(outer[host] for host in whole)) if whole else set()
    return tuple(whole) if slow_outer <= explained else ()


def _are_certain(outer: Mapping[str, set[int]], slow: Channels, hosts: tuple[str, ...]) -> bool:
    """Whether those of these hosts that alone explain some slow channel explain all of them; then
    no other choice among the hosts does. The network of all hosts is that of all, too.
    """
    if set(hosts) == outer.keys():
        return True
    all_slow = set().union(*outer.values()) & slow
    needed = [
        host
        for host in hosts
        if not all_slow <= set().union(*(outer[other] for other in hosts if other != host))
    ]
    return all_slow <= set().union(*(outer[host] for host in needed))


def _inside(transfers: Transfers, known: Sequence[int], slow: Channels) -> list[str]:
    """Hosts all whose inner groups of one axis are slow; replicas are named by their stage."""
    inner: dict[tuple[str, str], set[int]] = {}
    for k in known:
        channel = transfers.channels[k]
        if len(channel.hosts) == 1 and not channel.is_pair and channel.axis != "dp":
            inner.setdefault((next(iter(channel.hosts)), channel.axis), set()).add(k)
    return sorted({host for (host, _), own in inner.items() if own <= slow}, key=natural)


def _of_channels(transfers: Transfers, left: Sequence[SlowChannel]) -> list[Slowness]:
    """Causes that are groups and links by themselves."""
    causes: list[Slowness] = []
    networks: dict[int, list[SlowChannel]] = {}
    for slow in left:
        channel = transfers.channels[slow.k]
        if channel.is_pair:
            continue
        if channel.axis == "dp":
            stage = int(transfers.ranks.coords_R["pp"][channel.rows[0]]) if channel.rows else -1
            networks.setdefault(stage, []).append(slow)
        else:
            kind = "" if transfers.spans_job(slow.k) else "slow_link"
            causes.append(Slowness(kind, (slow,), channel.rows))
    causes += _of_networks(transfers, networks)
    return causes + _of_links(
        transfers,
        [slow for slow in left if transfers.channels[slow.k].is_pair],
    )


def _of_networks(
    transfers: Transfers, by_stage: Mapping[int, Sequence[SlowChannel]]
) -> list[Slowness]:
    """The groups over the replicas of a stage; those of several stages between hosts at once have
    some of their hosts in common, or what connects these.
    """
    every = [slow for same in by_stage.values() for slow in same]
    if len(by_stage) > 1 and _leaves_host(transfers, every):
        hosts = {host for slow in every for host in transfers.channels[slow.k].hosts}
        return [_of_some(tuple(every), tuple(sorted(hosts, key=natural)))]
    return [
        Slowness(
            "slow_dp_network",
            tuple(same),
            tuple(sorted({row for slow in same for row in transfers.channels[slow.k].rows})),
            stages=(stage,) if stage >= 0 else (),
        )
        for stage, same in by_stage.items()
    ]


def _of_links(transfers: Transfers, links: Sequence[SlowChannel]) -> list[Slowness]:
    """Links that share ranks make one finding, and those between the same two hosts. Links between
    several pairs of hosts at once have something in common: they are one finding, too.
    """
    parts: list[tuple[set[object], list[SlowChannel]]] = []
    for link in links:
        channel = transfers.channels[link.k]
        ends: set[object] = set(channel.ranks)
        if len(channel.hosts) > 1:
            ends.add(channel.hosts)
        same = [link]
        for part in [part for part in parts if part[0] & ends]:
            parts.remove(part)
            ends, same = ends | part[0], [*part[1], *same]
        parts.append((ends, same))
    across: list[list[SlowChannel]] = []
    alone: list[list[SlowChannel]] = []
    for _, same in parts:
        between_hosts = len(same) > 1 and _leaves_host(transfers, same)
        (across if between_hosts else alone).append(same)
    if len(across) < 2:
        return [_of_connected(transfers, same) for same in (*across, *alone)]
    together = tuple(link for same in across for link in same)
    hosts = {host for link in together for host in transfers.channels[link.k].hosts}
    some = _of_some(together, tuple(sorted(hosts, key=natural)))
    return [some, *(_of_connected(transfers, same) for same in alone)]


def _leaves_host(transfers: Transfers, same: Sequence[SlowChannel]) -> bool:
    return all(len(transfers.channels[channel.k].hosts) > 1 for channel in same)


def _of_connected(transfers: Transfers, same: Sequence[SlowChannel]) -> Slowness:
    """The rank that all of them share, else all their ranks."""
    counts = Counter(row for channel in same for row in transfers.channels[channel.k].rows)
    shared = [row for row, count in counts.items() if count == len(same) > 1]
    return Slowness("slow_link", tuple(same), tuple(sorted(shared or counts)))


def _of_all_ranks(transfers: Transfers, cause: Slowness) -> str:
    worst = cause.worst
    return (
        f"Collectives of all ranks take {worst.own_ms / worst.others_ms:.1f}x as long since step "
        f"{transfers.step_S[worst.episode.first]} as before: they point to no part of the network."
    )
