"""Whole maps of metrics, cached: what grids and heat maps are cut out of."""

from __future__ import annotations

from dataclasses import dataclass

from app.runs.hub import Hub
from app.views.ranks.metric_matrix import (
    Cells,
    Steps,
    cells,
    fitting_part,
    job_step_ms,
    newest_part,
)
from app.views.ranks.scales import Metric
from ingest.run import Run
from ingest.stopping import Stop

_AT_ONCE = 1_000_000
"""Cells of the part of a large map that is shown while the whole is read."""
_SMALL = 50_000


@dataclass(frozen=True)
class Maps:
    """Cells of the runs of a hub; all of it may raise UserError and Interrupted."""

    hub: Hub

    def part(
        self, run: str, metric: Metric, attempt: int | None, stop: Stop | None = None
    ) -> Cells | None:
        """The newest steps of a map that takes seconds and is not cached yet; else None."""
        if self.hub.cache.peek(run, _key(metric, attempt, None)) is not None:
            return None
        steps = newest_part(self.hub.run(run), attempt, _AT_ONCE)
        return None if steps is None else self._read(run, metric, attempt, steps, stop)

    def some(
        self, run: str, metric: Metric, attempt: int | None, steps: Steps, stop: Stop | None = None
    ) -> Cells:
        """Some steps: cut out of the whole map where it is small or cached already, else read."""
        whole = self.hub.cache.peek(run, _key(metric, attempt, None))
        if not isinstance(whole, Cells) and self._is_small(run, attempt):
            whole = self._cached(run, metric, attempt, None, stop)
        if isinstance(whole, Cells):
            return whole.window(steps)
        return self._read(run, metric, attempt, steps, stop)

    def whole(
        self,
        run: str,
        metric: Metric,
        attempt: int | None,
        steps: Steps | None = None,
        stop: Stop | None = None,
    ) -> tuple[Cells, bool]:
        """Every finished step, and False. Of a map too large to be held the newest of the steps
        (default: all) which fit, and True.
        """
        held = self._fitting(run, attempt, None)
        if held is None:
            return self._cached(run, metric, attempt, None, stop), False
        if steps is None or (held[0] <= steps[0] and steps[1] <= held[1]):
            return self._cached(run, metric, attempt, held, stop), True
        fitting = self._fitting(run, attempt, steps) or steps
        return self._cached(run, metric, attempt, fitting, stop), True

    def _is_small(self, run: str, attempt: int | None) -> bool:
        """Whether all of a map is read as quickly as a part of it."""
        key = "small map", attempt
        return self.hub.cache.get(
            run, key, lambda run, _: newest_part(run, attempt, _SMALL) is None
        )

    def _fitting(self, run: str, attempt: int | None, steps: Steps | None) -> Steps | None:
        key = "steps that fit", attempt, steps
        return self.hub.cache.get(run, key, lambda run, _: (fitting_part(run, attempt, steps),))[0]

    def _cached(
        self, run: str, metric: Metric, attempt: int | None, steps: Steps | None, stop: Stop | None
    ) -> Cells:
        def compute(_run: Run, stop: Stop | None) -> Cells:
            found = self._read(run, metric, attempt, steps, stop)
            _ = found.code_RS  # computed once, here
            return found

        return self.hub.cache.get(run, _key(metric, attempt, steps), compute, stop=stop)

    def _read(
        self, run: str, metric: Metric, attempt: int | None, steps: Steps | None, stop: Stop | None
    ) -> Cells:
        step_ms = self.hub.cache.get(
            run, ("median step time", attempt), lambda run, _: job_step_ms(run, attempt)
        )
        return cells(self.hub.run(run), metric, attempt, steps, stop, step_ms)


def _key(metric: Metric, attempt: int | None, steps: Steps | None) -> tuple[object, ...]:
    return "map", metric.name, attempt, steps
