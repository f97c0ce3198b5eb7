"""What findings on experts have in common: their names, the steps, where to look."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from diagnosis.experts.stretches import Uneven
from diagnosis.statistics.evidence_links import Params, View, question_params
from diagnosis.statistics.units import steps_text

MOST_NAMED = 3
MOST_EVIDENCE = 5


def named_experts(found: Sequence[Uneven]) -> str:
    """ "Expert 5 of layer 3", "Experts 5 and 6 of layer 3", "Expert 5 of 12 layers" or "12 experts
    of 4 layers".
    """
    layers = sorted({one.layer for one in found})
    experts = sorted({one.expert for one in found})
    of = f"layer {layers[0]}" if len(layers) == 1 else f"{len(layers)} layers"
    if len(experts) == 1:
        return f"Expert {experts[0]} of {of}"
    if len(layers) == 1 and len(experts) <= MOST_NAMED:
        return f"Experts {listed(experts)} of {of}"
    return f"{len(found)} experts of {of}"


def listed(values: Iterable[Any]) -> str:
    """ "1, 2 and 3", of many the first, and how many more there are."""
    words = [str(value) for value in values]
    if len(words) > MOST_NAMED + 1:
        words = [*words[:MOST_NAMED], f"{len(words) - MOST_NAMED} more"]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def in_layers(layers: Iterable[int]) -> str:
    """ "layer 3" or "layers 3, 4 and 7"."""
    every = sorted(set(layers))
    return f"layer{'s' if len(every) > 1 else ''} {listed(every)}"


def extent_of(found: Sequence[Uneven]) -> tuple[int, int, bool]:
    """First and last step of all together, and whether they go on."""
    first = min(one.first_step for one in found)
    last = max(one.last_step for one in found)
    return first, last, any(one.is_ongoing for one in found)


def severity_of(is_ongoing: bool, is_urgent: bool = False) -> str:
    """Severity of a finding."""
    if not is_ongoing:
        return "past"
    return "urgent" if is_urgent else "warning"


def experts_view(attempt: int, first: int, last: int, layer: int, expert: int) -> View:
    """The page Experts with these steps; one expert selected, where one is meant."""
    chosen = (("expert", (layer, expert)),) if expert >= 0 else ()
    return (("page", "experts"), ("attempt", attempt), ("steps", (first, last)), *chosen)


def load_params(one: Uneven, attempt: int) -> Params:
    """Parameters of expert_load for the steps of a stretch, of its layer alone."""
    return question_params(one.first_step, one.last_step, attempt, layer=one.layer)


def settled_text(found: Sequence[Uneven]) -> str:
    """What stood out while routers settled."""
    first, last, _ = extent_of(found)
    where = in_layers(one.layer for one in found).capitalize()
    return (
        f"{where}: uneven in {steps_text(first, last)}, and less so with each step: routers settle "
        "when training begins."
    )


def together(found: Iterable[Uneven], within: int) -> list[list[Uneven]]:
    """Those that began within so many steps of the first one of each group."""
    groups: list[list[Uneven]] = []
    for one in sorted(found, key=lambda each: each.first_step):
        if groups and one.first_step - groups[-1][0].first_step <= within:
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups
