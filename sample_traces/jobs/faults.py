"""What can be made to go wrong in the real job, as users write it: `slow-rank=5,x=1.6,from=8`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

AT_ONE_STEP = ("hang", "hold-gil", "nan", "kill")
"""Faults written KIND=RANK@STEP; they happen once."""

_OPTIONS = {
    "slow-rank": ("x", "from", "to"),
    "slow-loader": ("ms", "from", "to"),
    "gc": ("objects", "from", "to"),
    "late-rank": ("ms", "from", "to"),
    "hang": ("s",),
    "hold-gil": ("s",),
    "nan": (),
    "kill": (),
}

KINDS = tuple(_OPTIONS)

FINDING_KINDS = {
    "slow-rank": "slow_worker",
    "slow-loader": "data_loader",
    "gc": "gc_pauses",
    "late-rank": "launch_skew",
    "hang": "hung_rank",
    "hold-gil": "hung_rank",
    "nan": "nonfinite",
    "kill": "dead_rank",
}
"""What a diagnosis should call each fault."""

_NEEDS_RANK = ("slow-rank", "late-rank", *AT_ONE_STEP)


@dataclass(frozen=True)
class Fault:
    """One fault of the job; raises ValueError naming the value and the remedy.

    `rank` None: every rank (slow-loader), or another one each step (gc). Steps are counted from 0;
    `last_step` is the last one it acts in, None: until the end.
    """

    kind: str
    rank: int | None = None
    first_step: int = 0
    last_step: int | None = None
    x: float = 1.6
    """slow-rank: all it computes takes x times as long"""
    ms: float = 10.0
    """late-rank: before each all-reduce of a block; slow-loader: per step"""
    objects: int = 500_000
    """gc: objects to look through"""
    seconds: float = 600.0
    """hang and hold-gil: for how long"""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown fault {self.kind!r}; known: {', '.join(KINDS)}")
        if self.rank is None and self.kind in _NEEDS_RANK:
            raise ValueError(f"fault {self.kind} needs a rank; write {_example(self.kind)}")
        if self.rank is not None and self.rank < 0:
            raise ValueError(f"fault {self.kind} names rank {self.rank}; ranks count from 0")
        if self.x < 1:
            raise ValueError(f"fault {self.kind} has x={self.x}; give a factor of at least 1")
        for name, value in (("ms", self.ms), ("s", self.seconds), ("objects", self.objects)):
            if value <= 0:
                raise ValueError(f"fault {self.kind} has {name}={value}; give more than 0")
        if self.first_step < 0:
            raise ValueError(
                f"fault {self.kind} begins in step {self.first_step}; steps count from 0"
            )
        if self.last_step is not None and self.last_step < self.first_step:
            raise ValueError(
                f"fault {self.kind} ends in step {self.last_step}, before it begins in "
                f"{self.first_step}; raise to= or lower from="
            )

    def active(self, step: int) -> bool:
        """Whether the fault acts in this step."""
        return self.first_step <= step and (self.last_step is None or step <= self.last_step)

    @property
    def text(self) -> str:
        """One sentence for the mark it leaves."""
        who = "every rank" if self.rank is None else f"rank {self.rank}"
        return {
            "slow-rank": f"{who} computes {self.x:g} times as long",
            "slow-loader": f"the data loader of {who} takes {self.ms:g} ms longer per step",
            "gc": f"the garbage collector looks through {self.objects:,} more objects per step",
            "late-rank": f"{who} comes {self.ms:g} ms late to the all-reduces of its blocks",
            "hang": f"{who} stops in a sleep",
            "hold-gil": f"{who} stops in a C call that holds the GIL",
            "nan": f"{who} has a NaN in a gradient",
            "kill": f"{who} is killed",
        }[self.kind]

    def to_json(self) -> dict[str, Any]:
        """How the fault stands in run.json under truth: {"kind", "rank", "from", "to", doses}."""
        values = {"x": self.x, "ms": self.ms, "objects": self.objects, "s": self.seconds}
        doses = {name: values[name] for name in _OPTIONS[self.kind] if name in values}
        where = {} if self.rank is None else {"rank": self.rank}
        steps = {"from": self.first_step, "to": self.last_step}
        return {"kind": FINDING_KINDS[self.kind], **where, **doses, **steps}

    @classmethod
    def parse(cls, text: str) -> Fault:
        """Fault from its command-line form; raises ValueError.

        >>> Fault.parse("slow-rank=5,x=1.6,from=20").active(19)
        False
        """
        head, *options = (part.strip() for part in text.split(","))
        kind, _, target = head.partition("=")
        if kind not in _OPTIONS:
            raise ValueError(f"unknown fault {kind!r}; known: {', '.join(KINDS)}")
        values: dict[str, float] = {}
        for option in options:
            name, _, value = option.partition("=")
            if name not in _OPTIONS[kind]:
                known = ", ".join(_OPTIONS[kind]) or "none"
                raise ValueError(f"fault {kind} has no option {name!r}; it has: {known}")
            values[name] = _number(kind, name, value)
        rank, first, last = None, int(values.get("from", 0)), values.get("to")
        if kind in AT_ONE_STEP:
            before, at, after = target.partition("@")
            if not (before.isdecimal() and at and after.isdecimal()):
                raise ValueError(f"fault {text!r} needs rank and step; write {_example(kind)}")
            rank, first, last = int(before), int(after), int(after)
        elif target:
            if not target.isdecimal():
                raise ValueError(f"fault {text!r} names no rank; write {_example(kind)}")
            rank = int(target)
        return cls(
            kind,
            rank,
            first,
            None if last is None else int(last),
            x=values.get("x", cls.x),
            ms=values.get("ms", cls.ms),
            objects=int(values.get("objects", cls.objects)),
            seconds=values.get("s", cls.seconds),
        )


def _number(kind: str, name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        raise ValueError(f"fault {kind} has {name}={value!r}; give a number") from None
    if name in ("from", "to", "objects") and number != int(number):
        raise ValueError(f"fault {kind} has {name}={value}; give a whole number")
    return number


def _example(kind: str) -> str:
    return f"{kind}=5@8" if kind in AT_ONE_STEP else f"{kind}=5"
