"""Cores for what runs side by side are those that this process may use."""

from __future__ import annotations

import os

from ingest.cpu_count import num_cores


def test_a_process_bound_to_one_core_counts_one() -> None:
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert num_cores() == 1
    finally:
        os.sched_setaffinity(0, allowed)
    assert num_cores() == len(allowed)
