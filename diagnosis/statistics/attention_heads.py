"""Statistics of attention heads over the sampled steps: what detectors of single heads share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from diagnosis.findings import Evidence
from diagnosis.statistics.evidence_links import question_params
from diagnosis.statistics.rank_tables import Floats
from diagnosis.statistics.sampled_series import Series, Stretch, named, seen, series_of


@dataclass(frozen=True)
class OffHead:
    """One head beyond a level."""

    layer: int
    head: int
    stretch: Stretch
    at: int  # index of the most telling sample
    value: float  # there
    before: float  # median of the samples before the stretch; NaN where there is none


def head_series(tables: Mapping[str, pa.Table], statistic: str) -> Series | None:
    """A statistic of every head; None where no attention statistics were recorded."""
    heads = tables["attention_health"]
    if not heads.num_rows:
        return None
    return series_of(heads, ("layer", "head", "name"), statistic)


def off_head(
    series: Series, row: int, stretch: Stretch, worst_of: Callable[[Floats], np.intp]
) -> OffHead:
    """The head of a row; `worst_of` (np.nanargmin or np.nanargmax) chooses its worst sample."""
    value_N = series.value_KN[row]
    at = stretch.first + int(worst_of(value_N[stretch.first : stretch.last + 1]))
    before = value_N[: stretch.first]
    before = before[np.isfinite(before)]
    layer, head, _ = series.keys[row]
    usual = float(np.median(before)) if before.size else np.nan
    return OffHead(int(layer), int(head), stretch, at, float(value_N[at]), usual)


def named_heads(heads: list[OffHead]) -> str:
    """The first of them, and how many more there are."""
    return named(f"layer {head.layer} head {head.head}" for head in heads)


def evidence_of(
    series: Series, head: OffHead, attempt: int, statistic: str, text: str, unit: str
) -> Evidence:
    """A head's most telling sample. `text`: what follows "In step N "."""
    step = int(series.step_N[head.at])
    params = question_params(step, step, attempt, layer=head.layer, head=head.head)
    view = seen(attempt, "heads", statistic, head.layer, "", head.head)
    return Evidence(f"In step {step} {text}", head.value, unit, "attention_health", params, view)
