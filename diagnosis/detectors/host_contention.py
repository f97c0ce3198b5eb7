"""host_contention: a host is kept from its cores, and its ranks alone do not show it.

Ranks that are whole pipeline stages have no peer of their stage elsewhere, where the others wait
inside their compute (asynchronous launches) nobody seems to be late, and where half of a stage is
late its ranks are each other's peers: launch_skew can compare none of them. Hosts are compared
instead, by the share of the step that their ranks compute without CPU
time. How long they compute may differ by stage; that the clock goes on and their CPU time does not,
may not. All its ranks must stand still, in forwards and in backwards, as for launch_skew.

Source: the rule is ours. Assumes: the job computes on CPU and
recorded CPU time. Of two hosts the one that stands still more is named: contention only adds. Known
false positives: a host with fewer cores per rank than the others, if it stands still for that.
Blind spots: contention of most hosts at once; a job on one host. Cost: one pass over the cells.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from diagnosis.detectors.launch_skew import BOTH_WAYS, LEAST_SHARE, words_of
from diagnosis.findings import Finding, Verdict
from diagnosis.statistics.episodes import Episode, episodes
from diagnosis.statistics.late_ranks import lasting_or_calm
from diagnosis.statistics.peers import NOISE_MADS, medians_of_others
from diagnosis.statistics.phase_findings import Lost, finding_of, steps_missing
from diagnosis.statistics.phase_times import IDLE, MIN_EXCESS, PhaseTimes, middle, phase_times
from diagnosis.statistics.rank_tables import Floats, Ints
from diagnosis.statistics.swings import no_swings

NAME = "host_contention"
KINDS = ("host_contention",)
QUESTIONS = ("rank_phases", "rank_places")


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
    """Verdict on the steps in `tables`: answers of QUESTIONS; None where no host is by itself in a
    stage, or CPU time is not known.
    """
    times = phase_times(tables)
    hosts = _hosts(times)
    several = [host for host, rows in hosts.items() if 1 < rows.size < times.ranks.rank_R.size]
    alone = [host for host in several if _is_alone(times, hosts[host])]
    if not several or not np.nan_to_num(times.phases["stretch"]).any():
        return None
    if missing := steps_missing(NAME, times.step_S.size):
        return Verdict(NAME, not_enough=missing)
    excess = _excess(times, hosts)
    found = [
        (host, episode)
        for host in several
        for episode in _episodes(excess, host)
        if _stands_still(times, hosts, host, episode)
    ]
    names, excess_HS = list(excess), np.array(list(excess.values()))
    spans = [(names.index(host), episode.first, episode.last) for host, episode in found]
    beyond = no_swings(excess_HS, np.zeros(len(names), np.int64), spans)
    kept = [(spans[index][0], found[index][1]) for index in sorted(beyond)]
    threshold_H = np.array([_threshold(excess, host) for host in names])
    findings = [
        _finding(times, names[row], hosts[names[row]], episode, attempt)
        for row, episode in lasting_or_calm(excess_HS, threshold_H, kept)
    ]
    if not alone and not findings:
        return None
    checked = (
        f"No {'other ' if findings else ''}host of whole stages computed without CPU time for "
        f"{100 * LEAST_SHARE:.0f} % of a step more than the others."
    )
    return Verdict(NAME, tuple(findings), checked)


def _hosts(times: PhaseTimes) -> dict[str, Ints]:
    """Rows of the ranks of each known host."""
    rows: dict[str, list[int]] = {}
    for row, host in enumerate(times.ranks.host_R):
        if host is not None:
            rows.setdefault(host, []).append(row)
    return {host: np.array(rows[host]) for host in sorted(rows)}


def _is_alone(times: PhaseTimes, rows: Ints) -> bool:
    """Whether its stages have no rank on another host."""
    pp_R = times.ranks.coords_R["pp"]
    of_its_stages = np.flatnonzero(np.isin(pp_R, pp_R[rows]) & (pp_R >= 0))
    return 1 < rows.size == of_its_stages.size < pp_R.size


def _excess(times: PhaseTimes, hosts: Mapping[str, Ints]) -> dict[str, Floats]:
    """Share of each step that the quickest rank of a host stands still, beyond the other hosts."""
    still_HS = np.array([_still(times, "stretch", rows) for rows in hosts.values()])
    others_HS = medians_of_others(still_HS, np.ones(len(still_HS), np.bool_))
    return dict(zip(hosts, still_HS - others_HS, strict=True))


def _still(times: PhaseTimes, name: str, rows: Ints) -> Floats:
    share_NS = times.phases[name][rows] / times.window_S
    least_S = np.where(np.isfinite(share_NS), share_NS, np.inf).min(axis=0)
    return np.where(np.isfinite(least_S), least_S, np.nan)


def _episodes(excess: Mapping[str, Floats], host: str) -> list[Episode]:
    found = episodes(excess[host], _threshold(excess, host))
    return [episode for episode in found if episode.excess >= LEAST_SHARE]


def _threshold(excess: Mapping[str, Floats], host: str) -> float:
    """Noise of the other hosts, at least MIN_EXCESS."""
    others = np.concatenate([values for name, values in excess.items() if name != host])
    noise = NOISE_MADS * middle(np.abs(others - middle(others)))
    return max(MIN_EXCESS, noise) if np.isfinite(noise) else MIN_EXCESS


def _stands_still(
    times: PhaseTimes, hosts: Mapping[str, Ints], host: str, episode: Episode
) -> bool:
    """Whether forwards and backwards are both stretched beyond those of the other hosts."""
    span = slice(episode.first, episode.last + 1)
    more = []
    for name in IDLE:
        by_host = {
            other_host: middle(_still(times, name, rows)[span])
            for other_host, rows in hosts.items()
        }
        others = np.array([value for other_host, value in by_host.items() if other_host != host])
        more.append(max(by_host[host] - middle(others), 0.0))
    return bool(np.isfinite(more).all() and min(more) >= BOTH_WAYS * sum(more) > 0)


def _finding(times: PhaseTimes, host: str, rows: Ints, episode: Episode, attempt: int) -> Finding:
    lost = Lost(tuple(rows.tolist()), episode, episode.excess, int(rows[0]), (host,))
    return finding_of(times, lost, attempt, words_of(times, KINDS[0], lost))
