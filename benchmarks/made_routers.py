"""Routers that choose experts token by token, healthy or with a fault: answers that detectors read.

Every token chooses K different experts. T tokens, K choices of each, E experts, S steps, L layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

HEALTHY = ("fair", "uneven", "settling", "varying", "topical")
"""All experts alike; some a little preferred; uneven at first; steps of different sizes; others
preferred in each step, for what its tokens are about."""
FAULTS = ("hot", "dead", "collapsed", "full")
"""One expert; one expert; the router uses few; the experts of one EP rank."""
EP = 4
STEP_MS, EXPERTS_MS = 100.0, 30.0


@dataclass(frozen=True)
class Router:
    """The routers of a model: `kind` of HEALTHY, or of FAULTS in the last layer from `onset` on."""

    kind: str
    experts: int
    top_k: int
    tokens: int
    num_steps: int = 140
    layers: int = 2
    onset: int = 0
    expert: int = 0
    times: float = 3.0
    """load of a hot expert, or of a full EP rank, / mean"""
    few: int = 2
    """experts that a collapsed router uses"""
    settle_steps: float = 15.0


def tables_of(router: Router, seed: int) -> dict[str, pa.Table]:
    """Answers of expert_load, expert_places and expert_times."""
    chance = np.random.default_rng(seed)
    loads_SLE = np.stack([_step(chance, router, step) for step in range(router.num_steps)])
    return {
        "expert_load": _loads(router, loads_SLE),
        "expert_places": _places(router),
        "expert_times": _times(chance, router, loads_SLE),
    }


def until(tables: Mapping[str, pa.Table], num_steps: int) -> dict[str, pa.Table]:
    """The same when so many steps were finished."""
    load = tables["expert_load"]
    keep = np.flatnonzero(load["step"].to_numpy() < num_steps)
    return {**tables, "expert_load": load.take(pa.array(keep))}


def _step(chance: np.random.Generator, router: Router, step: int) -> Ints:
    tokens = router.tokens
    if router.kind == "varying":
        tokens = int(chance.integers(tokens // 4, tokens))
    layers = []
    for layer in range(router.layers):
        is_off = layer == router.layers - 1 and step >= router.onset
        chosen_TK = _chosen(chance, _shares(router, layer, step), tokens, router.top_k)
        if is_off:
            chosen_TK = _with_fault(chance, router, chosen_TK)
        layers.append(np.bincount(chosen_TK.ravel(), minlength=router.experts))
    return np.stack(layers)


def _shares(router: Router, layer: int, step: int) -> Floats:
    """How often each expert is chosen, (E,)."""
    spread = {"uneven": 0.12, "settling": 0.08 + np.exp(-step / router.settle_steps)}.get(
        router.kind, 0.0
    )
    if router.kind == "topical":
        return _preferring(0.3, 1_000 * (layer + 1) + step, router.experts)
    return _preferring(spread, 100 + layer, router.experts)


def _preferring(spread: float, seed: int, experts: int) -> Floats:
    share_E = np.exp(spread * np.random.default_rng(seed).normal(0, 1, experts))
    return share_E / share_E.sum()


def _chosen(chance: np.random.Generator, share_E: Floats, tokens: int, top_k: int) -> Ints:
    """Experts of each token, all different: (T, K)."""
    ends_E = np.cumsum(share_E)[:-1]
    chosen_TK = np.empty((tokens, top_k), np.int64)
    again = np.arange(tokens)
    while again.size:
        drawn_TK = np.searchsorted(ends_E, chance.random((again.size, top_k)))
        chosen_TK[again] = drawn_TK
        ordered_TK = np.sort(drawn_TK, axis=1)
        again = again[(ordered_TK[:, 1:] == ordered_TK[:, :-1]).any(axis=1)]
    return chosen_TK


def _with_fault(chance: np.random.Generator, router: Router, chosen_TK: Ints) -> Ints:
    experts, top_k, expert = router.experts, router.top_k, router.expert
    tokens = len(chosen_TK)
    if router.kind == "hot":
        wanted = router.times * top_k / experts
        has_T = (chosen_TK == expert).any(axis=1)
        more_T = ~has_T & (chance.random(tokens) < (wanted - has_T.mean()) / (1 - has_T.mean()))
        chosen_TK[more_T, 0] = expert
    elif router.kind == "dead":
        others_E = np.full(experts, 1 / (experts - 1))
        others_E[expert] = 0
        chosen_TK = _chosen(chance, others_E, tokens, top_k)
    elif router.kind == "collapsed":
        rank_TF = np.argsort(chance.random((tokens, router.few)), axis=1)
        is_few_T = chance.random(tokens) < 0.98
        chosen_TK[is_few_T] = expert + rank_TF[is_few_T, :top_k]
    elif router.kind == "full":
        size = experts // EP
        first = expert // size * size
        share_E = np.ones(experts)
        share_E[first : first + size] = router.times * (EP - 1) / (EP - router.times)
        chosen_TK = _chosen(chance, share_E / share_E.sum(), tokens, top_k)
    return chosen_TK


def _loads(router: Router, loads_SLE: npt.NDArray[np.int64]) -> pa.Table:
    num_steps, layers, experts = loads_SLE.shape
    num = num_steps * layers
    top_k = np.full(num, router.top_k, np.int32)
    offsets = np.arange(0, num * experts + 1, experts, dtype=np.int32)
    return pa.table(
        {
            "step": np.repeat(np.arange(num_steps), layers),
            "layer": np.tile(np.arange(layers, dtype=np.int32), num_steps),
            "name": pa.array([_name(n % layers) for n in range(num)]),
            "top_k": top_k,
            "batch_tokens": loads_SLE.sum(axis=2).ravel() // router.top_k,
            "dropped": np.zeros(num, np.int64),
            "tokens": pa.ListArray.from_arrays(offsets, loads_SLE.ravel()),
        }
    )


def _name(layer: int) -> str:
    return f"layers.{layer}.mlp.router"


def _places(router: Router) -> pa.Table:
    size = router.experts // EP
    rows = [
        {"layer": layer, "name": _name(layer), "ep": ep, "first_expert": size * ep,
         "local_experts": size, "ranks": [ep], "num_ranks": 1}
        for layer in range(router.layers)
        for ep in range(EP)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows)


def _times(
    chance: np.random.Generator, router: Router, loads_SLE: npt.NDArray[np.int64]
) -> pa.Table:
    """Experts take time in proportion to their tokens."""
    newest_LE = loads_SLE[-20:].sum(axis=0)
    part_LP = newest_LE.reshape(router.layers, EP, -1).sum(axis=2) / newest_LE.sum(axis=1)[:, None]
    took_P = EXPERTS_MS * EP * part_LP.mean(axis=0) * chance.normal(1, 0.01, EP)
    rows = [
        {"rank": ep, "stage": 0, "ep": ep, "group_id": 7, "all_to_all_p50_ms": 1.0,
         "transfer_ms": 0.8, "attention_ms": 2.0, "expert_ms": took_P[ep] / 6,
         "expert_step_ms": took_P[ep], "micro_batches": 1, "layers": router.layers,
         "step_ms": STEP_MS, "first_step": max(router.num_steps - 20, 0),
         "last_step": router.num_steps - 1}
        for ep in range(EP)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows)
