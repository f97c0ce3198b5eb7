"""What a diagnosis holds: findings with their evidence, and what could not be judged.

A Finding names who, how much against whom and since when; each of its numbers comes with the saved
query that gives it again. Its id holds no row number, so that links outlive a new index.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

SEVERITIES = ("urgent", "warning", "past")
"""urgent: acts now and costs the job; warning: acts now, small; past: it is over."""

CONFIDENCES = ("high", "medium", "low")

ADVICE = ("", "restart", "cordon_node", "reset_gpu", "fix_code", "raise_limit", "fix_setting")
"""What to do next, in a word: of findings on what ended a job."""

_KIND = re.compile(r"[a-z]+(_[a-z]+)*")
"""Which kinds there are, the registry of detectors knows (diagnosis/detectors/__init__.py)."""


@dataclass(frozen=True)
class Place:
    """A rank with its host and its index on every known parallel axis."""

    rank: int
    host: str | None = None
    coords: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        if self.rank < 0:
            raise ValueError(f"rank is {self.rank}; ranks count from 0")

    def __str__(self) -> str:
        where = ", ".join(f"{axis} {index}" for axis, index in self.coords)
        return f"rank {self.rank}" + (f" ({where})" if where else "")


@dataclass(frozen=True)
class Evidence:
    """One sentence with its number, the saved query that gives it, and where to see it.

    `params`: parameters of the question; `view`: fields of the view state of the dashboard's link.
    """

    sentence: str
    number: float
    unit: str
    question: str
    params: tuple[tuple[str, int | float | str], ...] = ()
    view: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if not self.sentence or not self.question:
            raise ValueError("evidence needs a sentence and the question that gives its number")
        if not math.isfinite(self.number):
            raise ValueError(f"evidence has the number {self.number}; leave out what is unknown")


MEASURED, ESTIMATED = "measured", "estimated"


@dataclass(frozen=True)
class Cost:
    """How much longer the steps of the job are than without it, on average over its steps.

    `step_ms`: how long these steps are, wall time; `num_steps`: how many. `basis`: measured against
    steps of the same run without it, or estimated from how late its ranks come.
    """

    ms_per_step: float
    step_ms: float
    num_steps: int
    num_ranks: int
    basis: str = ESTIMATED

    def __post_init__(self) -> None:
        if not (0 <= self.ms_per_step <= self.step_ms and self.num_steps > 0 < self.num_ranks):
            raise ValueError(
                f"cost is {self.ms_per_step} ms of a step of {self.step_ms} ms in {self.num_steps} "
                f"steps of {self.num_ranks} ranks; give a part of the step, and steps and ranks"
            )
        if self.basis not in (MEASURED, ESTIMATED):
            raise ValueError(f"cost is {self.basis!r}; give {MEASURED} or {ESTIMATED}")

    @property
    def share(self) -> float:
        """Of the time of these steps, 0 to 1."""
        return round(self.ms_per_step / self.step_ms, 5) if self.step_ms > 0 else 0.0

    @property
    def rank_hours(self) -> float:
        """Hours that all ranks together lost in these steps; little is not rounded to nothing."""
        hours = self.ms_per_step * self.num_steps * self.num_ranks / 3.6e6
        return round(hours, 5) or float(f"{hours:.2g}")

    def to_json(self) -> dict[str, Any]:
        """Plain values, with share and rank-hours."""
        return {**asdict(self), "share": self.share, "rank_hours": self.rank_hours}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Cost:
        """The cost of `to_json`'s values; raises TypeError or ValueError."""
        return cls(**{key: plain[key] for key in plain if key not in ("share", "rank_hours")})


def cost_of(ms_per_step: float, step_ms: float, num_steps: int, num_ranks: int) -> Cost | None:
    """An estimate, at most all of the step; None where the step is unknown."""
    if not (math.isfinite(ms_per_step) and math.isfinite(step_ms) and step_ms > 0):
        return None
    longer_ms = round(min(max(ms_per_step, 0.0), step_ms), 3)
    return Cost(longer_ms, max(round(step_ms, 3), longer_ms), num_steps, num_ranks)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something wrong with a run. Checks itself; raises ValueError naming the value.

    Steps are of attempt `attempt`, both included. `culprits`: empty where no rank is at fault by
    itself. `slowdown`: x against its peers. `cost`: None where clocks or waits are unknown.
    `stages`, `hosts`: what is meant as a whole; a rank's own stage and host stand in its Place.
    `cause`: one sentence. `advice`: a word of ADVICE. `episodes`: first and last steps of each
    where it came and went.
    """

    kind: str
    attempt: int
    severity: str
    confidence: str
    title: str
    text: str
    culprits: tuple[Place, ...] = ()
    victims: tuple[int, ...] = ()
    first_step: int
    last_step: int
    ongoing: bool
    slowdown: float | None = None
    cost: Cost | None = None
    evidence: tuple[Evidence, ...]
    alternatives: tuple[str, ...]
    next_step: str
    stages: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    cause: str = ""
    episodes: tuple[tuple[int, int], ...] = ()
    advice: str = ""

    def __post_init__(self) -> None:
        if not _KIND.fullmatch(self.kind):
            raise ValueError(f"a finding's kind is {self.kind!r}; give words joined by _")
        for name, value, known in (
            ("severity", self.severity, SEVERITIES),
            ("confidence", self.confidence, CONFIDENCES),
            ("advice", self.advice, ADVICE),
        ):
            if value not in known:
                raise ValueError(f"a finding's {name} is {value!r}; known: {', '.join(known)}")
        if self.last_step < self.first_step:
            raise ValueError(
                f"steps {self.first_step} to {self.last_step}: the last comes before the first"
            )
        if not (self.title and self.text and self.next_step and self.evidence):
            raise ValueError("a finding needs a title, a text, evidence and a next step")
        if self.ongoing == (self.severity == "past"):
            raise ValueError("a finding is either ongoing or past")
        if set(self.victims) & {place.rank for place in self.culprits}:
            raise ValueError("a rank is culprit and victim of the same finding")

    def since(self, step: int) -> Finding:
        """The finding with an earlier first step; its evidence stays that of the steps it names."""
        cost = self.cost
        if cost is not None:
            cost = replace(cost, num_steps=cost.num_steps + max(self.first_step - step, 0))
        return replace(self._beginning(f"step {step}"), first_step=step, cost=cost)

    def or_earlier(self) -> Finding:
        """The finding where the steps before its first one were not examined."""
        return self._beginning(f"step {self.first_step} or earlier")

    def _beginning(self, step: str) -> Finding:
        """With another text for the first step."""
        text = re.sub(rf"\bstep {self.first_step}\b", step, self.text, count=1)
        return replace(self, text=text)

    @property
    def id(self) -> str:
        """kind-attempt-ranks-first step: the same after the index was built again.

        For ranks stand stages where whole ones are meant, else `job`; of many ranks the first, the
        last and their number.
        """
        named = [str(place.rank) for place in self.culprits]
        if len(named) > _MOST_IN_ID:  # ids stand in links
            named = [named[0], "to", named[-1], f"{len(named)}ranks"]
        ranks = "_".join(named)
        stages = "_".join(f"stage{stage}" for stage in self.stages)
        who = ranks or stages or "job"
        return f"{self.kind}-{self.attempt}-{who}-{self.first_step}"

    def to_json(self) -> dict[str, Any]:
        """Plain values, with the id, the culprits' ranks, both steps and the cost by themselves."""
        plain = asdict(self)
        plain["ranks"] = [place.rank for place in self.culprits]
        plain["steps"] = [self.first_step, self.last_step]
        plain["cost"] = self.cost.to_json() if self.cost else None
        plain["cost_ms_per_step"] = self.cost.ms_per_step if self.cost else None
        plain["culprit_ranks"] = [place.rank for place in self.culprits]
        plain["victim_ranks"] = list(plain.pop("victims"))
        plain["culprits"] = [{**asdict(p), "coords": dict(p.coords)} for p in self.culprits]
        plain["evidence"] = [
            {**asdict(e), "params": dict(e.params), "view": dict(e.view)} for e in self.evidence
        ]
        return {"id": self.id, **plain}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Finding:
        """The finding of `to_json`'s values; raises ValueError, KeyError or TypeError."""
        derived = ("id", "culprit_ranks", "victim_ranks", "ranks", "steps", "cost_ms_per_step")
        values = {key: value for key, value in plain.items() if key not in derived}
        values["culprits"] = tuple(
            Place(p["rank"], p["host"], tuple(p["coords"].items())) for p in plain["culprits"]
        )
        values["evidence"] = tuple(
            Evidence(
                **{
                    **e,
                    "params": tuple(e["params"].items()),
                    "view": tuple((key, _frozen(value)) for key, value in e["view"].items()),
                }
            )
            for e in plain["evidence"]
        )
        values["cost"] = None if plain["cost"] is None else Cost.from_json(plain["cost"])
        values["victims"] = tuple(plain["victim_ranks"])
        for name in ("alternatives", "stages", "hosts", "episodes"):
            values[name] = tuple(map(_frozen, plain.get(name, ())))
        return cls(**values)


_MOST_IN_ID = 16


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


@dataclass(frozen=True)
class NotEnoughData:
    """What a detector could not judge, and what it would need: one sentence."""

    detector: str
    missing: str


@dataclass(frozen=True)
class Verdict:
    """The verdict of one detector on a run.

    `checked`: what was examined and is in order, None where nothing could be judged.
    `set_aside`: what stood out and is not one of this detector's kinds, and why.
    `of_data`: it is about what was recorded, or the job as a whole; in order, it judges no rank.
    """

    detector: str
    findings: tuple[Finding, ...] = ()
    checked: str | None = None
    not_enough: tuple[NotEnoughData, ...] = ()
    set_aside: tuple[str, ...] = ()
    of_data: bool = False

    def __post_init__(self) -> None:
        if not self.findings and self.checked is None and not self.not_enough:
            raise ValueError(
                f"detector {self.detector} has no findings, nothing checked and nothing missing"
            )


@dataclass(frozen=True)
class Diagnosis:
    """The verdicts of all detectors."""

    verdicts: tuple[Verdict, ...] = field(default=())

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings of all detectors, in the order in which to look at them: first urgent ones whose
        cost is not known, then those that go on by their cost, last those that are over.
        """
        return tuple(sorted((f for v in self.verdicts for f in v.findings), key=_order))

    @property
    def checked(self) -> tuple[str, ...]:
        """What was examined and is in order."""
        return tuple(v.checked for v in self.verdicts if v.checked is not None)

    @property
    def not_enough(self) -> tuple[NotEnoughData, ...]:
        """What could not be judged."""
        return tuple(missing for v in self.verdicts for missing in v.not_enough)

    @property
    def set_aside(self) -> tuple[str, ...]:
        """What stood out and is no finding, and why."""
        return tuple(sentence for v in self.verdicts for sentence in v.set_aside)

    @property
    def judged(self) -> bool:
        """Whether at least one detector had enough data to judge the job."""
        return any(v.findings or (v.checked is not None and not v.of_data) for v in self.verdicts)

    def with_findings(self, change: Callable[[Finding], Finding]) -> Diagnosis:
        """The same with every finding changed."""
        return Diagnosis(
            tuple(replace(v, findings=tuple(map(change, v.findings))) for v in self.verdicts)
        )

    @cached_property
    def digest(self) -> str:
        """Equal for two diagnoses that hold the same."""
        text = json.dumps(self.to_json(), sort_keys=True, default=str)
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "findings": [finding.to_json() for finding in self.findings],
            "checked": list(self.checked),
            "not_enough": [asdict(missing) for missing in self.not_enough],
            "set_aside": list(self.set_aside),
            "judged": self.judged,
        }


def _order(finding: Finding) -> tuple[int, float, float, int]:
    if finding.severity == "past":
        group = 3
    elif finding.cost is None:
        group = 0 if finding.severity == "urgent" else 2
    else:
        group = 1
    share = finding.cost.share if finding.cost else 0.0
    return group, -share, -(finding.slowdown or 0.0), finding.first_step
