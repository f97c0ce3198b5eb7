"""When a run is called healthy: all that it records was judged, and its steps are usual."""

from __future__ import annotations

import pyarrow as pa
import pytest

from app.analysis.headline import headline
from app.analysis.run_diagnosis import RunDiagnosis, stalled, unjudged, unusual_step
from app.components.topbar import findings_button
from diagnosis.findings import NotEnoughData, Verdict
from tests.app.pages_in_process import text_of

FINE = Verdict("slow_worker", checked="No rank was slow in steps 0 to 29.")
CORES = "Ranks wait for CPU cores during 82 % of their compute time."
ALIGNED = "No transfers are known: they need collectives with all members, on aligned clocks."
NOT_RECORDED = (
    "No garbage collection was recorded: its pauses would show as host time only.",
    "No wait for data was recorded: a slow loader would show as host time only.",
    "No checkpoint save was recorded: two are needed to judge them.",
    "The log has no communication: standing still cannot be distinguished from waiting.",
    "Fewer than two pipeline stages are known: none to compare.",
    "No heartbeats over five seconds of steps after warm-up: what the hooks cost is not judged.",
)
S = 10**9


def lacking(*missing: str, **more: object) -> RunDiagnosis:
    lacks = Verdict("other", not_enough=tuple(NotEnoughData("other", text) for text in missing))
    return RunDiagnosis((FINE, lacks), **more)  # type: ignore[arg-type]


def steps(*times_ms: float | None) -> pa.Table:
    return pa.table({"step": list(range(len(times_ms))), "step_ms": list(times_ms)})


def saving(*ms: float) -> pa.Table:
    """Checkpoints of ranks in step 6."""
    return pa.table({"step": [6] * len(ms), "checkpoint_ms": pa.array(ms, "float64")})


@pytest.mark.parametrize("missing", NOT_RECORDED)
def test_what_is_not_recorded_is_listed_apart_and_leaves_a_run_green(missing: str) -> None:
    diagnosis = lacking(missing)
    assert unjudged(diagnosis) == ((), (missing,))
    assert headline(diagnosis).tone == "calm"
    assert "No finding" in text_of(findings_button(diagnosis))


def test_what_was_recorded_and_not_judged_makes_it_amber_and_is_said_once() -> None:
    diagnosis = lacking(CORES, NOT_RECORDED[0], CORES)
    shown = headline(diagnosis)
    assert (shown.tone, shown.text.count(CORES)) == ("warning", 1)
    assert diagnosis.to_json()["could_not_judge"] == [CORES]
    assert diagnosis.to_json()["not_recorded"] == [NOT_RECORDED[0]]
    assert "Partly judged" in text_of(findings_button(diagnosis))


@pytest.mark.parametrize(("records", "tone"), [(True, "warning"), (False, "calm")])
def test_transfers_without_aligned_clocks_count_only_where_there_are_any(
    records: bool, tone: str
) -> None:
    assert headline(lacking(ALIGNED, records_collectives=records)).tone == tone


def test_a_newest_step_of_seven_times_the_usual_is_never_green() -> None:
    usual = [400.0, 410.0, 405.0, 395.0, 402.0, 400.0]
    sentence = unusual_step(steps(*usual, 2800.0, None), saving())
    assert sentence.startswith("The newest step, 6, took 2,800 ms, 7.0 times as long as usual")
    diagnosis = RunDiagnosis((FINE,), unusual=sentence)
    assert headline(diagnosis).tone == "warning"
    assert "No finding" in text_of(findings_button(diagnosis)), "all of it was judged"
    assert unusual_step(steps(*usual, 1100.0), saving()) == ""
    assert unusual_step(steps(9000.0, *usual), saving()) == ""
    assert unusual_step(steps(1.0, 9.0), saving()) == ""


def test_nor_is_it_while_the_page_shows_that_step() -> None:
    def after(num_steps: int, took_ms: float = 2900.0) -> str:
        return unusual_step(steps(*[400.0] * 6, took_ms, *[400.0] * num_steps), saving())

    assert after(19) == "Step 6 took 2,900 ms, 7.2 times as long as usual (400 ms)."
    assert after(20) == ""
    assert after(5, took_ms=2700.0) == ""


def test_a_step_that_was_long_because_ranks_saved_is_not_unusual() -> None:
    times = steps(*[400.0] * 6, 2900.0)
    assert unusual_step(times, saving(2500.0)) == ""
    assert unusual_step(times, saving(1000.0)).startswith("The newest step, 6, took 2,900 ms")


@pytest.mark.parametrize(
    ("seconds", "status", "is_stalled"),
    [(75, None, True), (40, None, False), (75, "finished", False)],
)
def test_ranks_that_report_and_finish_no_step_are_stalled(
    seconds: int, status: str | None, is_stalled: bool
) -> None:
    signs = pa.table(
        {"last_ns": [seconds * S, 5 * S], "status": pa.array([None, status], "string")}
    )
    assert bool(stalled(signs, steps(400.0, 410.0), 0)) is is_stalled
    assert stalled(signs, steps(20_000.0), 0) == ""  # five usual steps are longer
    assert stalled(signs, steps(400.0), None) == ""


@pytest.mark.parametrize("state", ["silent", "lost"])
def test_a_run_that_is_not_heard_of_is_never_green(state: str) -> None:
    assert headline(RunDiagnosis((FINE,))).tone == "calm"
    assert headline(RunDiagnosis((FINE,)), state).tone == "warning"
