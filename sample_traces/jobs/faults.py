"""What can be made to go wrong in the real job, as users write it: `slow-rank=5,x=1.6,from=8`."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

AT_ONE_STEP = ("hang", "hold-gil", "nan", "kill")
"""Faults written KIND=RANK@STEP; they happen once."""

OF_AN_EXPERT = ("hot-expert", "dead-expert")
"""Faults written KIND=EXPERT, of the job train_moe."""

_OPTIONS = {
    "slow-rank": ("x", "from", "to"),
    "slow-loader": ("ms", "from", "to"),
    "gc": ("objects", "from", "to"),
    "late-rank": ("ms", "from", "to"),
    "slow-job": ("x", "from", "to"),
    "late-step": ("ms", "from", "to"),
    "burner": ("share", "from", "to"),
    "page-faults": ("mb", "every", "from", "to"),
    "spikes": ("ms", "every", "from", "to"),
    "slow-save": ("ms", "every", "from", "to"),
    "slow-link": ("peer", "mb", "from", "to"),
    "slow-network": ("mb", "from", "to"),
    "hot-expert": ("from", "to"),
    "dead-expert": ("from", "to"),
    "slow-expert-rank": ("x", "from", "to"),
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
    "slow-job": "step_regression",
    "late-step": "launch_skew",
    "burner": "launch_skew",
    "page-faults": "jit_spikes",
    "spikes": "jit_spikes",
    "slow-save": "slow_checkpoint",
    "slow-link": "slow_link",
    "slow-network": "comm_regression",
    "hot-expert": "hot_expert",
    "dead-expert": "dead_expert",
    "slow-expert-rank": "slow_worker",
    "hang": "hung_rank",
    "hold-gil": "hung_rank",
    "nan": "nonfinite",
    "kill": "dead_rank",
}
"""What a diagnosis should call each fault."""

_NEEDS_RANK = (
    "slow-rank",
    "late-rank",
    "burner",
    "page-faults",
    "slow-link",
    "slow-expert-rank",
    *AT_ONE_STEP,
)
_NEEDS_NO_RANK = ("slow-job", "slow-network")
_WHOLE = ("from", "to", "objects", "every", "peer")


@dataclass(frozen=True)
class Fault:
    """One fault of the job; raises ValueError naming the value and the remedy.

    `rank` None: every rank, or another one each step (gc, late-step). Steps are counted from 0;
    `last_step` is the last one it acts in, None: until the end.
    """

    kind: str
    rank: int | None = None
    first_step: int = 0
    last_step: int | None = None
    x: float = 1.6
    """slow-rank: all it computes takes x times as long; slow-expert-rank: its experts"""
    ms: float = 10.0
    """late-rank: before each all-reduce of a block; late-step: before the last one of a step;
    slow-loader: per step; spikes, slow-save: each time"""
    objects: int = 500_000
    """gc: objects to look through"""
    seconds: float = 600.0
    """hang and hold-gil: for how long"""
    every: int = 10
    """page-faults, spikes, slow-save: one of so many steps"""
    share: float = 1.0
    """burner: of the rank's core; more than 1: several processes want it"""
    mb: float = 4.0
    """page-faults: MiB touched for the first time; slow-link, slow-network: per collective"""
    peer: int | None = None
    """slow-link: the other end"""
    expert: int | None = None
    """hot-expert, dead-expert: in all layers"""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown fault {self.kind!r}; known: {', '.join(KINDS)}")
        if self.rank is None and self.kind in _NEEDS_RANK:
            raise ValueError(f"fault {self.kind} needs a rank; write {_example(self.kind)}")
        if self.rank is not None and self.rank < 0:
            raise ValueError(f"fault {self.kind} names rank {self.rank}; ranks count from 0")
        if self.expert is None and self.kind in OF_AN_EXPERT:
            raise ValueError(f"fault {self.kind} needs an expert; write {_example(self.kind)}")
        if self.x < 1:
            raise ValueError(f"fault {self.kind} has x={self.x}; give a factor of at least 1")
        if self.rank is not None and self.kind in _NEEDS_NO_RANK:
            raise ValueError(f"fault {self.kind} is of all ranks; leave out rank {self.rank}")
        if self.kind == "slow-link" and self.peer in (None, self.rank):
            raise ValueError("fault slow-link needs two ranks; write slow-link=5,peer=7")
        for name, value in self._values().items():
            if value is not None and value <= 0 and name != "peer":
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

    def strikes(self, step: int) -> bool:
        """Whether a fault of one in `every` steps acts in this one: at another place each time, the
        same on every rank; saves come at fixed steps."""
        if not self.active(step):
            return False
        if self.kind == "slow-save":
            return self.saves(step)
        turn, place = divmod(step - self.first_step, self.every)
        return place == random.Random(f"{self.first_step} {turn}").randrange(self.every)

    def saves(self, step: int) -> bool:
        """Whether a job with this slow-save fault saves in a step; it does so before, too."""
        return self.kind == "slow-save" and step % self.every == self.every - 1

    @property
    def text(self) -> str:
        """One sentence for the mark it leaves."""
        anyone = "another rank each step" if self.kind in ("gc", "late-step") else "every rank"
        who = anyone if self.rank is None else f"rank {self.rank}"
        return {
            "slow-rank": f"{who} computes {self.x:g} times as long",
            "slow-loader": f"the data loader of {who} takes {self.ms:g} ms longer per step",
            "gc": f"the garbage collector looks through {self.objects:,} more objects per step",
            "late-rank": f"{who} comes {self.ms:g} ms late to the all-reduces of its blocks",
            "slow-job": f"{who} computes {self.x:g} times as long",
            "late-step": f"{who} comes {self.ms:g} ms late to the last all-reduce of a step",
            "burner": f"other work wants {self.share:g} of the core that {who} is bound to",
            "page-faults": f"{who} touches {self.mb:g} MiB of new memory now and then",
            "spikes": f"{who} computes {self.ms:g} ms longer now and then",
            "slow-save": f"the storage of {who} takes {self.ms:g} ms longer per save",
            "slow-link": f"{self.mb:g} MiB more per collective between {who} and rank {self.peer}",
            "slow-network": f"{self.mb:g} MiB more per collective of the replicas",
            "hot-expert": f"every token is sent to expert {self.expert}",
            "dead-expert": f"no token is sent to expert {self.expert}",
            "slow-expert-rank": f"the experts of {who} compute {self.x:g} times as long",
            "hang": f"{who} stops in a sleep",
            "hold-gil": f"{who} stops in a C call that holds the GIL",
            "nan": f"{who} has a NaN in a gradient",
            "kill": f"{who} is killed",
        }[self.kind]

    @property
    def target(self) -> dict[str, int]:
        """The rank or expert that it names."""
        named = {"rank": self.rank, "expert": self.expert}
        return {name: number for name, number in named.items() if number is not None}

    def to_json(self) -> dict[str, Any]:
        """How the fault stands in run.json under truth: {"kind", "rank", "from", "to", doses}."""
        values = {"x": self.x, **self._values()}
        doses = {name: values[name] for name in _OPTIONS[self.kind] if name in values}
        steps = {"from": self.first_step, "to": self.last_step}
        return {"kind": FINDING_KINDS[self.kind], **self.target, **doses, **steps}

    def _values(self) -> dict[str, Any]:
        return {
            "ms": self.ms,
            "objects": self.objects,
            "s": self.seconds,
            "every": self.every,
            "share": self.share,
            "mb": self.mb,
            "peer": self.peer,
        }

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
        rank = expert = None
        first, last = int(values.get("from", 0)), values.get("to")
        if kind in AT_ONE_STEP:
            before, at, after = target.partition("@")
            if not (before.isdecimal() and at and after.isdecimal()):
                raise ValueError(f"fault {text!r} needs rank and step; write {_example(kind)}")
            rank, first, last = int(before), int(after), int(after)
        elif target:
            if not target.isdecimal():
                what = "expert" if kind in OF_AN_EXPERT else "rank"
                raise ValueError(f"fault {text!r} names no {what}; write {_example(kind)}")
            rank, expert = (None, int(target)) if kind in OF_AN_EXPERT else (int(target), None)
        return cls(
            kind,
            rank,
            first,
            None if last is None else int(last),
            x=values.get("x", cls.x),
            ms=values.get("ms", cls.ms),
            objects=int(values.get("objects", cls.objects)),
            seconds=values.get("s", cls.seconds),
            every=int(values.get("every", cls.every)),
            share=values.get("share", cls.share),
            mb=values.get("mb", cls.mb),
            peer=None if "peer" not in values else int(values["peer"]),
            expert=expert,
        )


def _number(kind: str, name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        raise ValueError(f"fault {kind} has {name}={value!r}; give a number") from None
    if name in _WHOLE and number != int(number):
        raise ValueError(f"fault {kind} has {name}={value}; give a whole number")
    return number


def _example(kind: str) -> str:
    return f"{kind}=5@8" if kind in AT_ONE_STEP else f"{kind}=5"
