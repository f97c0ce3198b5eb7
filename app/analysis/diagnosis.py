"""Diagnosis of a run: asks the saved queries that the detectors read, and caches the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import pyarrow as pa

from app.analysis.run_diagnosis import RunDiagnosis, stalled, unusual_step, who_waits
from app.analysis.selftest import against_past
from app.runs.hub import Hub
from app.runs.policies import STALE_WHILE_REVALIDATE
from app.views.run.hook_costs import HOOK_COSTS, warm_from
from app.views.selftest import SOURCE as SELFTEST
from diagnosis.detectors import DETECTORS, Detector, diagnose, late_arrival, selftest
from diagnosis.detectors import against_baseline as baseline
from diagnosis.findings import Diagnosis, Finding, NotEnoughData, Verdict
from diagnosis.hardware_causes import QUESTION as LEVELS
from diagnosis.hardware_causes import hosts_of, window_of, with_hardware_cause
from diagnosis.statistics.episodes import MIN_VOTES
from diagnosis.statistics.open_collectives import describe_open_collectives
from diagnosis.statistics.straggler_cells import CELLS
from diagnosis.stuck.evidence import ENTERED
from diagnosis.stuck.left_early import FINISHED
from ingest.query.saved_queries import saved_query
from ingest.readers import format_facts
from ingest.run import Run
from ingest.stopping import Stop

MOST_CELLS = 1_500_000
"""Ranks x steps examined: 61 to 122 steps of 12,288 ranks, 488 to 976 of a stage of eight."""
FEWEST_STEPS = 50
STEPS_BEFORE = 2
"""Of a job that makes no progress the collectives since so many finished steps are read."""
_IMPORTING = (
    "Files are still being read into this run: numbers and pictures show the ranks read so far, "
    "each by its own clock. Clocks and ranks are compared once all files are read."
)
_NO_STEPS = "No finished step was recorded; ranks are compared once four steps are finished."
_LISTED = "The saved query outstanding lists these groups."


def diagnosis_of(
    hub: Hub, name: str, attempt: int | None = None, stop: Stop | None = None
) -> Diagnosis:
    """Diagnosis of an attempt (default: the newest); some seconds old while the run has news."""
    return hub.cache.get(
        name,
        ("diagnosis", attempt),
        lambda run, stop: diagnose_run(run, attempt, stop),
        STALE_WHILE_REVALIDATE,
        stop,
    )


def known_diagnosis(hub: Hub, name: str) -> Diagnosis | None:
    """What pages of the newest state of an open run have asked for; waits for nothing."""
    known: Diagnosis | None = hub.cache.peek(name, ("diagnosis", None))
    return known


def diagnose_run(run: Run, attempt: int | None = None, stop: Stop | None = None) -> Diagnosis:
    """Ask and judge; raises UserError.

    The newest steps that fit MOST_CELLS are examined; where something was wrong from the first of
    them on, its pipeline stage is examined further back, as far as fits again.
    """
    if run.state == "importing":
        return _unjudged("import", _IMPORTING)
    wanted = run.newest_attempt if attempt is None else attempt
    steps = _steps(run, wanted)
    tables = tables_of(run, wanted, steps.within(steps.num_ranks), stop)
    waits = who_waits(tables)
    verdicts = diagnose(tables, wanted).verdicts
    of_test = [one for one in verdicts if one.detector == selftest.NAME]
    is_test = run.info["source"] == SELFTEST and bool(of_test)
    if is_test:  # it has no steps: who lacks them has nothing to say
        verdicts = tuple(one for one in verdicts if one in of_test or _has_judged(one))
    diagnosis = RunDiagnosis(
        verdicts,
        records_collectives=_has_collectives(run, wanted),
        unusual=waits or _unusual(run, wanted, tables),
        waits=waits,
    )
    if not (diagnosis.judged or is_test) and steps.num_ranks == 0 and run.state == "finished":
        waiting = describe_open_collectives(run.ask("outstanding", attempt=wanted, stop=stop))
        sentences = (_NO_STEPS,) if waiting is None else (_NO_STEPS, waiting, _LISTED)
        return _unjudged("steps", " ".join(sentences))
    diagnosis = diagnosis.with_findings(lambda finding: _from_its_onset(run, finding, steps, stop))
    return diagnosis.with_findings(lambda finding: _with_hardware(run, finding, tables, stop))


def _with_hardware(
    run: Run, finding: Finding, tables: Mapping[str, pa.Table], stop: Stop | None
) -> Finding:
    """The finding with what changed on its machines when it began."""
    window = window_of(finding, tables["step_clock"])
    hosts: tuple[str, ...] = ()
    if window is not None and tables["machine_seconds"].num_rows:
        everyone = sorted({info["host"] for info in run.ranks if info.get("host")})
        hosts = hosts_of(finding, everyone)
    levels = {
        host: run.ask(LEVELS, stop=stop, host=host, attempt=finding.attempt, **asdict(window))
        for host in hosts
        if window is not None
    }
    return with_hardware_cause(finding, levels, window)


def _has_collectives(run: Run, attempt: int) -> bool:
    text = "SELECT 1 FROM collective_rollup WHERE attempt = $attempt LIMIT 1"
    return bool(run.index_rows(text, attempt=attempt))


def _unusual(run: Run, attempt: int, tables: Mapping[str, pa.Table]) -> str:
    """Why a step on the page is unlike the others, or that there is none for long; '' otherwise."""
    row = run.index_rows(
        "SELECT max(end_ns) AS ended_ns FROM step_rollup WHERE attempt = $attempt AND finished",
        attempt=attempt,
    )[0]
    waits = stalled(tables["last_signs"], tables["steps"], row["ended_ns"])
    return waits or unusual_step(tables["steps"], tables["rank_phases"])


def _has_judged(verdict: Verdict) -> bool:
    return bool(verdict.findings or verdict.set_aside) or verdict.checked is not None


def _unjudged(why: str, sentence: str) -> Diagnosis:
    return Diagnosis((Verdict(why, not_enough=(NotEnoughData(why, sentence),)),))


def tables_of(
    run: Run,
    attempt: int,
    steps: tuple[int, int],
    stop: Stop | None = None,
    pp: int | None = None,
    chosen: Sequence[Detector] = DETECTORS,
) -> dict[str, pa.Table]:
    """Answers of the questions of detectors (default: all), over steps (both included), of one
    stage. Questions that read every collective are asked of few steps only, operations of
    StragglerAnalysis traces of those only.
    """
    names = sorted({name for detector in chosen for name in detector.questions})
    if steps[1] - steps[0] + 1 >= MIN_VOTES:
        names = [name for name in names if name != late_arrival.COUNTS]
    if not format_facts(run.info["source"]).is_operation_trace:
        names = [name for name in names if name != CELLS]
    given = {"step_min": steps[0], "step_max": steps[1], "attempt": attempt, "pp": pp}
    tables = {
        name: _answer(run, name, given, stop)
        for name in names
        if name not in (ENTERED, *HOOK_COSTS)
    }
    warm = {**given, "step_min": max(steps[0], warm_from(run, attempt))}
    tables |= {name: _answer(run, name, warm, stop) for name in names if name in HOOK_COSTS}
    if ENTERED in names and (
        tables["rank_looks"].num_rows
        or not tables["steps"].num_rows
        or _have_parted(tables["last_signs"])
    ):
        begun = max(steps[0], steps[1] - STEPS_BEFORE) if tables["steps"].num_rows else None
        tables[ENTERED] = _answer(run, ENTERED, {**given, "step_min": begun}, stop)
    return tables


def _have_parted(signs: pa.Table) -> bool:
    """Whether some ranks have ended well and others not; rows of last_signs."""
    statuses = set(signs.column("status").to_pylist())
    return FINISHED in statuses and len(statuses) > 1


def _answer(run: Run, name: str, given: Mapping[str, int | None], stop: Stop | None) -> pa.Table:
    """Answer of a question, with those of the values that it takes."""
    takes = {parameter.name for parameter in saved_query(name).parameters}
    return run.ask(name, stop=stop, **{k: value for k, value in given.items() if k in takes})


def against_baseline(run: Run, attempt: int, good: Run, stop: Stop | None = None) -> Verdict:
    """An attempt against the newest one of a run known to be good; raises UserError."""
    if run.info["source"] == SELFTEST:
        return against_past(run, attempt, good, stop)
    tables = []
    for compared, its_attempt in ((run, attempt), (good, good.newest_attempt)):
        steps = _steps(compared, its_attempt)
        first, last = steps.within(steps.num_ranks)
        given = {"step_min": first, "step_max": last, "attempt": its_attempt}
        tables.append({name: _answer(compared, name, given, stop) for name in baseline.QUESTIONS})
    return baseline.compare(tables[0], tables[1], attempt)


def all_steps(run: Run) -> tuple[int, int]:
    """First and last finished step of the newest attempt that are examined."""
    steps = _steps(run, run.newest_attempt)
    return steps.within(steps.num_ranks)


def earlier_findings(run: Run, attempt: int, last: int) -> Iterator[Finding]:
    """What is found in the steps up to `last` before those that `diagnose_run` examines, as many at
    a time; raises UserError.
    """
    steps = _steps(run, attempt)
    begins, _ = steps.within(steps.num_ranks)
    width = max(MOST_CELLS // max(steps.num_ranks, 1), FEWEST_STEPS)
    for first in range(steps.first, min(begins, last + 1), width):
        window = first, min(first + width, begins) - 1
        yield from diagnose(tables_of(run, attempt, window), attempt).findings


@dataclass(frozen=True)
class _Steps:
    """Finished steps of an attempt, and the ranks that have any."""

    first: int
    last: int
    num_ranks: int
    num_steps: int

    def within(self, num_ranks: int) -> tuple[int, int]:
        """The newest steps of this many ranks that fit MOST_CELLS: all if these are few, however
        far apart their numbers are.

        The first of them moves in strides, so that what has been wrong since before then keeps its
        first step, and with it its name, for a while.
        """
        if self.num_steps * num_ranks <= MOST_CELLS // 2:
            return self.first, self.last
        stride = max(MOST_CELLS // max(num_ranks, 1), FEWEST_STEPS) // 2
        low = (self.last - stride + 1) // stride * stride
        return max(self.first, low), self.last


def _steps(run: Run, attempt: int) -> _Steps:
    rows = run.index_rows(
        "SELECT min(step) AS first, max(step) AS last, count(DISTINCT rank) AS ranks,"
        " count(DISTINCT step) AS steps FROM step_rollup"
        " WHERE attempt = $attempt AND finished AND step >= 0",
        attempt=attempt,
    )
    if rows[0]["last"] is None:
        return _Steps(0, 0, 0, 0)
    return _Steps(*(rows[0][name] for name in ("first", "last", "ranks", "steps")))


def _from_its_onset(run: Run, finding: Finding, steps: _Steps, stop: Stop | None) -> Finding:
    """The finding with the first step that its stage alone shows, further back if need be."""
    begins, _ = steps.within(steps.num_ranks)
    if finding.first_step > begins or begins <= steps.first:
        return finding
    pp = dict(finding.culprits[0].coords).get("pp") if len(finding.culprits) == 1 else None
    if pp is None:
        return finding.or_earlier()
    in_stage = run.index_rows(
        "SELECT count(*) AS ranks FROM ranks WHERE attempt = $attempt AND pp = $pp",
        attempt=finding.attempt,
        pp=pp,
    )
    further = steps.within(in_stage[0]["ranks"])
    finders = [detector for detector in DETECTORS if finding.kind in detector.kinds]
    tables = tables_of(run, finding.attempt, further, stop, pp, finders)
    same = [
        other
        for other in diagnose(tables, finding.attempt, finders).findings
        if (other.kind, other.culprits) == (finding.kind, finding.culprits)
        and other.first_step <= finding.first_step <= other.last_step
    ]
    # cost and waiting of others were measured over all stages: only the onset is taken over
    longer = finding.since(same[0].first_step) if same else finding
    is_open = longer.first_step <= further[0] and further[0] > steps.first
    return longer.or_earlier() if is_open else longer
