"""How old a cached answer about a run may be: the policies of app.runs.cache, and who uses which.

A run has a version, which goes up with each piece of news. The words are those of HTTP caching,
with the version in the place of an ETag:

fresh                   the answer is about the newest version
prefetch                as fresh; what many ask for is computed before listeners hear of the news
max-age                 as fresh, and no older than some seconds: the answer depends on the clock
min-age                 an answer is served for some seconds whatever the news; whoever asks later
                        waits for a new one
stale-while-revalidate  an older answer is served at once and computed again in the background
                        (app.runs.revalidation)

USES is the table of all cached answers; tests/app/runs/test_policies.py compares it with the code.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

REST = 3.0
"""An expensive answer is not computed again for this many times as long as it took: a quarter of
one core at most."""


@dataclass(frozen=True)
class Policy:
    """When a stored answer is served instead of computing it again."""

    name: str
    min_age_s: float | None = None
    """an answer about an older version is served until it is this old, or REST times as old as it
    took to compute; None: never"""
    max_age_s: float = math.inf
    """an answer is not served when it is older, even where the run has no news"""
    outlives_news: bool = False
    """stays in the cache when its version is no longer the newest"""

    def serves(self, is_newest: bool, begun_s: float, took_s: float, now_s: float) -> bool:
        """Whether an answer whose computation began at `begun_s` and took `took_s` is served."""
        if now_s - begun_s > self.max_age_s:
            return False
        if is_newest or self.min_age_s is None:
            return is_newest
        return now_s - (begun_s + took_s) < max(self.min_age_s, REST * took_s)


FRESH = Policy("fresh")
PREFETCH = Policy("prefetch")
STALE_WHILE_REVALIDATE = Policy("stale-while-revalidate", outlives_news=True)


def max_age(seconds: float) -> Policy:
    """Fresh, and computed again after some seconds even without news."""
    return Policy("max-age", max_age_s=seconds)


def min_age(seconds: float) -> Policy:
    """Served for some seconds whatever the news, then as fresh; longer what took long."""
    return Policy("min-age", min_age_s=seconds, outlives_news=True)


@dataclass(frozen=True)
class Use:
    """One kind of cached answer."""

    policy: str
    asked_by: tuple[str, ...]
    """modules of app/"""
    why: str


def _fresh(why: str, *asked_by: str) -> Use:
    return Use("fresh", asked_by, why)


def _prefetch(why: str, *asked_by: str) -> Use:
    return Use("prefetch", asked_by, why)


def _max_age(why: str, *asked_by: str) -> Use:
    return Use("max-age", asked_by, why)


def _min_age(why: str, *asked_by: str) -> Use:
    return Use("min-age", asked_by, why)


def _stale(why: str, *asked_by: str) -> Use:
    return Use("stale-while-revalidate", asked_by, why)


USES: dict[str, Use] = {
    # what every page shows
    "card": _fresh(
        "state and newest step: one cheap read that every page and every live socket shows",
        "analysis/live_status.py",
        "analysis/stuck_page.py",
        "components/topbar.py",
    ),
    "kpis": _prefetch("numbers that every page asks for at each piece of news", "analysis/kpis.py"),
    "kpis with heartbeats": _max_age(
        "which ranks are silent depends on the clock, also while a job hangs and has no news",
        "analysis/kpis.py",
    ),
    "tile of a finding": _fresh(
        "one rank's numbers of a map that may take seconds to read", "analysis/kpis.py"
    ),
    "diagnosis": _stale(
        "takes seconds on thousands of ranks; every page and several routes ask for it",
        "analysis/diagnosis.py",
    ),
    "findings": _prefetch("pages ask for it at each piece of news", "routes/findings.py"),
    "strip": _prefetch("pages ask for it at each piece of news", "routes/overview.py"),
    "has logged": _fresh("whether a place is kept for it", "pages/overview.py"),
    "logged": _min_age("reads what was logged in every step", "routes/overview.py"),
    "newest steps": _fresh("which steps a page shows by default", "analysis/page_scope.py"),
    "about": _fresh("one read per attempt, for a panel and its notes", "components/about_run.py"),
    "clocks": _fresh("one read per attempt, for the drawer", "components/findings_frame.py"),
    "can be stuck": _fresh("whether there is a tab, on every page", "analysis/stuck_page.py"),
    "logs": _fresh("a query per search, for a pane", "routes/logs.py"),
    "has machines": _fresh("whether there is a tab, on every page", "analysis/machine_samples.py"),
    "machines": _min_age(
        "reads all samples of an attempt, which grow by some hundred a second and host",
        "analysis/machine_samples.py",
        "routes/machines.py",
    ),
    "has batches": _fresh("whether there is a tab, on every page", "pages/data.py"),
    "data loading": _fresh("some queries per attempt and steps, for a page", "routes/data.py"),
    "has experts": _fresh("whether there is a tab, on every page", "pages/experts.py"),
    "experts": _min_age(
        "adds up the loads of all ranks, layers and experts in some hundred steps",
        "routes/experts.py",
    ),
    "stuck": _fresh("some queries per attempt, for a page", "analysis/stuck_page.py"),
    "first lines": _fresh("a query per failure, for a page", "analysis/stuck_page.py"),
    "self-test": _fresh("some queries per attempt, for a page", "routes/selftest.py"),
    "self-test matrix": _fresh("one matrix per test and size, for a page", "routes/selftest.py"),
    "shared pages": _fresh("some queries, for files of several sizes", "share/collected_pages.py"),
    "can replay": _fresh("whether there is a tab, on every page", "pages/whatif.py"),
    "has rows": _fresh("whether there is anything to draw", "pages/overview.py"),
    "instead of steps": _fresh("what a run without steps shows", "pages/overview.py"),
    "breakdown": _fresh("one table per attempt and steps", "components/breakdown.py"),
    "first model view": _fresh("which view the tab opens with", "pages/model.py"),
    # ranks
    "ranks/{name}": _prefetch(
        "pictures that pages ask for at each piece of news", "routes/ranks.py"
    ),
    "map": _fresh("grids and heat maps are cut out of it", "analysis/metric_maps.py"),
    "small map": _fresh("decides what a part of a map is cut out of", "analysis/metric_maps.py"),
    "steps that fit": _fresh("decides which part of a map is held", "analysis/metric_maps.py"),
    "median step time": _fresh("the same for all metrics of a map", "analysis/metric_maps.py"),
    "grid of ranks": _fresh("shared by grid, hosts and table", "routes/ranks.py"),
    "rank table": _fresh("pages, orders and filters of one table", "routes/ranks.py"),
    "rank states": _max_age(
        "which ranks are silent depends on the clock, also while a job hangs and has no news",
        "routes/ranks.py",
    ),
    # timeline
    "timeline": _prefetch("a tile that pages ask for at each piece of news", "routes/timeline.py"),
    "timeline attempt": _fresh("the same for all tiles and searches", "analysis/timelines.py"),
    "timeline ranks": _fresh("the same for all tiles and searches", "analysis/timelines.py"),
    "timeline extent": _fresh("the same for all tiles of some lanes", "analysis/timelines.py"),
    "timeline picture": _fresh(
        "the same for everybody who looks at these lanes, whichever rank is selected",
        "analysis/timelines.py",
    ),
    "timeline state": _fresh("the same for all tiles", "analysis/timelines.py"),
    # model
    "tensor map": _stale("reads statistics of every step and layer", "routes/model.py"),
    "tensor histogram": _stale("reads a histogram of every step", "routes/model.py"),
    "step axes": _stale("reads what was logged in every step", "routes/model.py"),
    "frames": _stale("lists every stored frame", "routes/model.py"),
    "hidden-state axes": _stale("a decomposition of all layers' states", "routes/model.py"),
    "perturbations": _stale("reads the marks of all attempts", "routes/live/perturb.py"),
    "losses": _stale("reads the loss of every step", "routes/live/perturb.py"),
    # efficiency
    "startup": _min_age("three queries per attempt; new rows come each 2 s", "routes/goodput.py"),
    "goodput": _min_age("reads the sums of all steps of all attempts", "routes/goodput.py"),
    "mfu": _min_age("reads what every rank did in up to all steps of a run", "routes/mfu.py"),
    "operations": _min_age("reads all spans of up to 200 profiled steps", "routes/mfu.py"),
    # what-if
    "what-if": _min_age(
        "a replay of every step, and parts of the page must describe the same moment",
        "analysis/whatif_answers.py",
    ),
    "what-if causes": _min_age("one replay per cause", "analysis/whatif_answers.py"),
    "what-if schedules": _min_age("a replay per schedule", "analysis/whatif_answers.py"),
    "what-if schedule": _min_age("a replay of one step", "analysis/whatif_answers.py"),
    "what-if advice": _min_age("a replay per change", "analysis/whatif_answers.py"),
    # shared files
    "shared heat": _fresh(
        "a coarser try of the same file reads nothing again", "share/collected_view.py"
    ),
    "shared timeline": _fresh(
        "a coarser try of the same file reads nothing again", "share/collected_view.py"
    ),
    "shared rows": _fresh(
        "a coarser try of the same file reads nothing again", "share/collected_view.py"
    ),
}
"""By kind of answer (first part of its key): policy, the modules that request it, and why."""
