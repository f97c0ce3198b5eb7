"""What was reported of one job, as it is kept in a file of results."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.stuck.cases import CASES


@dataclass
class Outcome:
    """One job, and what was reported of it.

    `status_s`, `finding_s`: seconds after the onset until ranks are reported to wait, and until a
    finding of a right kind names exactly the culprits; None: never. `after`: that finding from the
    run folder alone once all processes were killed. `wrong`: findings of hangs that name others or
    another kind, at any time. `dumps`, `fr_trace`: ranks that rankscope and fr_trace name from the
    Flight Recorder's dumps alone; None: no dumps, or an error. `load`: of the machine at the onset;
    `watched_s`: how long a slow job was watched.
    """

    case: str
    num_ranks: int
    status_s: float | None = None
    finding_s: float | None = None
    after: bool = False
    wrong: list[str] = field(default_factory=list)
    dumps: list[int] | None = None
    fr_trace: list[int] | None = None
    has_dumps: bool = False
    load: float = 0.0
    watched_s: float = 0.0

    @property
    def is_control(self) -> bool:
        """Whether nothing is stuck: the job is slow at one place."""
        return not CASES[self.case].kinds

    @property
    def delay_s(self) -> float | None:
        """Seconds from when there was evidence until the finding; None without one."""
        if self.finding_s is None:
            return None
        return max(self.finding_s - CASES[self.case].evidence_s, 0.0)

    @property
    def is_right(self) -> bool:
        """Found and nothing else; of a control: nothing."""
        return not self.wrong and (self.is_control or self.finding_s is not None)

    @property
    def culprits(self) -> list[int]:
        """Global ranks that have to be named."""
        return list(CASES[self.case].ranks(self.num_ranks))

    def add_wrong(self, text: str) -> None:
        """A finding that names others or another kind."""
        if text not in self.wrong:
            self.wrong.append(text)

    def to_line(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_line(cls, line: str) -> Outcome:
        """The outcome of `to_line`'s text."""
        values: dict[str, Any] = json.loads(line)
        return cls(**values)
