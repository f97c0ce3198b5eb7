"""Transfers of groups and links, against comparable ones and their own past."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.statistics.episodes import Episode
from diagnosis.statistics.transfer_times import (
    beyond_cores,
    overlap,
    slow_channels,
    transfers_missing,
    transfers_of,
)
from tests.diagnosis.transfer_tables import USUAL_MS, transfer_tables
from trace_hooks.layout import ParallelLayout

LAYOUT = ParallelLayout.from_sizes(pp=2, dp=4, tp=2)
STEPS = 20


def test_every_group_and_link_is_a_channel_among_comparable_ones() -> None:
    transfers = transfers_of(transfer_tables(LAYOUT, STEPS, lambda axis, ranks, step: 1.0))
    pairs = [channel.ranks for channel in transfers.channels if channel.is_pair]
    assert sorted(pairs) == [(rank, rank + 8) for rank in range(8)]
    assert transfers.step_S.tolist() == list(range(STEPS))
    for rows in transfers.sets:
        assert len({transfers.channels[k].axis for k in rows}) == 1
        usual = np.nanmedian(transfers.time_KS[rows])
        assert any(usual == pytest.approx(ms, rel=0.05) for ms in USUAL_MS.values())
    (world,) = [k for k in range(len(transfers.channels)) if transfers.spans_job(k)]
    assert len(transfers.channels[world].ranks) == LAYOUT.world_size


def test_one_slow_link_is_measured_against_the_others() -> None:
    def factor(axis: str, ranks: tuple[int, ...], step: int) -> float:
        return 5.0 if ranks == (3, 11) and step >= 8 else 1.0

    transfers = transfers_of(transfer_tables(LAYOUT, STEPS, factor))
    slow = slow_channels(transfers)
    assert slow.everywhere == ()
    (channel,) = slow.channels
    assert transfers.channels[channel.k].ranks == (3, 11)
    assert (channel.episode.first, channel.episode.last) == (8, STEPS - 1)
    assert channel.num_others == 7
    assert channel.own_ms / channel.others_ms == pytest.approx(5, rel=0.1)


def test_hosts_that_are_slow_one_after_the_other() -> None:
    """Each of the groups is slow at some time, so that none is a peer all the time."""

    def factor(axis: str, ranks: tuple[int, ...], step: int) -> float:
        first = 10 if ranks[0] < 8 else 40
        return 10.0 if axis == "dp" and first <= step < first + 15 else 1.0

    slow = slow_channels(transfers_of(transfer_tables(LAYOUT, 60, factor)))
    spans = {(c.episode.first, c.episode.last) for c in slow.channels}
    assert spans == {(10, 24), (40, 54)}
    assert len(slow.channels) == 4
    assert {channel.num_others for channel in slow.channels} == {2}


def test_where_ranks_wait_for_cores_only_what_is_far_slower_counts() -> None:
    def factor(axis: str, ranks: tuple[int, ...], step: int) -> float:
        return {(3, 11): 8.0, (2, 10): 2.5}.get(ranks, 1.0) if step >= 8 else 1.0

    slow = slow_channels(transfers_of(transfer_tables(LAYOUT, STEPS, factor)))
    assert len(slow.channels) + len(slow.cheap) == 2
    left = beyond_cores(slow)
    assert [round(c.own_ms / c.others_ms) for c in (*left.channels, *left.cheap)] == [8]


def test_what_rises_together_is_slow_everywhere() -> None:
    given = transfer_tables(LAYOUT, 40, lambda axis, ranks, step: 3.0 if step >= 20 else 1.0)
    slow = slow_channels(transfers_of(given))
    assert slow.channels == ()
    assert {channel.num_others for channel in slow.everywhere} == {0}
    assert {channel.episode.first for channel in slow.everywhere} == {20}


def test_without_transfers_nothing_is_judged() -> None:
    given = transfer_tables(LAYOUT, STEPS, lambda axis, ranks, step: 1.0)
    assert transfers_missing("x", transfers_of(given)) == ()
    empty = given | {"transfers": given["transfers"].slice(0, 0)}
    (missing,) = transfers_missing("x", transfers_of(empty))
    assert "No transfers are known: they need collectives" in missing.missing


def test_episodes_overlap_by_more_than_half_of_the_longer_one() -> None:
    assert overlap(Episode(0, 9, 1.0), Episode(4, 9, 1.0))
    assert not overlap(Episode(0, 9, 1.0), Episode(8, 12, 1.0))
