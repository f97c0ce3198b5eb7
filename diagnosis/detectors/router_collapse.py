"""router_collapse: a router sends nearly all tokens to a few of the experts.

The entropy of the loads / ln E is below 0.5 in 20 steps in a row. Where each token goes to many of
the experts, K of E, entropy cannot get as low: there the level lies a quarter of the way from the
least that is possible. All collapsed layers are one finding.

Source: no thresholds are published: ours. Known false positives: models whose first layers route by
hash or language on data of one kind. Blind spots: routers that are uneven since the first 20 steps
and less so with each step, for up to 200 steps; routers that leave out choices because experts are
full, which is said. Cost: one pass over the loads.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from diagnosis.experts.findings import (
    MOST_EVIDENCE,
    expert_view,
    extent_of,
    in_layers,
    load_params,
    num_layers,
    settled_text,
    severity_of,
    spans_of,
    too_many_dropped,
    when_of,
)
from diagnosis.experts.load import layers_of
from diagnosis.experts.stretches import CONSECUTIVE, Uneven, collapses
from diagnosis.findings import Evidence, Finding, NotEnoughData, Verdict

NAME = "router_collapse"
KINDS = ("router_collapse",)
QUESTIONS = ("expert_load",)

MOST_TOKENS = 0.9
"""How many experts have this part of the choices is said."""


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
    """Verdict on the steps in `tables`; None where no router was recorded."""
    layers = layers_of(tables["expert_load"])
    if not layers:
        return None
    judged = [load for load in layers if load.step_S.size >= CONSECUTIVE]
    if not judged:
        reason = f"Loads of experts were recorded in fewer than {CONSECUTIVE} steps."
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, reason),))
    found: list[Uneven] = []
    settled: list[Uneven] = []
    for load in judged:
        collapsed, settling = collapses(load)
        found += collapsed
        settled += settling
    aside = (settled_text(settled),) if settled else ()
    findings = (_finding(found, attempt),) if found else ()
    full, sound = too_many_dropped(NAME, judged, found)
    checked = None
    if sound and not found:
        checked = f"Routers of {num_layers(sound)} spread tokens over most of their experts."
    return Verdict(NAME, findings, checked, full, aside)


def _finding(found: list[Uneven], attempt: int) -> Finding:
    first, last, ongoing = extent_of(found)
    worst = min(found, key=lambda one: one.level)
    layers = in_layers(one.load for one in found)
    is_one = len({one.load.key for one in found}) == 1
    spans = spans_of(found)
    return Finding(
        kind="router_collapse",
        attempt=attempt,
        severity=severity_of(ongoing, is_urgent=True),
        confidence="high",
        title=f"The {'router' if is_one else 'routers'} of {layers} "
        f"{'has' if is_one else 'have'} collapsed",
        text=f"In {worst.where} {_busiest(worst)} of {worst.load.experts} experts take "
        f"{MOST_TOKENS:.0%} of the tokens, {when_of(found)}.",
        first_step=first,
        last_step=last,
        ongoing=ongoing,
        evidence=tuple(
            _evidence(one, attempt)
            for one in sorted(found, key=lambda one: one.level)[:MOST_EVIDENCE]
        ),
        alternatives=("Layers that route by a fixed rule (a hash, a language) on uniform data.",),
        next_step="Go back to the checkpoint before, with a larger load-balancing loss (or bias "
        "step), a loss on large router logits (z-loss), or routers in float32: once collapsed, the "
        "other experts get no gradients.",
        cause="The router prefers few experts, which are trained more and preferred more.",
        episodes=spans if len(spans) > 1 else (),
    )


def _busiest(one: Uneven) -> int:
    """How many experts have MOST_TOKENS of all choices, over its steps."""
    tokens_E = one.load.tokens_SE[one.stretch.first : one.stretch.last + 1].sum(axis=0)
    share_E = np.cumsum(np.sort(tokens_E)[::-1]) / max(tokens_E.sum(), 1.0)
    return int(np.searchsorted(share_E, MOST_TOKENS) + 1)


def _evidence(one: Uneven, attempt: int) -> Evidence:
    return Evidence(
        f"In the median step the entropy of the loads of {one.where} is {one.level:.0%} of "
        f"that of {one.load.experts} equal ones.",
        round(100 * one.level, 4),
        "%",
        "expert_load",
        load_params(one, attempt),
        expert_view(one, attempt),
    )
