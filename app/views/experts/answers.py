"""Answers with the loads of experts: the same for a live page and a shared file."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from app.views.experts.holders import balance_of, ep_ranks_of, holders_of
from app.views.experts.loads import Steps, fair_violation, load_map, loads_of, over_steps
from diagnosis.experts.load import ratio
from ingest.errors import UserError
from ingest.run import Run
from ingest.stopping import Stop

MOST_STEPS = 400
"""Of the lines over steps."""


class Answer(NamedTuple):
    """What app.web.arrays.pack_arrays takes."""

    arrays: dict[str, npt.NDArray[Any]]
    meta: dict[str, Any]


def loads_answer(
    run: Run, attempt: int, steps: Steps, why: str = "", stop: Stop | None = None
) -> Answer:
    """Map and balance of the steps, both included."""
    loads = loads_of(run, attempt, steps, stop=stop)
    found = load_map(loads)
    ep_ranks = ep_ranks_of(run, attempt, loads.layers, stop)
    holders = holders_of(loads.layers, ep_ranks)
    meta: dict[str, Any] = {
        "layers": [asdict(layer) for layer in found.layers],
        "experts": found.load_LE.shape[1],
        "steps": list(steps),
        "why": why,
        "stride": loads.stride,
        "balance": [asdict(one) for one in balance_of(loads.layers, ep_ranks)],
    }
    arrays: dict[str, npt.NDArray[Any]] = {
        "code": found.code_LE.reshape(-1),
        "load": found.load_LE.reshape(-1).astype(np.float32),
        "tokens": found.tokens_LE.reshape(-1),
        "bias": found.bias_LE.reshape(-1).astype(np.float32),
        "holder": holders.rank_LE.reshape(-1),
        "holders": holders.count_LE.reshape(-1),
    }
    return Answer(arrays, meta)


def steps_answer(run: Run, attempt: int, steps: Steps, stop: Stop | None = None) -> Answer:
    """MaxVio of these steps and those around them."""
    window = _window(run, attempt, steps)
    loads = loads_of(run, attempt, window, stop=stop)
    named = [
        {"layer": one.layer, "name": one.name, "num_routers": one.num_routers}
        for one in loads.layers
    ]
    meta = {"window": list(window), "stride": loads.stride, "layers": named}
    return Answer(over_steps(loads.layers).arrays(), meta)


def expert_answer(
    run: Run, attempt: int, steps: Steps, where: tuple[int, ...], stop: Stop | None = None
) -> Answer:
    """Load of one expert in the same steps; raises UserError. `where`: its layer and number, then
    the number of the router where the layer has several.
    """
    layer, expert, *given = where
    found = loads_of(run, attempt, _window(run, attempt, steps), layer, stop).layers
    if not found:
        raise UserError(f"no load of experts was recorded in layer {layer} in these steps")
    router = given[0] if given else 0
    one = next((one for one in found if one.router == router), None)
    if one is None:
        last = found[-1].router
        raise UserError(f"layer {layer} has no router {router}; it has routers 0 to {last}")
    if expert >= one.experts:
        raise UserError(
            f"layer {layer} has no expert {expert}; it has experts 0 to {one.experts - 1}"
        )
    arrays: dict[str, npt.NDArray[Any]] = {
        "step": one.step_S.astype(np.float64),
        "load": ratio(one.tokens_SE)[:, expert].astype(np.float32),
        "tokens": one.tokens_SE[:, expert],
        "fair": fair_violation(one.experts, one.choices_S).astype(np.float32),
    }
    return Answer(arrays, {"layer": layer, "expert": expert})


def _window(run: Run, attempt: int, steps: Steps) -> Steps:
    """As many steps as lines show, the given ones among them: the newest where possible."""
    rows = run.ask("run_summary").to_pylist()
    known = [row for row in rows if row["attempt"] == attempt and row["last_step"] is not None]
    last = max([row["last_step"] for row in known], default=steps[1])
    first = max(last - MOST_STEPS + 1, 0)
    if steps[0] < first:
        first = max(steps[0], steps[1] - MOST_STEPS + 1)
        last = first + MOST_STEPS - 1
    return first, max(last, steps[1])
