"""Discrete-event simulation of ping-pong, without any formula: who computes what when."""

from __future__ import annotations

import heapq


def simulated(
    attention: float, experts: float, transfer: float, micro_batches: int, layers: int
) -> tuple[float, float, float]:
    """End of the last combine, and for how long attention and experts were busy until then.

    Four servers (attention, dispatch, experts, combine), each with one micro-batch at a time, in
    the order in which they come.
    """
    takes = (attention, transfer, experts, transfer)
    free_at = [0.0] * len(takes)
    busy = [0.0] * len(takes)
    end = 0.0
    arrivals = [(0.0, number, number, 0) for number in range(micro_batches)]
    heapq.heapify(arrivals)
    order = micro_batches
    while arrivals:
        at, _, number, stage = heapq.heappop(arrivals)
        server = stage % len(takes)
        free_at[server] = max(at, free_at[server]) + takes[server]
        busy[server] += takes[server]
        end = max(end, free_at[server])
        if stage + 1 < layers * len(takes):
            heapq.heappush(arrivals, (free_at[server], order, number, stage + 1))
            order += 1
    return end, busy[0], busy[2]
