"""A campaign: statements of a seed over several places of attack at once, counted and shrunk."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.hostile.sql.site import Site, Violation
from tests.hostile.sql.sql_file import Listed, listed
from tests.hostile.sql.statements import Statement, Statements

_BATCH = 40
"""Statements between two looks at what takes longer to see."""
MOST_SHOWN = 40
"""Statements shown of each kind of violation; all are counted."""

Show = Callable[[str], None]


@dataclass
class Report:
    """What a campaign found."""

    num_statements: int = 0
    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    """By stratum: outcomes, and violations by kind; a statement counts once for each kind."""
    violations: Counter[str] = field(default_factory=Counter)
    refused: dict[str, str] = field(default_factory=dict)
    """Honest statements that were not answered as they should, and how they ended."""
    crashes: dict[str, str] = field(default_factory=dict)
    """Statements on which something else than a sentence came back."""
    shown: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def count(self, stratum: str, kinds: Iterable[str]) -> None:
        """Add to the counts of a stratum."""
        self.outcomes.setdefault(stratum, Counter()).update(kinds)

    @property
    def summary(self) -> str:
        """The last line."""
        violations = self.violations
        return (
            f"{self.num_statements} statements: {violations['write']} writes, "
            f"{violations['read']} reads outside, {violations['limit']} limits passed, "
            f"{len(self.refused)} honest statements refused"
        )


class Campaign:
    """Runs statements; may be stopped by `stop.set()` from another thread."""

    def __init__(
        self,
        folder: Path,
        seed: int,
        layers: frozenset[str],
        with_limits: bool = True,
        most: int = 10**9,
        show: Show = print,
    ) -> None:
        """`most`: stop after this many violations."""
        self.folder = folder
        self.layers = layers
        self.report = Report()
        self.stop = threading.Event()
        self._seed = seed
        self._statements = Statements(seed, with_limits)
        self._most = most
        self._show = show
        self._lock = threading.Lock()

    def run(self, num: int, num_workers: int, every: float = 10.0) -> Report:
        """Run this many statements; a line of progress each `every` seconds."""
        begun_s = time.monotonic()
        with ThreadPoolExecutor(num_workers) as pool:
            jobs = [
                pool.submit(self._work, worker, range(worker, num, num_workers))
                for worker in range(num_workers)
            ]
            try:
                self._wait(jobs, num, every, begun_s)
            finally:
                self.stop.set()
        for job in jobs:
            job.result()
        self.report.seconds = time.monotonic() - begun_s
        return self.report

    def _wait(self, jobs: list[Future[None]], num: int, every: float, begun_s: float) -> None:
        reported_s = begun_s
        while not all(job.done() for job in jobs):
            time.sleep(0.2)
            if any(job.done() and job.exception() for job in jobs):
                return
            if time.monotonic() - reported_s >= every:
                reported_s = time.monotonic()
                self._show(f"{reported_s - begun_s:5.0f} s of {num}: {self.report.summary}")

    def _work(self, worker: int, numbers: range) -> None:
        token = f"rankscope-canary-{self._seed}-{worker}"
        site = Site(self.folder / str(worker), token, self.layers)
        try:
            if worker == 0:
                self._honest(site, "before")
            for at in range(0, len(numbers), _BATCH):
                if self.stop.is_set():
                    break
                self._batch(site, [self._statements.one(n) for n in numbers[at : at + _BATCH]])
            if worker == 0:
                self._honest(site, "after")
        finally:
            site.close()

    def _honest(self, site: Site, when: str) -> None:
        for one in listed("honest.sql"):
            why = unanswered(site, one)
            if why:
                with self._lock:
                    self.report.refused[one.text] = f"{why} ({when} the campaign)"

    def _batch(self, site: Site, batch: list[Statement]) -> None:
        since: list[Statement] = []
        for statement in batch:
            if self.stop.is_set():
                return
            found = self._one(site, statement)
            since.append(statement)
            if any(v.kind == "write" for v in found):
                self._violated(site, statement, found)
                site.restore()
                since.clear()
            elif found:
                self._violated(site, statement, found)
        if since and site.changed_state():
            self._find(site, since)

    def _one(self, site: Site, statement: Statement) -> list[Violation]:
        reply, found = site.run(statement.text, statement.lists_settings)
        with self._lock:
            report = self.report
            report.num_statements += 1
            kinds = {violation.kind for violation in found}
            report.count(statement.stratum, [reply.kind, *kinds])
            report.violations.update(kinds)
            if statement.is_honest and reply.kind != "rows":
                report.refused[statement.text] = f"{reply.kind}: {reply.message or reply.passed}"
            if reply.kind == "crashed":
                report.crashes.setdefault(reply.message[:60], statement.text)
            if report.violations.total() >= self._most:
                self.stop.set()
        return found

    def _find(self, site: Site, batch: list[Statement]) -> None:
        """Which statement of a batch changed what is seen only later: each again, alone."""
        culprits = 0
        site.restore()
        for statement in batch:
            if self.stop.is_set():
                return
            site.run(statement.text)
            violations = site.changed_state()
            if violations:
                culprits += 1
                self._count_late(statement, violations)
                self._violated(site, statement, violations)
                site.restore()
        if not culprits:
            first, last = batch[0], batch[-1]
            late = [Violation("write", f"by statements {first.number} to {last.number} together")]
            self._count_late(last, late)
            self._show_violations(last, last.text, late)
        site.restore()

    def _count_late(self, statement: Statement, violations: list[Violation]) -> None:
        with self._lock:
            kinds = {violation.kind for violation in violations}
            self.report.count(statement.stratum, kinds)
            self.report.violations.update(kinds)

    def _violated(self, site: Site, statement: Statement, violations: list[Violation]) -> None:
        """Show the simplest stage of the statement that has the same effect."""
        kinds = {violation.kind for violation in violations}
        with self._lock:
            too_many = self.report.violations[min(kinds)] > MOST_SHOWN
        if too_many:
            return
        for stage in () if kinds == {"limit"} else statement.stages[:-1]:
            site.restore()
            _, again = site.run(stage, statement.lists_settings)
            again += site.changed_state()
            if kinds <= {violation.kind for violation in again}:
                self._show_violations(statement, stage, again)
                return
        self._show_violations(statement, statement.text, violations)

    def _show_violations(
        self, statement: Statement, text: str, violations: list[Violation]
    ) -> None:
        kinds = "+".join(sorted({violation.kind for violation in violations}))
        detail = "; ".join(dict.fromkeys(violation.detail for violation in violations))[:240]
        short = text if len(text) < 500 else f"{text[:300]} ... ({len(text)} characters)"
        line = f"{kinds.upper()} {statement.number} [{statement.stratum}] {short!r}: {detail}"
        with self._lock:
            self.report.shown.append(line)
        self._show(line)


def unanswered(site: Site, one: Listed) -> str:
    """Why an honest statement does not count as answered, '' it does."""
    reply, found = site.run(one.text)
    if found:
        return "; ".join(violation.detail for violation in found)
    if reply.kind != "rows":
        return f"{reply.kind}: {reply.message}"
    if one.num_rows is not None and reply.num_rows != one.num_rows:
        return f"{reply.num_rows} rows instead of {one.num_rows}"
    return ""
