"""Sends and receives of a recorded job, each with the compute it serves.

The k-th send from one stage to another carries the output of the k-th compute whose output goes
there. A transfer is over when its receiver has it: senders see the end only when they next wait.
A receiver that did not have to wait saw no end either: its transfer took at most what the median of
the others did.

Lanes send to themselves. Where a step's transfers are known of some lanes of a dp rank only, these
show it; where of none, stages hand over at once.

Shape suffixes: E edge, a compute whose output goes to another stage; I recorded instance; L lane.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diagnosis.whatif.operations import Bools, Ints, NotAnswerable
from diagnosis.whatif.optypes import BACKWARD_RECV, BACKWARD_SEND, FORWARD_RECV, FORWARD_SEND
from diagnosis.whatif.recorded.compute import Compute
from diagnosis.whatif.recorded.rows import Rows, Spans, joined_key

SEEN_AT_ONCE_NS = 50_000
"""Who waited for a receive less than this had it already (a check alone takes 4-10 us)."""

_NOT_RECORDED = (
    "Sends and receives are not recorded for every output of a stage: stages hand over at once."
)
_OPS = {True: (FORWARD_SEND, FORWARD_RECV), False: (BACKWARD_SEND, BACKWARD_RECV)}


@dataclass(frozen=True)
class _Edges:
    """Indices of compute ops; sorted by lane, stages and the giver's end."""

    giver_E: Ints
    taker_E: Ints


@dataclass(frozen=True)
class _Instances:
    """Recorded transfers, sorted by lane, stages and when the sender was ready; ns."""

    sent_I: Ints
    posted_I: Ints
    arrived_I: Ints
    key_I: Ints


def add_transfers(rows: Rows, spans: Spans, compute: Compute) -> list[str]:
    """Append the transfers of all stages; returns notes. Raises NotAnswerable."""
    if spans.sizes.pp == 1:
        return []
    if (compute.microbatch_C < 0).any():
        raise NotAnswerable(
            "micro-batches were not recorded, so nobody knows which forward of a stage feeds "
            "which of the next"
        )
    edges = _edges(spans, compute)
    taken, notes = edges, []
    sent, posted = compute.end_C[edges.giver_E], compute.begin_C[edges.taker_E]
    ready = arrived = np.maximum(sent, posted)
    instances = _instances(spans)
    known_L = _known(spans, compute, edges, instances)
    if _is_known(spans, compute, known_L):
        known_E = known_L[spans.lane(compute.group_C[edges.giver_E])]
        known_I = known_L[instances.key_I // spans.sizes.pp // spans.sizes.pp]
        taken = _Edges(edges.giver_E[known_E], edges.taker_E[known_E])
        sent = np.maximum(sent[known_E], instances.sent_I[known_I])
        posted = np.minimum(posted[known_E], instances.posted_I[known_I])
        ready = np.maximum(sent, posted)
        arrived = np.maximum(instances.arrived_I[known_I], ready)
    else:
        notes.append(_NOT_RECORDED)
    _add(rows, compute, taken, (sent, posted, arrived, arrived - ready))
    if compute.num_virtual > compute.num_stages:
        _add_idle(rows, compute, edges.giver_E, edges.taker_E)
    return notes


def _add(rows: Rows, compute: Compute, edges: _Edges, times: tuple[Ints, Ints, Ints, Ints]) -> None:
    """Sends and receives of all edges; `times`: sent, posted, arrived, and how long each took."""
    for is_forward, (send, receive) in _OPS.items():
        E = compute.is_forward_C[edges.giver_E] == is_forward
        sent, posted, arrived, took = (time[E] for time in times)
        for optype, op, begin in (
            (send, edges.giver_E[E], sent),
            (receive, edges.taker_E[E], posted),
        ):
            rows.add(optype, compute.group_C[op], compute.seq_C[op], -1, begin, arrived, own=took)


def _known(spans: Spans, compute: Compute, edges: _Edges, instances: _Instances) -> Bools:
    """Lanes of which a transfer is recorded for every output, and no other."""
    keys_E = _edge_keys(spans, compute, edges.giver_E, edges.taker_E)
    size = spans.num_groups * spans.sizes.pp
    differs = np.bincount(keys_E, minlength=size) != np.bincount(instances.key_I, minlength=size)
    differing: Bools = differs.reshape(spans.num_lanes, -1).any(axis=1)
    return ~differing


def _is_known(spans: Spans, compute: Compute, known_L: Bools) -> bool:
    """Whether in each step of each dp rank the transfers of some lane with compute are known."""
    computes_L = np.zeros(spans.num_lanes, np.bool_)
    computes_L[spans.lane(compute.group_C)] = True
    shape = (-1, spans.num_members)
    is_known = np.any((known_L & computes_L).reshape(shape), axis=1)
    return bool(np.all(is_known | ~np.any(computes_L.reshape(shape), axis=1)))


def _edges(spans: Spans, compute: Compute) -> _Edges:
    """Givers and takers of all outputs; raises NotAnswerable where takers' order differs."""
    lane = spans.lane(compute.group_C)
    ahead = np.where(compute.is_forward_C, 1, -1)
    out = compute.virtual_C + ahead
    gives = (out >= 0) & (out < compute.num_virtual)
    giver = np.flatnonzero(gives)
    identity = (lane, compute.is_forward_C.astype(np.int64), compute.microbatch_C)
    own = joined_key(
        *(np.concatenate([c, c[giver]]) for c in identity),
        np.concatenate([compute.virtual_C, out[giver]]),
    )
    place = np.full(int(own.max()) + 1, -1)
    place[own[: len(compute.group_C)]] = np.arange(len(compute.group_C))
    taker = place[own[len(compute.group_C) :]]
    if (taker < 0).any():
        giver, taker = giver[taker >= 0], taker[taker >= 0]
    stage = spans.stage(compute.group_C)
    order = np.lexsort((compute.end_C[giver], stage[taker], stage[giver], lane[giver]))
    giver, taker = giver[order], taker[order]
    _check_order(spans, compute, giver, taker)
    return _Edges(giver, taker)


def _check_order(spans: Spans, compute: Compute, giver: Ints, taker: Ints) -> None:
    """Whether takers of one direction take in the order in which givers give."""
    key = _edge_keys(spans, compute, giver, taker) * 2 + compute.is_forward_C[giver]
    order = np.argsort(key, kind="stable")
    same = key[order][1:] == key[order][:-1]
    if (same & (np.diff(compute.seq_C[taker][order]) < 0)).any():
        raise NotAnswerable(
            "stages take micro-batches in another order than the stage before gives them, which "
            "the replay does not follow"
        )


def _edge_keys(spans: Spans, compute: Compute, giver: Ints, taker: Ints) -> Ints:
    return _key(spans, compute.group_C[giver], compute.group_C[taker])


def _key(spans: Spans, source: Ints, target: Ints) -> Ints:
    return source * spans.sizes.pp + spans.stage(target)


def _instances(spans: Spans) -> _Instances:
    """Recorded sends with their receives, between ranks of one lane."""
    sends, receives = spans.rows_of_kind("send"), spans.rows_of_kind("recv")
    source = np.concatenate([spans.rank_N[sends], spans.peer_N[receives]])
    target = np.concatenate([spans.peer_N[sends], spans.rank_N[receives]])
    both = np.concatenate([sends, receives])
    key = joined_key(
        spans.step(spans.group_N[both]), source, target, spans.tag_N[both], spans.seq_N[both]
    )
    place = np.full(int(key.max(initial=-1)) + 1, -1)
    place[key[len(sends) :]] = receives
    receive = place[key[: len(sends)]]
    sends, receive = sends[receive >= 0], receive[receive >= 0]
    same = spans.lane(spans.group_N[sends]) == spans.lane(spans.group_N[receive])
    sends, receive = sends[same], receive[same]
    group = _key(spans, spans.group_N[sends], spans.group_N[receive])
    order = np.lexsort((spans.begin_N[sends], group))
    sends, receive = sends[order], receive[order]
    sent, posted = spans.begin_N[sends], spans.begin_N[receive]
    arrived = _arrivals(np.maximum(sent, posted), spans.end_N[receive], spans.waited_N[receive])
    return _Instances(sent, posted, arrived, group[order])


def _arrivals(ready: Ints, seen: Ints, waited: Ints) -> Ints:
    """When receivers had what they were sent; `seen`: when they noticed, perhaps long after."""
    unseen = (waited >= 0) & (waited < SEEN_AT_ONCE_NS)
    if not unseen.any():
        return seen
    took = (seen - ready)[~unseen]
    typical = int(np.median(took[took >= 0])) if (took >= 0).any() else 0
    return np.where(unseen, np.minimum(seen, ready + typical), seen)


def _add_idle(rows: Rows, compute: Compute, giver: Ints, taker: Ints) -> None:
    """Where stages have chunks every compute has transfers: at the pipeline's ends empty ones."""
    for is_forward, (send, receive) in _OPS.items():
        for optype, busy, at in ((send, giver, compute.end_C), (receive, taker, compute.begin_C)):
            idle = compute.is_forward_C == is_forward
            idle[busy] = False
            rows.add(optype, compute.group_C[idle], compute.seq_C[idle], -1, at[idle], at[idle])
