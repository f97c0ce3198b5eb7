"""Cached answers of the page What-if, for its routes and for shared files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from app.analysis.diagnosis import diagnosis_of
from app.analysis.finding_costs import costs_json
from app.runs.answer_store import Cached
from app.runs.hub import Hub
from app.runs.policies import min_age
from app.views.whatif.analysis import Answer, Refusal, Steps, stop_here, whatif_or_refusal
from app.views.whatif.answer import Replay, causes_json, cell_of, numbers, replayed
from app.views.whatif.schedules import Asked, advice_of, schedules_of, timeline_of
from diagnosis.whatif.causes import causes
from ingest.stopping import Stop

NEW_EVERY_S = 5.0
Json = dict[str, Any]


@dataclass(frozen=True)
class WhatIfAnswers:
    """Of some steps of an attempt (None: the newest, all). Each answer is {"reason": sentence}
    where the data do not allow it; all may raise UserError and Interrupted.
    """

    hub: Hub
    run: str
    attempt: int | None
    steps: Steps | None
    stop: Stop | None

    def numbers(self) -> Json:
        """The metrics; `is_outdated`: whether the run has newer data."""
        cached = self._analysis()
        found = cached.value
        content = refused(found) if isinstance(found, Refusal) else numbers(found)
        return content | {"is_outdated": self.hub.version(self.run) > cached.version}

    def costs(self) -> Json:
        """What each finding costs: from the diagnosis, not from a replay."""
        return costs_json(diagnosis_of(self.hub, self.run, self.attempt, self.stop))

    def causes(self) -> Json:
        """Which rank, stage or operation costs how much."""
        return self._of_analysis(
            lambda analysis, version: causes_json(
                self.hub.cache.get(
                    self.run,
                    ("what-if causes", version, self._scope),
                    lambda _run, stop: causes(analysis.prepared, lambda: stop_here(stop)),
                    min_age(NEW_EVERY_S),
                    self.stop,
                )
            )
        )

    def schedules(self, asked: Asked) -> Json:
        """What the pipeline would take under other schedules."""
        return self._of_analysis(
            lambda analysis, version: self.hub.cache.get(
                self.run,
                ("what-if schedules", version, self._scope, asked),
                lambda _run, stop: schedules_of(analysis, asked, lambda: stop_here(stop)),
                min_age(NEW_EVERY_S),
                self.stop,
            )
        )

    def schedule(self, asked: Asked, name: str) -> Json:
        """One step of the pipeline, as measured and under a schedule."""
        return self._of_analysis(
            lambda analysis, version: self.hub.cache.get(
                self.run,
                ("what-if schedule", name, version, self._scope, asked),
                lambda _run, stop: timeline_of(analysis, asked, name),
                min_age(NEW_EVERY_S),
                self.stop,
            )
        )

    def advice(self) -> Json:
        """Which change of the job's parallelism would save most."""
        return self._of_analysis(
            lambda analysis, version: self.hub.cache.get(
                self.run,
                ("what-if advice", version, self._scope),
                lambda _run, stop: advice_of(analysis, lambda: stop_here(stop)),
                min_age(NEW_EVERY_S),
                self.stop,
            )
        )

    def replay(self, step: int | None, rank: int | None) -> Replay:
        """One step as it ran and without stragglers; without arrays where there is none."""
        analysis = self._analysis().value
        if isinstance(analysis, Refusal):
            return Replay({}, refused(analysis))
        cell = cell_of(self.hub.run(self.run), analysis, rank)
        stop_here(self.stop)
        return replayed(analysis, step, cell)

    @property
    def _scope(self) -> tuple[int | None, Steps | None]:
        return self.attempt, self.steps

    def _of_analysis(self, compute: Callable[[Answer, int], Json]) -> Json:
        """What `compute` makes of the analysis and its version, or why there is none."""
        cached = self._analysis()
        if isinstance(cached.value, Refusal):
            return refused(cached.value)
        return compute(cached.value, cached.version)

    def _analysis(self) -> Cached[Answer | Refusal]:
        attempt, steps = self._scope
        return self.hub.cache.fetch(
            self.run,
            ("what-if", attempt, steps),
            lambda run, stop: whatif_or_refusal(run, attempt, steps, stop),
            min_age(NEW_EVERY_S),
            self.stop,
        )


def refused(refusal: Refusal) -> Json:
    """As an answer."""
    return {"reason": refusal.reason}
