"""What findings on experts have in common: their names, the steps, where to look."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from diagnosis.experts.load import LayerLoad
from diagnosis.experts.stretches import Uneven
from diagnosis.findings import NotEnoughData
from diagnosis.statistics.evidence_links import Params, View, question_params
from diagnosis.statistics.units import steps_text, when_text

MOST_NAMED = 3
MOST_EVIDENCE = 5

MOST_DROPPED = 0.03
"""Of the choices, left out because experts are full: with more, what is left looks even."""


def named_experts(found: Sequence[Uneven]) -> str:
    """ "Expert 5 of layer 3", "Experts 5 and 6 of layer 3", "Expert 5 of 12 layers" or "12 experts
    of 4 layers".
    """
    layers = sorted({one.where for one in found})
    experts = sorted({one.expert for one in found})
    of = layers[0] if len(layers) == 1 else f"{len(layers)} layers"
    if len(experts) == 1:
        return f"Expert {experts[0]} of {of}"
    if len(layers) == 1 and len(experts) <= MOST_NAMED:
        return f"Experts {listed(experts)} of {of}"
    return f"{num_experts(found)} experts of {of}"


def num_experts(found: Sequence[Uneven]) -> int:
    """How many different experts they are."""
    return len({(one.load.key, one.expert) for one in found})


def listed(values: Iterable[Any]) -> str:
    """ "1, 2 and 3", of many the first, and how many more there are."""
    words = [str(value) for value in values]
    if len(words) > MOST_NAMED + 1:
        words = [*words[:MOST_NAMED], f"{len(words) - MOST_NAMED} more"]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def in_layers(loads: Iterable[LayerLoad]) -> str:
    """ "layer 3" or "layers 3, 4 and 7"; with names where numbers are not enough."""
    every = {load.where: load for load in sorted(loads, key=lambda load: load.key)}
    if len(every) == 1 or any(load.layer < 0 or load.num_routers > 1 for load in every.values()):
        return listed(every)
    return f"layers {listed(load.layer for load in every.values())}"


def extent_of(found: Sequence[Uneven]) -> tuple[int, int, bool]:
    """First and last step of all together, and whether they go on."""
    first = min(one.first_step for one in found)
    last = max(one.last_step for one in found)
    return first, last, any(one.is_ongoing for one in found)


def num_layers(loads: Sequence[LayerLoad]) -> str:
    """ "1 layer" or "6 layers"."""
    return f"{len(loads)} layer{'s' if len(loads) != 1 else ''}"


def spans_of(found: Sequence[Uneven]) -> tuple[tuple[int, int], ...]:
    """First and last steps in which some of them were, those that overlap as one."""
    spans: list[tuple[int, int]] = []
    for first, last in sorted((one.first_step, one.last_step) for one in found):
        if spans and first <= spans[-1][1] + 1:
            spans[-1] = spans[-1][0], max(spans[-1][1], last)
        else:
            spans.append((first, last))
    return tuple(spans)


def when_of(found: Sequence[Uneven]) -> str:
    """When they were: as when_text, or "in steps 0 to 149 and since step 851"."""
    *earlier, (first, last) = spans_of(found)
    ongoing = extent_of(found)[2]
    if not earlier:
        return when_text(first, last, ongoing)
    newest = f"since step {first}" if ongoing else steps_text(first, last)
    past = "" if ongoing else ", not since then"
    return f"in {listed([*(steps_text(*span) for span in earlier), newest])}{past}"


def severity_of(is_ongoing: bool, is_urgent: bool = False) -> str:
    """Severity of a finding."""
    if not is_ongoing:
        return "past"
    return "urgent" if is_urgent else "warning"


def experts_view(attempt: int, first: int, last: int) -> View:
    """The page Experts with these steps."""
    return (("page", "experts"), ("attempt", attempt), ("steps", (first, last)))


def expert_view(one: Uneven, attempt: int) -> View:
    """The page Experts with the steps of a stretch, and its expert selected, where it has one."""
    shown = experts_view(attempt, one.first_step, one.last_step)
    if one.expert < 0:
        return shown
    router = (one.load.router,) if one.load.num_routers > 1 else ()
    return (*shown, ("expert", (one.load.layer, one.expert, *router)))


def load_params(one: Uneven, attempt: int) -> Params:
    """Parameters of expert_load for the steps of a stretch, of its layer alone."""
    return question_params(one.first_step, one.last_step, attempt, layer=one.load.layer)


def settled_text(found: Sequence[Uneven]) -> str:
    """What stood out while routers settled."""
    first, last, _ = extent_of(found)
    where = in_layers(one.load for one in found)
    return (
        f"{where[0].upper()}{where[1:]}: uneven in {steps_text(first, last)}, and less so with "
        "each step: routers settle when training begins."
    )


def too_many_dropped(
    detector: str, judged: Sequence[LayerLoad], found: Sequence[Uneven]
) -> tuple[tuple[NotEnoughData, ...], list[LayerLoad]]:
    """What is not known of layers in which nothing was found, but choices are left out because
    experts are full: what remains is even. And the other layers.
    """
    known = {one.load.key for one in found}
    hidden: list[LayerLoad] = []
    sound: list[LayerLoad] = []
    for load in judged:
        is_hidden = load.dropped_share > MOST_DROPPED and load.key not in known
        (hidden if is_hidden else sound).append(load)
    if not hidden:
        return (), sound
    most = max(load.dropped_share for load in hidden)
    reason = (
        f"Routers of {in_layers(hidden)} leave out up to {most:.0%} of their choices, because "
        "experts are full, so that experts that are chosen too often do not stand out."
    )
    return (NotEnoughData(detector, reason),), sound


def together(found: Iterable[Uneven], within: int) -> list[list[Uneven]]:
    """Those that began within so many steps of the first one of each group."""
    groups: list[list[Uneven]] = []
    for one in sorted(found, key=lambda each: each.first_step):
        if groups and one.first_step - groups[-1][0].first_step <= within:
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups
