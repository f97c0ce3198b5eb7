"""Transfers of groups and of pairs of ranks: which are slow, against comparable ones and their
past.

Transfer = earliest end - latest start of an instance: nobody waits for late ranks in it, so that
it is slow only where the network is. A channel is a group
with its collectives, or two ranks that send to each other. Comparable are channels of the same
axis, size, number of instances and bytes that either all cross hosts or all do not.

Slow is a channel beyond the median of comparable ones that are not slow in the same step. Who may
be slow when is judged against their quicker quarter first: what is slow on half of the channels is
no peer of the others, since networks are only ever slower than they should be. Where all comparable
ones rise together, or one has no comparable ones, they are compared with what they took before (a
level that holds for a while, diagnosis/statistics/peers.py).

Shape suffixes: K channels, N channels of one set of comparable ones, S steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from diagnosis.findings import NotEnoughData
from diagnosis.statistics.episodes import Episode, episodes, may_be_slow
from diagnosis.statistics.peers import MIN_PEERS, NOISE_MADS, level_before, medians_of_others
from diagnosis.statistics.phase_findings import steps_missing
from diagnosis.statistics.phase_times import middle, middles
from diagnosis.statistics.rank_tables import Bools, Floats, Ints, Ranks, placed, spread_cells
from diagnosis.statistics.step_noise import step_noise

QUESTIONS = ("transfers", "groups", "rank_places", "rank_phases")

MIN_EXCESS = 0.25
"""Votes begin at 1.25x and are full at 1.5x, as causes of what-if analyses (docs/whatif.md)."""

FEW_EXCESS = 0.5
"""Where fewer than 3 comparable ones show what is usual, and against the quicker quarter: full at
2x."""

LEAST_COST = 0.03
"""Of a step: below S = 1.03 attribution means nothing (what-if study, 2505.05713)."""

KEPT_TIMES = 4.0
"""Where ranks wait for cores most of the time. On two cores that 8 ranks share, transfers of a host
whose cores others take, too, took 2.5 to 4 times as long, those over a slow link 17 times."""

_QUICK = 0.25
_NEAR = 2
"""Steps on both sides of a suspect stretch that are left out, too: its ends are halfway up."""
_FEWEST_BEFORE = 3
"""Steps that a level before a rise rests on at least."""


@dataclass(frozen=True)
class Channel:
    """A group, or two ranks that send to each other. `rows`: of its ranks that finished steps;
    `hosts`: none where some are unknown.
    """

    ranks: tuple[int, ...]
    axis: str
    is_pair: bool
    hosts: frozenset[str]
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Transfers:
    """All channels of a run; NaN is unknown."""

    ranks: Ranks
    step_S: Ints
    window_S: Floats  # ms, median over the ranks
    channels: tuple[Channel, ...]
    time_KS: Floats  # ms of an instance
    num_KS: Floats  # instances
    longest_KS: Floats  # ms
    wait_KS: Floats  # ms, the most a member waited
    set_K: Ints  # number of the set of comparable channels
    question: str = "transfers"  # that gives these numbers

    @property
    def sets(self) -> list[Ints]:
        """Comparable channels, by number."""
        return [np.flatnonzero(self.set_K == number) for number in np.unique(self.set_K)]

    def spans_job(self, k: int) -> bool:
        """Whether all ranks are in the channel."""
        return len(self.channels[k].rows) == self.ranks.rank_R.size


@dataclass(frozen=True)
class SlowChannel:
    """A channel that was slow for a while. `num_others`: comparable ones; 0: against its past."""

    k: int
    episode: Episode
    lost_ms: float  # per step
    own_ms: float  # transfer of an instance
    others_ms: float
    num_others: int


@dataclass(frozen=True, eq=False)
class SetOnset:
    """A set of comparable channels that takes longer than before. `level_ms`: of an instance,
    before.
    """

    rows_N: Ints
    episode: Episode
    level_ms: float


@dataclass(frozen=True)
class Slow:
    """What is slow. `everywhere`: one channel of each set, where all sets rose together; `cheap`:
    channels as slow as others that cost too little to be a finding.
    """

    channels: tuple[SlowChannel, ...]
    everywhere: tuple[SlowChannel, ...]
    cheap: tuple[SlowChannel, ...] = ()


def transfers_of(tables: Mapping[str, pa.Table]) -> Transfers:
    """Channels of the answers of QUESTIONS."""
    rank_R = np.unique(tables["rank_phases"]["rank"].to_numpy()).astype(np.int64)
    ranks = placed(rank_R, tables["rank_places"])
    steps, window_S = steps_of(tables)
    params = tables["transfers"]
    params = params.filter(pa.array(np.isin(params["step"].to_numpy(), steps)))
    key_K3, row = _keys(params)
    rows = params.drop_columns(["group_id", "rank", "peer"]).append_column("rank", pa.array(row))
    _, step_S, of = spread_cells(rows)
    channels = _channels(key_K3, tables["groups"], ranks)
    num_KS, bytes_KS = of["num_instances"], of["num_bytes"]
    with np.errstate(invalid="ignore", divide="ignore"):
        time_KS = of["transfer_ms"] / num_KS
        same_KS = np.isclose(bytes_KS / num_KS, _usual(bytes_KS / num_KS), rtol=0.01)
        time_KS[~(time_KS > 0) | np.isfinite(bytes_KS) & ~same_KS] = np.nan
    return Transfers(
        ranks,
        step_S,
        window_S[np.searchsorted(steps, step_S)],
        channels,
        time_KS,
        num_KS,
        of["longest_ms"],
        of["wait_ms"],
        comparable_sets(channels, num_KS, bytes_KS),
    )


def steps_of(tables: Mapping[str, pa.Table]) -> tuple[Ints, Floats]:
    """Finished steps, and how long they take: ms, median over the ranks."""
    _, steps, cells = spread_cells(tables["rank_phases"].select(["rank", "step", "step_ms"]))
    return steps, middles(cells["step_ms"])


def _keys(params: pa.Table) -> tuple[Ints, Ints]:
    """(group, rank, peer) of every channel, and the number of the channel of every row."""
    group_G, group_N = np.unique(params["group_id"].to_numpy(), return_inverse=True)
    rank_N, peer_N = (params[name].to_numpy().astype(np.int64) + 1 for name in ("rank", "peer"))
    width = int(peer_N.max(initial=0)) + 1
    key_K, row = np.unique((group_N * width + rank_N) * width + peer_N, return_inverse=True)
    parts = (group_G[key_K // width**2], key_K // width % width - 1, key_K % width - 1)
    return np.stack(parts, axis=1), row.astype(np.int64)


def _usual(value_KS: Floats) -> Floats:
    return np.array([middle(value_S) for value_S in value_KS]).reshape(-1, 1)


def _channels(key_K3: Ints, groups: pa.Table, ranks: Ranks) -> tuple[Channel, ...]:
    known = {row["group_id"]: row for row in groups.to_pylist()}
    row_of = {int(rank): row for row, rank in enumerate(ranks.rank_R)}
    channels = []
    for group_id, rank, peer in key_K3.tolist():
        group = known.get(group_id, {"axis": "unknown", "ranks": []})
        members = tuple(group["ranks"]) if peer < 0 else (rank, peer)
        rows = tuple(row_of[member] for member in members if member in row_of)
        hosts = [ranks.host_R[row] for row in rows]
        known_hosts = frozenset(host for host in hosts if host) if all(hosts) else frozenset()
        channels.append(Channel(members, group["axis"], peer >= 0, known_hosts, rows))
    return tuple(channels)


def comparable_sets(channels: Sequence[Channel], num_KS: Floats, bytes_KS: Floats) -> Ints:
    """Of every channel the number of its set of comparable ones."""
    described = [
        (
            "" if c.is_pair else c.axis,
            len(c.ranks),
            len(c.hosts) > 1,
            middle(num_S),
            _rounded(middle(bytes_S)),
        )
        for c, num_S, bytes_S in zip(channels, num_KS, bytes_KS, strict=True)
    ]
    numbers = {description: number for number, description in enumerate(dict.fromkeys(described))}
    return np.array([numbers[description] for description in described], np.int64)


def _rounded(num_bytes: float) -> int:
    """The same for sizes that differ by less than some percent; -1 unknown."""
    return round(np.log(num_bytes) * 20) if np.isfinite(num_bytes) and num_bytes > 0 else -1


def slow_channels(transfers: Transfers) -> Slow:
    """Channels that were slow for a while and cost something, in their order and that of time."""
    suspect_KS = _suspects(transfers)
    usual_KS, num_KS = _peers(transfers, suspect_KS)
    onsets, everywhere = _onsets(transfers, suspect_KS)
    for onset in onsets:
        span = slice(onset.episode.first, onset.episode.last + 1)
        usual_KS[onset.rows_N, span] = onset.level_ms
        num_KS[onset.rows_N, span] = 0
    with np.errstate(invalid="ignore"):
        slow_KS = transfers.time_KS / usual_KS - 1
    least_K = _noises(transfers, slow_KS, suspect_KS, num_KS)
    slow: list[SlowChannel] = []
    cheap: list[SlowChannel] = []
    for k in np.flatnonzero(may_be_slow(slow_KS, least_K)).tolist():
        for episode in episodes(slow_KS[k], float(least_K[k])):
            span = slice(episode.first, episode.last + 1)
            num_others = int(np.median(num_KS[k, span]))
            slowness = _measured(transfers, usual_KS[k], k, episode, num_others)
            costs = slowness.lost_ms >= LEAST_COST * _window_ms(transfers, episode)
            (slow if costs else cheap).append(slowness)
    return Slow(tuple(slow), tuple(_shown(transfers, everywhere)), tuple(cheap))


def _shown(transfers: Transfers, everywhere: list[SetOnset]) -> list[SlowChannel]:
    """The costliest channel of each set that rose with all others, where they cost something."""
    shown = []
    for onset in everywhere:
        level_S = np.full(transfers.step_S.size, onset.level_ms)
        measured = [_measured(transfers, level_S, int(k), onset.episode, 0) for k in onset.rows_N]
        shown.append(max(measured, key=lambda channel: np.nan_to_num(channel.lost_ms, nan=-np.inf)))
    lost_ms = sum(channel.lost_ms for channel in shown)
    enough = bool(shown) and lost_ms >= LEAST_COST * _window_ms(transfers, shown[0].episode)
    return shown if enough else []


def _window_ms(transfers: Transfers, episode: Episode) -> float:
    return middle(transfers.window_S[episode.first : episode.last + 1])


def _measured(
    transfers: Transfers, usual_S: Floats, k: int, episode: Episode, num_others: int
) -> SlowChannel:
    span = slice(episode.first, episode.last + 1)
    lost_S = (transfers.time_KS[k, span] - usual_S[span]) * transfers.num_KS[k, span]
    return SlowChannel(
        k,
        episode,
        middle(lost_S),
        middle(transfers.time_KS[k, span]),
        middle(usual_S[span]),
        num_others,
    )


def _suspects(transfers: Transfers) -> Bools:
    """Steps of channels that are left out of what is usual."""
    suspect_KS = np.zeros(transfers.time_KS.shape, np.bool_)
    for rows in transfers.sets:
        if rows.size > 1:
            time_NS = transfers.time_KS[rows]
            known_NS = np.where(np.isfinite(time_NS), time_NS, np.inf)
            quick_S = np.quantile(known_NS, _QUICK, axis=0, method="lower")
            with np.errstate(invalid="ignore"):
                excess_NS = time_NS / quick_S - 1
            least = max(step_noise(excess_NS), FEW_EXCESS)
            for n in np.flatnonzero(may_be_slow(excess_NS, np.full(rows.size, least))).tolist():
                for episode in episodes(excess_NS[n], least):
                    begin = max(episode.first - _NEAR, 0)
                    suspect_KS[rows[n], begin : episode.last + _NEAR + 1] = True
    return suspect_KS


def _peers(transfers: Transfers, suspect_KS: Bools) -> tuple[Floats, Ints]:
    """What comparable ones take, ms, and how many of them are known."""
    usual_KS = np.full(transfers.time_KS.shape, np.nan)
    num_KS = np.zeros(transfers.time_KS.shape, np.int64)
    trusted_KS = _trusted(transfers, suspect_KS)
    for rows in transfers.sets:
        trusted_NS = trusted_KS[rows]
        usual_KS[rows] = medians_of_others(trusted_NS, np.ones(rows.size, np.bool_))
        is_known_NS = np.isfinite(trusted_NS)
        num_KS[rows] = is_known_NS.sum(axis=0) - is_known_NS
    return usual_KS, num_KS


def _trusted(transfers: Transfers, suspect_KS: Bools) -> Floats:
    return np.where(suspect_KS, np.nan, transfers.time_KS)


def _onsets(transfers: Transfers, suspect_KS: Bools) -> tuple[list[SetOnset], list[SetOnset]]:
    """Sets that take longer than before: some of them; all of them together."""
    onsets, known = [], 0
    trusted_KS = _trusted(transfers, suspect_KS)
    for rows in transfers.sets:
        level_S = middles(trusted_KS[rows])
        before = level_before(level_S)
        if not np.isfinite(before):
            continue
        known += 1
        excess_S = level_S / before - 1
        least = max(step_noise(excess_S), MIN_EXCESS)
        onsets += [
            SetOnset(rows, episode, before)
            for episode in episodes(excess_S, least)
            if episode.first >= _FEWEST_BEFORE
        ]
    for onset in onsets:
        same = [other for other in onsets if overlap(onset.episode, other.episode)]
        if len({int(other.rows_N[0]) for other in same}) == known:
            return [other for other in onsets if other not in same], same
    return onsets, []


def overlap(episode: Episode, other: Episode) -> bool:
    """Whether two episodes share more than half of the longer one."""
    shared = min(episode.last, other.last) - max(episode.first, other.first) + 1
    return shared > max(episode.last - episode.first, other.last - other.first) / 2


def _noises(transfers: Transfers, slow_KS: Floats, suspect_KS: Bools, num_KS: Ints) -> Floats:
    """From where on a channel is slow: 3 MAD of comparable ones that are not slow, of its own steps
    where they are few.
    """
    noise_K = np.full(len(transfers.channels), MIN_EXCESS)
    num_K = np.median(num_KS, axis=1) if num_KS.size else np.zeros(len(transfers.channels))
    for rows in transfers.sets:
        cells = slow_KS[rows][~suspect_KS[rows]]
        noise = NOISE_MADS * middle(np.abs(cells - middle(cells)))
        noise_K[rows] = np.fmax(noise, MIN_EXCESS)
        for k in rows[num_K[rows] < MIN_PEERS].tolist():
            least = FEW_EXCESS if num_K[k] else MIN_EXCESS
            noise_K[k] = max(step_noise(slow_KS[k]), least)
    return noise_K


def transfers_missing(name: str, transfers: Transfers) -> tuple[NotEnoughData, ...]:
    """Why transfers judge nothing here, for the detector `name`; empty where they do."""
    if not np.isfinite(transfers.time_KS).any():
        reason = (
            "No transfers are known: they need collectives with all members, on aligned clocks."
        )
        return (NotEnoughData(name, reason),)
    return steps_missing(name, transfers.step_S.size)


def beyond_cores(slow: Slow) -> Slow:
    """What is slow however late threads get their cores: single channels that take KEPT_TIMES as
    long as comparable ones in the same steps.
    """
    far = [
        tuple(c for c in channels if c.num_others and c.own_ms >= KEPT_TIMES * c.others_ms)
        for channels in (slow.channels, slow.cheap)
    ]
    return Slow(far[0], (), far[1])
