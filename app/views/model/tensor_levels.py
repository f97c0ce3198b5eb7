"""What can be shown of a model's tensors, and the levels from which its training is in danger.

Every level names where it comes from. A `usual` level is where healthy training lies, no alarm.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ingest.errors import UserError

HEADS = "heads"
"""What attention heads have statistics under, beside schema.TENSORS: table attention_stats."""

_WORTSMAN = "Wortsman et al. 2023, arXiv 2309.14322"
_ZHAI = "Zhai et al. 2023, arXiv 2303.06296"


@dataclass(frozen=True)
class Level:
    """A value of a statistic that means something."""

    value: float
    severity: str
    """fault, warn, or usual"""
    is_above: bool
    """whether it is values above it that mean it, else those below; of no meaning for `usual`"""
    text: str
    source: str


@dataclass(frozen=True)
class Statistic:
    """One number of a tensor in one step: how it is said, scaled, pooled and judged."""

    name: str
    title: str
    meaning: str
    scale: str
    """log, linear (from 0 to 1), count (from 0), or signed"""
    worst: str
    """what stands for a block of cells: max, min, or size (the one furthest from 0)"""
    tensors: tuple[str, ...] = ()
    """tensors that have it; empty: all but the heads"""
    levels: tuple[Level, ...] = ()

    def is_of(self, tensor: str) -> bool:
        """Whether this tensor has the statistic."""
        return tensor in self.tensors if self.tensors else tensor != HEADS

    def levels_of(self, tensor: str) -> tuple[Level, ...]:
        """Levels that hold for a tensor: Adam's epsilon is one of gradients alone."""
        return self.levels if self.name != "rms" or tensor == "gradient" else ()

    def to_json(self, tensor: str) -> dict[str, Any]:
        """For the browser, as it is for one tensor."""
        return asdict(self) | {"levels": [asdict(level) for level in self.levels_of(tensor)]}


_ALL = (
    Statistic(
        "rms",
        "RMS",
        "Root of the mean square of the values.",
        "log",
        "max",
        levels=(
            Level(1e-8, "warn", False, "at the size of Adam's epsilon updates stall", _WORTSMAN),
        ),
    ),
    Statistic("absmax", "Greatest size", "Greatest absolute value.", "log", "max"),
    Statistic("mean", "Mean", "Mean of the values.", "signed", "size"),
    Statistic("std", "Standard deviation", "Spread of the values around their mean.", "log", "max"),
    Statistic(
        "zero_ratio",
        "Share of zeros",
        "Values that are exactly 0: of an activation with a rectifier units that are dead.",
        "linear",
        "max",
    ),
    Statistic(
        "nonfinite",
        "Values not finite",
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
        "Greatest attention logit",
        "Greatest scaled logit of a head before its softmax.",
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
        f"Of a head's attention weights, nats; towards 0 it collapses ({_ZHAI}).",
        "log",
        "min",
        (HEADS,),
    ),
)

STATISTICS: dict[str, Statistic] = {one.name: one for one in _ALL}
"""By name, in the order of menus."""


def statistic_of(tensor: str, name: str | None) -> Statistic:
    """The statistic of that name, None: the first that the tensor has; raises UserError."""
    fitting = [one for one in _ALL if one.is_of(tensor)]
    if not name:
        return fitting[0]
    found = next((one for one in fitting if one.name == name), None)
    if found is None:
        names = ", ".join(one.name for one in fitting)
        raise UserError(f"{tensor} has no statistic {name[:40]!r}; take one of {names}")
    return found
