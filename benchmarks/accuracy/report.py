"""The report of the benchmark: all tables, in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.accuracy import calibration, tables, worlds_report
from benchmarks.accuracy.cases import NATIVE, TRACE, WORLDS
from benchmarks.accuracy.judge import Outcome
from benchmarks.accuracy.rivals import named
from benchmarks.accuracy.rivals.compared import chosen as chosen_for_others
from benchmarks.accuracy.rivals.compared import compared

TITLES = {NATIVE: "Tables of the hooks", TRACE: "StragglerAnalysis files"}
MASKED = ("masked",)
_WHOSE = {"causes": "`rankscope whatif` finds", "rules": "the published what-if rules find"}


def report(
    outcomes: Sequence[Outcome], rivals: int, plot: str, labelled: Sequence[str] = ()
) -> Iterator[str]:
    """Sections of what was judged.

    `plot`: where the plot of the calibration lies; `labelled`: table of real labelled runs.
    """
    by_world = calibration.calibrations(outcomes)
    yield from _section("Found, per world", worlds_report.found_by_world(outcomes))
    yield from _section("Healthy jobs, per world", worlds_report.healthy_by_world(outcomes))
    if labelled:
        yield from _section("Labelled runs of real accelerators", labelled)
    pictured = [*calibration.table(by_world), "", f"![calibration]({plot})"]
    yield from _section("Confidence, per world", pictured)
    for world in WORLDS:
        yield from _of_world(world, [o for o in outcomes if o.case.world == world])
    yield from _section("Who is named, per world, by tools", named.by_world(outcomes))
    yield from _section("Who is named, per kind, by tools", named.by_kind(outcomes))
    others = chosen_for_others(outcomes, rivals) if rivals else []
    if others:
        title = "Other tools: which ranks they name, loud and quiet"
        yield from _section(title, compared(others))
    if any(o.whatif_S for o in outcomes):
        yield from _section("Error of S", tables.slowdown_errors(outcomes))
    title = "Not identifiable, according to the generator"
    yield from _section(title, tables.excluded(outcomes))
    yield from _section("Why faults were missed", tables.reasons(outcomes))
    yield from _section("Every mistake", ["```", *tables.mistakes(outcomes), "```"])


def _of_world(world: str, outcomes: Sequence[Outcome]) -> Iterator[str]:
    if not outcomes:
        return
    title = TITLES.get(world, f"World {world}")
    yield from _section(f"{title}, loud and quiet", tables.by_kind(outcomes))
    yield from _section(f"{title}, masked", tables.by_kind(outcomes, MASKED))
    if world == TRACE:
        for whose, what in (
            ("causes", "`rankscope whatif` finds"),
            ("rules", "the published what-if rules find"),
        ):
            lines = tables.by_kind(outcomes, tables.AUDIBLE, whose)
            yield from _section(f"What {what} in these files, loud and quiet", lines)
    yield from _section(f"Healthy jobs, {title[0].lower()}{title[1:]}", tables.healthy(outcomes))


def _section(title: str, lines: Sequence[str]) -> Iterator[str]:
    yield from (f"## {title}", "", *lines, "")
