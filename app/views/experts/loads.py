"""Loads of experts: a map of layers x experts, and how uneven each step was.

S steps, L layers, E experts of the widest layer. A load is tokens / mean tokens of the layer's
experts: 1 is even.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from app.views.ranks import scales
from diagnosis.experts.fair_router import max_violation_noise, p01_least_load
from diagnosis.experts.load import LayerLoad, RouterKey, layers_of, max_violation, ratio
from ingest.run import Run
from ingest.stopping import Stop

FULL = 2.0
"""log2 of the load with the strongest colour: 4 times the mean, or a quarter."""

MOST_RANKS, LEAST_RANKS = 256, 4
MOST_ROWS = 65_536
"""Of the table: more take longer to add up than a page should."""

_ALL_ROWS = 2**40
_LOW = 2.0**-FULL

Floats = npt.NDArray[np.float64]
Steps = tuple[int, int]
"""first and last, both included"""
NO_STEPS = (0, -1)
"""Of a run without finished steps."""


@dataclass(frozen=True)
class Loads:
    """What was recorded. By layer and router: `dropped`: choices left out, -1 unknown; `aux_loss`:
    mean over the steps, None unknown; `bias`: that of the newest step, by expert, empty where there
    is none. `stride`: 1 of every `stride` ranks was read; 1 all of them.
    """

    layers: list[LayerLoad]
    dropped: dict[RouterKey, int]
    aux_loss: dict[RouterKey, float | None]
    bias: dict[RouterKey, list[float]]
    stride: int


def loads_of(
    run: Run, attempt: int, steps: Steps, layer: int | None = None, stop: Stop | None = None
) -> Loads:
    """Of the steps, of one layer or all; layers in which no token was routed are left out. Of many
    steps of large jobs only some ranks are read.
    """
    found = run.ask(
        "expert_load",
        attempt=attempt,
        step_min=steps[0],
        step_max=steps[1],
        layer=layer,
        most_ranks=_most_ranks(run, attempt, steps),
        most_rows=_ALL_ROWS,  # fewer ranks rather than fewer steps: the page names its steps
        stop=stop,
    )
    known = [one for one in layers_of(found) if one.choices_S.any()]
    summed = found.group_by(["layer", "name"]).aggregate(
        [("dropped", "min"), ("dropped", "sum"), ("aux_loss", "mean")]
    )
    rows = {(row["layer"], row["name"]): row for row in summed.to_pylist()}
    newest = found.select(["layer", "name", "bias"]).slice(_newest(found)).to_pylist()
    return Loads(
        layers=known,
        dropped={
            key: -1 if row["dropped_min"] < 0 else row["dropped_sum"] for key, row in rows.items()
        },
        aux_loss={key: row["aux_loss_mean"] for key, row in rows.items()},
        bias={(row["layer"], row["name"]): row["bias"] or [] for row in newest},
        stride=max(pc.max(found["stride"]).as_py() or 1, 1),
    )


def _newest(found: pa.Table) -> int:
    """First row of the newest step: rows are in order of steps."""
    if not found.num_rows:
        return 0
    return int(pc.index(found["step"], found["step"][-1]).as_py())


def _most_ranks(run: Run, attempt: int, steps: Steps) -> int:
    """How many ranks have about MOST_ROWS rows in these steps."""
    (within,) = run.index_rows(
        "SELECT sum(num_rows * (least(step_max, $last) - greatest(step_min, $first) + 1)"
        " / (step_max - step_min + 1)) AS num FROM files WHERE table_name = 'expert_load'"
        " AND attempt = $attempt AND step_min <= $last AND step_max >= $first",
        attempt=attempt,
        first=steps[0],
        last=steps[1],
    )
    ranks = len([info for info in run.ranks if info["attempt"] == attempt])
    share = MOST_ROWS / max(within["num"] or 0, 1)
    return min(max(int(ranks * share), LEAST_RANKS), MOST_RANKS)


@dataclass(frozen=True)
class Layer:
    """A layer with experts. `router` of `num_routers`: its number where the layer has several;
    `choices`: tokens x experts of each; `dropped`: choices left out, -1 unknown; `max_violation`:
    greatest load - 1; `fair`: what a fair router's stays below; `aux_loss`: None unknown.
    """

    layer: int
    name: str
    router: int
    num_routers: int
    experts: int
    choices: int
    dropped: int
    max_violation: float
    fair: float
    aux_loss: float | None


@dataclass(frozen=True)
class LoadMap:
    """Layers x experts over some steps; NaN and code 0 where a layer has fewer experts. `code_LE`:
    bytes of assets/lib/canvas/colour.mjs. `bias_LE`: added to the scores, NaN none.
    """

    layers: list[Layer]
    tokens_LE: Floats
    load_LE: Floats
    code_LE: npt.NDArray[np.uint8]
    bias_LE: Floats


def load_map(loads: Loads) -> LoadMap:
    """The sum over the steps; a load within what a fair router shows has no colour."""
    shape = len(loads.layers), max((one.experts for one in loads.layers), default=0)
    tokens_LE = np.zeros(shape)
    load_LE, bias_LE, noise_LE = np.full(shape, math.nan), np.full(shape, math.nan), np.zeros(shape)
    layers = []
    for row, one in enumerate(loads.layers):
        tokens_E = one.tokens_SE.sum(axis=0)
        load_E = ratio(tokens_E[None])[0]
        tokens_LE[row, : one.experts], load_LE[row, : one.experts] = tokens_E, load_E
        bias = loads.bias.get(one.key, [])[: one.experts]
        bias_LE[row, : len(bias)] = bias
        fair = float(fair_violation(one.experts, one.choices_S.sum()))
        low = p01_least_load(one.experts, one.top_k, one.choices_S.sum() / one.top_k)
        noise_LE[row] = np.where(load_LE[row] > 1, math.log2(1 + fair), -math.log2(max(low, _LOW)))
        layers.append(
            Layer(
                layer=one.layer,
                name=one.name,
                router=one.router,
                num_routers=one.num_routers,
                experts=one.experts,
                choices=int(tokens_E.sum()),
                dropped=loads.dropped.get(one.key, -1),
                max_violation=float(load_E.max() - 1),
                fair=fair,
                aux_loss=_plain(loads.aux_loss.get(one.key)),
            )
        )
    with np.errstate(divide="ignore"):
        away_LE = np.clip(np.log2(load_LE), -FULL, FULL).astype(np.float32)
    code_LE = scales.codes(away_LE, noise_LE.astype(np.float32), FULL)
    return LoadMap(layers, tokens_LE, load_LE, code_LE, bias_LE)


def _plain(value: float | None) -> float | None:
    """For JSON, which has no NaN."""
    return value if value is not None and math.isfinite(value) else None


def fair_violation(experts: int, choices: npt.ArrayLike) -> Floats:
    """Greatest load - 1 that a fair router stays below, by choices; 0 where nothing was chosen."""
    return np.nan_to_num(max_violation_noise(experts, choices), posinf=0.0)


@dataclass(frozen=True)
class OverSteps:
    """MaxVio by step: of the worst layer, of the median layer, of a fair router in the worst.
    `worst_row_S`: which of the layers is the worst one.
    """

    steps_S: npt.NDArray[np.int64]
    worst_S: Floats
    worst_row_S: npt.NDArray[np.int64]
    middle_S: Floats
    fair_S: Floats

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """For one binary answer."""
        return {
            "step": self.steps_S.astype(np.float64),
            "worst": self.worst_S.astype(np.float32),
            "worst_row": self.worst_row_S.astype(np.int32),
            "middle": self.middle_S.astype(np.float32),
            "fair": self.fair_S.astype(np.float32),
        }


def over_steps(layers: Sequence[LayerLoad]) -> OverSteps:
    """Steps in which no token was routed are left out."""
    known = [one.step_S[one.choices_S > 0] for one in layers]
    steps_S = np.unique(np.concatenate(known)) if known else np.zeros(0, dtype=np.int64)
    if not len(steps_S):
        return OverSteps(steps_S, np.zeros(0), steps_S, np.zeros(0), np.zeros(0))
    violation_LS, fair_LS = np.full((2, len(layers), len(steps_S)), math.nan)
    for row, (one, kept) in enumerate(zip(layers, known, strict=True)):
        at = np.searchsorted(steps_S, kept)
        routed_S = one.choices_S > 0
        violation_LS[row, at] = max_violation(one.tokens_SE)[routed_S]
        fair_LS[row, at] = fair_violation(one.experts, one.choices_S[routed_S])
    worst = np.nanargmax(violation_LS, axis=0), np.arange(len(steps_S))
    return OverSteps(
        steps_S,
        violation_LS[worst],
        worst[0],
        np.nanmedian(violation_LS, axis=0),
        fair_LS[worst],
    )
