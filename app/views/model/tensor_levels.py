"""Statistics of a model's tensors, and the levels at which training is in danger.

Every level names its source. A `usual` level marks the values of healthy training, not an alarm.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ingest.errors import UserError

HEADS = "heads"
"""Name for the statistics of attention heads, in addition to schema.TENSORS: table
attention_stats."""

_WORTSMAN = "Wortsman et al. 2023, arXiv 2309.14322"
_ZHAI = "Zhai et al. 2023, arXiv 2303.06296"


@dataclass(frozen=True)
class Level:
    """A threshold of a statistic."""

    value: float
    severity: str
    """fault, warn, or usual"""
    is_above: bool
    """whether it applies to values above it, else to those below; no meaning for `usual`"""
    text: str
    source: str


@dataclass(frozen=True)
class Statistic:
    """One number of a tensor in one step: its name, scale, pooling and levels."""

    name: str
    title: str
    meaning: str
    scale: str
    """log, linear (from 0 to 1), count (from 0), or signed"""
    worst: str
    """the value shown for a block of cells: max, min, or size (the one furthest from 0)"""
    tensors: tuple[str, ...] = ()
    """tensors that have it; empty: all but the heads"""
    levels: tuple[Level, ...] = ()

    def is_of(self, tensor: str) -> bool:
        """Whether this tensor has the statistic."""
        return tensor in self.tensors if self.tensors else tensor != HEADS

    def levels_of(self, tensor: str) -> tuple[Level, ...]:
        """Levels that apply to a tensor: Adam's epsilon only to gradients."""
        return self.levels if self.name != "rms" or tensor == "gradient" else ()

    def to_json(self, tensor: str) -> dict[str, Any]:
        """The statistic for the browser, for one tensor."""
        return asdict(self) | {"levels": [asdict(level) for level in self.levels_of(tensor)]}


_ALL = (
    Statistic(
        "rms",
        "RMS",
        "Root mean square of the values.",
        "log",
        "max",
        levels=(
            Level(1e-8, "warn", False, "as small as Adam's epsilon, so updates stall", _WORTSMAN),
        ),
    ),
    Statistic("absmax", "Largest magnitude", "Largest absolute value.", "log", "max"),
    Statistic("mean", "Mean", "Mean of the values.", "signed", "size"),
    Statistic("std", "Standard deviation", "Spread of the values around their mean.", "log", "max"),
    Statistic(
        "zero_ratio",
        "Share of zeros",
        "Values that are exactly 0: in an activation after a ReLU, dead units.",
        "linear",
        "max",
    ),
    Statistic(
        "nonfinite",
        "Non-finite values",
        "Number of values that are NaN or infinite.",
        "count",
        "max",
        levels=(
            Level(
                0.0,
                "fault",
                True,
                "one value is enough to spoil a step",
                "ByteRobust, arXiv 2509.16293",
            ),
        ),
    ),
    Statistic(
        "update_ratio",
        "Update / weight",
        "RMS of the step's change over RMS of the weights.",
        "log",
        "max",
        ("update",),
        (Level(1e-3, "usual", True, "about 1e-3 is usual", "rule of thumb"),),
    ),
    Statistic(
        "max_logit",
        "Largest attention logit",
        "Largest scaled logit of a head before its softmax.",
        "log",
        "max",
        (HEADS,),
        (
            Level(1e4, "fault", True, "runs above 1e4 diverged", _WORTSMAN),
            Level(100.0, "warn", True, "QK-clip acts from 100 on", "Kimi K2, arXiv 2507.20534"),
        ),
    ),
    Statistic(
        "entropy",
        "Attention entropy",
        f"Entropy of a head's attention weights, nats; towards 0 it collapses ({_ZHAI}).",
        "log",
        "min",
        (HEADS,),
    ),
)

STATISTICS: dict[str, Statistic] = {statistic.name: statistic for statistic in _ALL}
"""By name, in the order of menus."""


def statistic_of(tensor: str, name: str | None) -> Statistic:
    """The statistic of that name, None: the tensor's first; raises UserError."""
    fitting = [statistic for statistic in _ALL if statistic.is_of(tensor)]
    if not name:
        return fitting[0]
    match = next((statistic for statistic in fitting if statistic.name == name), None)
    if match is None:
        names = ", ".join(statistic.name for statistic in fitting)
        raise UserError(f"{tensor} has no statistic {name[:40]!r}; choose one of {names}")
    return match
