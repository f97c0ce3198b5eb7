"""The ledger of a run's time over its attempts, and what other checkpoint intervals would give."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from app.views.selftest import SOURCE
from diagnosis.goodput.checkpoint_interval import FEWEST, Advice, advice_of
from diagnosis.goodput.ledger import PARTS, QUESTION, Attempt, ledger_of
from ingest.run import Run
from ingest.stopping import Stop

Row = dict[str, Any]

WORDS = {
    "productive": "productive",
    "checkpoint": "saving checkpoints",
    "evaluation": "evaluating",
    "rewound": "repeated steps",
    "start_up": "start-up",
    "stalled": "after the last step",
    "restart": "until the restart",
}
"""What the parts of the ledger are called."""


OF_A_SELFTEST = "A self-test trains nothing, so that none of its time is productive or lost."


@dataclass(frozen=True)
class Goodput:
    """Plain values. `attempts`: a row each, oldest first, with `parts` in s; `totals`: of all;
    `effective_share`: effective training time ratio, 0 to 1, None where a start is unknown.
    `advice`: fields of Advice, None where times or ends are unknown; `says`: it in sentences.
    """

    attempts: tuple[Row, ...]
    parts: tuple[str, ...]
    words: dict[str, str]
    totals: dict[str, float]
    wall_s: float | None
    effective_share: float | None
    num_interruptions: int
    advice: Row | None
    says: tuple[str, ...]


def goodput_of(run: Run, stop: Stop | None = None) -> Goodput | str | None:
    """Of all attempts; None where no rank has left anything yet; a sentence where there is none."""
    if run.info["source"] == SOURCE:
        return OF_A_SELFTEST
    is_running, has_ends = run.state in ("running", "silent"), _has_ends(run)
    has_wall_time = run.info["clock"] != "per_step_relative"
    ledger = ledger_of(run.ask(QUESTION, stop=stop), is_running, has_ends, has_wall_time)
    if ledger is None:
        return None
    advice = advice_of(ledger)
    return Goodput(
        attempts=tuple(map(_row, ledger.attempts)),
        parts=PARTS,
        words=WORDS,
        totals=ledger.totals,
        wall_s=ledger.wall_s,
        effective_share=ledger.effective_share,
        num_interruptions=len(ledger.interrupted),
        advice=asdict(advice) if advice is not None and has_ends else None,
        says=tuple(sentences(advice)) if advice is not None and has_ends else (),
    )


def as_json(found: Goodput | str | None) -> Row | None:
    """Plain values for JSON; of a sentence the key `reason`."""
    if isinstance(found, str):
        return {"reason": found}
    return None if found is None else asdict(found)


def _has_ends(run: Run) -> bool:
    """Whether it is known how ranks ended. The end in an import's files is that of a recording."""
    ends = [info.get("end") for info in run.ranks]
    source = run.info["source"]
    return source == "hooks" or (source == "synthetic" and None not in ends)


def _row(attempt: Attempt) -> Row:
    return asdict(attempt) | {"num_steps": attempt.num_steps}


def sentences(advice: Advice) -> list[str]:
    """What is known of interruptions, and what follows for the interval between saves."""
    said = [_interruptions(advice)]
    if advice.save_s is not None:
        work = f", after {in_words(advice.interval_s)} of work" if advice.interval_s else ""
        said.append(f"A save costs {in_words(advice.save_s)}{work}.")
    if advice.why_not:
        said.append(advice.why_not)
    if advice.best_s and advice.best_low_s and advice.best_high_s:
        between = f"{in_words(advice.best_low_s)} to {in_words(advice.best_high_s)}"
        if advice.num_interruptions < FEWEST:
            said.append(f"All that follows for the work between saves: {between}.")
        else:
            said.append(_recommended(advice, between))
    return said


def _interruptions(advice: Advice) -> str:
    if advice.mtbf_s is None:
        return (
            f"No interruption in {in_words(advice.at_risk_s)}: the mean time between them is at "
            f"least {in_words(advice.low_s)} (95 %)."
        )
    high = in_words(advice.high_s or 0.0)
    return (
        f"{advice.num_interruptions} interruption{'s' if advice.num_interruptions > 1 else ''} in "
        f"{in_words(advice.at_risk_s)}: one every {in_words(advice.mtbf_s)} "
        f"(95 %: {in_words(advice.low_s)} to {high})."
    )


def _recommended(advice: Advice, between: str) -> str:
    best = in_words(advice.best_s or 0.0)
    said = f"Saving after {best} of work ({between}) would leave most of the time"
    if advice.now_share is not None and advice.best_share is not None:
        said += f": {100 * advice.best_share:.1f} %, against {100 * advice.now_share:.1f} % now"
    return said + "."


def in_words(seconds: float) -> str:
    """Such as 4.2 s, 12 min or 3.5 h."""
    if seconds <= 0:
        return "0 s"
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    if seconds < 0.9995:  # 999.6 ms is 1 s
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    if seconds < 7200:
        return f"{seconds / 60:.3g} min"
    hours = seconds / 3600
    return f"{hours:.3g} h" if hours < 999.5 else f"{hours:,.0f} h"
