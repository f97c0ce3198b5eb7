"""Depths of spans on one track: nested ones as called, overlapping ones on free lanes."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest

from ingest.readers.tables import nesting
from ingest.readers.tables.nesting import depths


def _depths(spans: list[tuple[int, int, int]]) -> list[int]:
    track, start_ns, dur_ns = (np.array(column) for column in zip(*spans, strict=True))
    return depths(track, start_ns, dur_ns).tolist()


def test_nested_spans_lie_as_deep_as_they_were_called() -> None:
    outer, inner, innermost, sibling = (0, 0, 100), (0, 10, 30), (0, 15, 5), (0, 50, 10)
    assert _depths([inner, sibling, outer, innermost]) == [1, 1, 0, 2]


def test_overlapping_kernels_are_stacked_on_free_lanes() -> None:
    chain = [(7, start, 15) for start in range(0, 100, 10)]  # each outlives the one before
    levels = _depths(chain)
    assert max(levels) == 1
    assert levels == [0, 1] * 5


def test_tracks_do_not_touch_each_other() -> None:
    assert _depths([(0, 0, 10), (1, 5, 10), (0, 10, 5)]) == [0, 0, 0]


@pytest.mark.parametrize("spans_at_once", [2, 1 << 16])
def test_no_two_spans_share_a_lane_at_one_time(
    monkeypatch: pytest.MonkeyPatch, spans_at_once: int
) -> None:
    monkeypatch.setattr(nesting, "SPANS_AT_ONCE", spans_at_once)
    rng = random.Random(3)
    spans = [(rng.randrange(2), rng.randrange(500), rng.randrange(1, 60)) for _ in range(300)]
    lanes: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for (track, start, dur), depth in zip(spans, _depths(spans), strict=True):
        lanes.setdefault((track, depth), []).append((start, start + dur))
    for used in lanes.values():
        used.sort()
        assert all(a[1] <= b[0] for a, b in pairwise(used))
