"""Faults of synthetic jobs and how they are written: `slow_worker=137,x=1.3,from=8`.

The kinds are those a finding can have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class FaultKind:
    """What one kind of fault hits (rank, stage, host or the whole job) and how it is dosed."""

    target: str
    dose: str
    default: float
    meaning: str


KINDS = {
    "slow_worker": FaultKind("rank", "x", 1.3, "all compute of a rank takes x times as long"),
    "slow_stage": FaultKind("stage", "x", 1.3, "all compute of a pipeline stage"),
    "host_contention": FaultKind("host", "x", 1.5, "wall time of a host's compute, not CPU time"),
    "sequence_imbalance": FaultKind("job", "x", 1.25, "spread of the work among micro-batches"),
    "jit_spikes": FaultKind("job", "ms", 100.0, "every tenth step compiles something"),
    "allocator_stalls": FaultKind(
        "rank", "ms", 200.0, "every tenth step its allocator allocates again"
    ),
    "gc_pauses": FaultKind("job", "ms", 30.0, "a pause on another rank each step"),
    "data_loader": FaultKind("job", "ms", 100.0, "wait for the next batch"),
    "launch_skew": FaultKind("job", "ms", 10.0, "mean of random delays before gradients are sent"),
    "slow_link": FaultKind("rank", "x", 5.0, "transfers of a rank to the next pipeline stage"),
    "slow_node_link": FaultKind("host", "x", 5.0, "tensor-parallel transfers inside a host"),
    "slow_dp_network": FaultKind("rank", "x", 3.0, "collectives of a rank's data-parallel group"),
    "comm_regression": FaultKind("job", "x", 1.5, "every transfer of the job"),
    "slow_host": FaultKind("host", "x", 5.0, "transfers between a host and others"),
    "many_hosts_slow": FaultKind("host", "x", 5.0, "the same for all hosts on a host's switch"),
    "link_flap": FaultKind("rank", "ms", 500.0, "now and then one transfer to the next stage"),
    "slow_op": FaultKind("job", "x", 2.0, "attention, on all ranks"),
    "step_regression": FaultKind("job", "x", 1.2, "all compute of the job"),
    "slow_checkpoint": FaultKind("rank", "ms", 300.0, "every tenth step a rank saves so long"),
    "monitor_overhead": FaultKind("job", "ms", 50.0, "what recording costs every rank a step"),
    "data_gaps": FaultKind("rank", "", 0.0, "what a rank recorded in some steps is lost"),
    "clock_unaligned": FaultKind("job", "ms", 90.0, "clocks of hosts differ by an unknown amount"),
    "dead_rank": FaultKind("rank", "", 0.0, "a rank falls silent in step from, the others wait"),
    "dead_units": FaultKind("job", "", 0.0, "most units of a layer's MLP are zero from then on"),
    "stalled_updates": FaultKind("job", "", 0.0, "updates of all layers or one are next to none"),
    "attention_entropy_collapse": FaultKind("job", "", 0.0, "heads of a layer see one token alone"),
    "logit_growth": FaultKind("job", "", 0.0, "attention logits of a layer's heads jump and grow"),
}


EVERY_STEPS = 10
PERIODIC = ("jit_spikes", "slow_checkpoint", "allocator_stalls")
"""Kinds that hit every EVERY_STEPS-th step."""

OF_THE_MODEL = ("dead_units", "stalled_updates", "attention_entropy_collapse", "logit_growth")
"""Kinds that only statistics of the model show."""

NOW_AND_THEN = ("link_flap", "data_gaps")
"""Kinds that hit some steps, at no regular distance."""


@dataclass(frozen=True)
class SyntheticFault:
    """One planted fault; raises ValueError naming the value and the remedy.

    `where`: rank, stage or host number by KINDS[kind].target, None for the whole job. `dose`: a
    factor or milliseconds. It acts from first_step to last_step, None: until the end.
    """

    kind: str
    where: int | None
    dose: float
    first_step: int = 0
    last_step: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown fault {self.kind!r}; known: {', '.join(KINDS)}")
        what = KINDS[self.kind]
        if (self.where is None) != (what.target == "job"):
            hint = "takes no number" if what.target == "job" else f"needs a {what.target}"
            raise ValueError(f"fault {self.kind} {hint}; write {_example(self.kind)}")
        if (what.dose == "x" and self.dose < 1) or (what.dose == "ms" and self.dose <= 0):
            floor = "a factor of at least 1" if what.dose == "x" else "more than 0"
            raise ValueError(f"fault {self.kind} has {what.dose}={self.dose:g}; give {floor}")
        if self.first_step < 0 or (self.last_step or self.first_step) < self.first_step:
            raise ValueError(
                f"fault {self.kind} acts from step {self.first_step} to {self.last_step}; "
                "steps count from 0 and from= comes first"
            )

    def active(self, step: int) -> bool:
        """Whether the fault acts in this step."""
        return self.first_step <= step and (self.last_step is None or step <= self.last_step)

    def hits(self, step: int) -> bool:
        """Whether it lengthens this step: some kinds do not hit every step they act in."""
        if self.kind in PERIODIC:
            return self.active(step) and step % EVERY_STEPS == 0
        if self.kind in NOW_AND_THEN:
            return self.active(step) and step * step % 11 < 3  # 0, 1, 10, 11, 12, 21, ..
        return self.active(step)

    @property
    def text(self) -> str:
        """For the mark it leaves: "slow worker on rank 137, 1.3x, from step 8 to the end"."""
        what = KINDS[self.kind]
        where = "" if self.where is None else f" on {what.target} {self.where}"
        unit = {"x": "x", "ms": " ms"}.get(what.dose)
        dose = "" if unit is None else f", {self.dose:g}{unit},"
        last = "the end" if self.last_step is None else f"step {self.last_step}"
        when = f"from step {self.first_step} to {last}"
        return f"{self.kind.replace('_', ' ')}{where}{dose} {when}"

    def to_json(self) -> dict[str, Any]:
        """How the fault stands in run.json under truth: {"kind", target, dose, "from", "to"}."""
        what = KINDS[self.kind]
        label: dict[str, Any] = {"kind": self.kind}
        if what.target != "job":
            label[what.target] = self.where
        if what.dose:
            label[what.dose] = self.dose
        return label | {"from": self.first_step, "to": self.last_step}

    @classmethod
    def parse(cls, text: str) -> SyntheticFault:
        """Fault from its command-line form; raises ValueError.

        >>> SyntheticFault.parse("slow_worker=137,x=1.3,from=8").where
        137
        """
        head, *options = (part.strip() for part in text.split(","))
        kind, _, target = head.partition("=")
        if kind not in KINDS:
            raise ValueError(f"unknown fault {kind!r}; known: {', '.join(KINDS)}")
        if target and not target.isdecimal():
            raise ValueError(f"fault {text!r} needs a number after the =; write {_example(kind)}")
        known = {"from", "to", KINDS[kind].dose} - {""}
        values: dict[str, float] = {}
        for option in options:
            name, _, value = option.partition("=")
            if name not in known:
                raise ValueError(
                    f"fault {kind} has no option {name!r}; it has: {', '.join(sorted(known))}"
                )
            values[name] = _number(kind, name, value)
        last = values.get("to")
        return cls(
            kind,
            int(target) if target else None,
            values.get(KINDS[kind].dose, KINDS[kind].default),
            int(values.get("from", 0)),
            None if last is None else int(last),
        )


def _number(kind: str, name: str, value: str) -> float:
    try:
        number = float(value)
        return number if name in ("x", "ms") else int(value)
    except ValueError:
        raise ValueError(f"fault {kind} has {name}={value!r}; give a number") from None


def _example(kind: str) -> str:
    target = "" if KINDS[kind].target == "job" else "=3"
    dose = f",{KINDS[kind].dose}={KINDS[kind].default:g}" if KINDS[kind].dose else ""
    return f"{kind}{target}{dose}"
