"""One job from its random settings to rankscope's findings, through the command line."""

from __future__ import annotations

import contextlib
import io
import json
import re
import tempfile
import time
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from app.analysis.imports import open_any
from app.cli import main as rankscope
from app.views.whatif.analysis import whatif_of
from benchmarks.accuracy.cases import HEALTHY, NATIVE, TRACE, Case
from benchmarks.accuracy.rivals import rules
from benchmarks.accuracy.rivals.asked import Rival, ranks_named
from benchmarks.accuracy.score import episodes
from benchmarks.accuracy.why_missed import whys
from diagnosis.whatif.causes import causes
from sample_traces.generate.labelled.drawn import LabelledJob
from sample_traces.generate.labelled.drawn_log import LabelledLog
from sample_traces.generate.labelled.drawn_trace import LabelledTrace
from sample_traces.generate.labelled.labels import Label
from sample_traces.generate.labelled.noise_truth import NoiseTruth
from sample_traces.generate.labelled.stall_truth import StallTruth
from sample_traces.generate.labelled.step_truth import StepTruth

ALL_STEPS = 1 << 31
_SCORED = ("kind", "ranks", "stages", "hosts", "steps", "episodes", "culprits", "confidence")
_JUDGED = (0, 3, 4)
"""Exit codes of diagnose: nothing found, findings, not enough data."""

REPLAYABLE = (
    HEALTHY,
    "slow_worker",
    "slow_stage",
    "slow_link",
    "slow_dp_network",
    "gc_pauses",
    "sequence_imbalance",
)
"""What lies in operations that the what-if replay knows: its S is compared with the simulation."""


@dataclass
class Outcome:
    """The faults planted in one job, and the findings about it.

    Of traces also `causes`: what `rankscope whatif` prints, and `rules`: what the published what-if
    rules find, both without steps. `whys`: for each label why it was missed, '' where it was not.
    `error`: the last line of a crash. `named`: the ranks that each other tool names, and
    `rival_errors`: why the answer of some does not count; they name nobody then.
    """

    case: Case
    shape: str = ""
    labels: tuple[Label, ...] = ()
    findings: list[dict[str, Any]] = field(default_factory=list)
    rank_hours: float = 0.0
    rank_steps: int = 0
    causes: list[dict[str, Any]] = field(default_factory=list)
    rules: list[dict[str, Any]] = field(default_factory=list)
    whys: list[str] = field(default_factory=list)
    named: dict[str, list[int]] = field(default_factory=dict)
    rival_errors: dict[str, str] = field(default_factory=dict)
    true_S: float | None = None
    slowdown: float | None = None
    whatif_S: float | None = None
    took_s: float = 0.0
    error: str = ""


def judge(case: Case, rivals: Mapping[str, Rival] = MappingProxyType({})) -> Outcome:
    """Make the job, diagnose and replay it; `rivals`: other tools to ask."""
    outcome, begun_s = Outcome(case), time.perf_counter()
    try:
        with tempfile.TemporaryDirectory() as folder:
            _judge(outcome, Path(folder), rivals)
    except Exception:  # noqa: BLE001  # a crash is a result: the table shows it
        outcome.error = traceback.format_exc().strip().splitlines()[-1]
    outcome.took_s = time.perf_counter() - begun_s
    return outcome


def _judge(outcome: Outcome, folder: Path, rivals: Mapping[str, Rival]) -> None:
    case = outcome.case
    drawn = case.drawn()
    outcome.labels, outcome.shape = drawn.labels, drawn.shape
    outcome.rank_hours, outcome.rank_steps = drawn.rank_s / 3600, drawn.rank_steps
    run, baseline = drawn.write(folder)
    for written in (run, baseline):
        if written is not None:
            hide_truth(written)
    trace = run
    if case.world == TRACE:
        run = imported(trace, folder / "runs")
    arguments = ["diagnose", str(run)]
    if baseline is not None:
        arguments += ["--baseline", str(baseline)]
    code, output = answer(arguments)
    if code not in _JUDGED:
        raise RuntimeError(f"rankscope diagnose ended with {code}")
    delays = drawn.delays if isinstance(drawn, LabelledJob | LabelledLog) else ()
    outcome.findings = [with_truth(finding, drawn.steps, delays) for finding in output["findings"]]
    with open_any(run) as opened:
        outcome.whys = whys(opened, drawn.labels, outcome.findings)
    for name, rival in rivals.items() if not isinstance(drawn, LabelledTrace) else ():
        outcome.named[name], why_not = ranks_named(rival, run, drawn.job.num_ranks)
        if why_not:
            outcome.rival_errors[name] = why_not
    if case.world not in (NATIVE, TRACE):
        return
    if case.kind in REPLAYABLE and all(label.kind == case.kind for label in outcome.labels):
        outcome.true_S, outcome.slowdown = drawn.true_S, drawn.slowdown
        whatif = answer(["whatif", str(run)])[1]
        outcome.whatif_S = whatif["S"]
        if case.world == TRACE:
            outcome.rules = rules.findings_of(whatif, trace)
            outcome.causes = printed_causes(run)


def hide_truth(run: Path) -> None:
    """Remove what was planted from the run.json of a run folder: no tool may read it there."""
    path = run / "run.json"
    if path.exists():
        about = json.loads(path.read_text(encoding="utf-8"))
        about.pop("truth", None)
        path.write_text(json.dumps(about, indent=1), encoding="utf-8")


def with_truth(
    finding: dict[str, Any],
    steps: StepTruth,
    delays: Iterable[NoiseTruth | StallTruth] = (),
) -> dict[str, Any]:
    """What the scorer needs of a finding, whether the steps that it names are longer, and whether
    noise or habits of the job delay the ranks that it names.
    """
    kept = {key: finding[key] for key in _SCORED if key in finding}
    first, last = finding["steps"]
    if finding["kind"] == "jit_spikes":
        is_longer = steps.are_longer(_named_steps(finding))
    else:
        is_longer = all(steps.is_longer(*span) for span in episodes(finding))
    named = (finding["kind"], finding["ranks"], first, last)
    of_noise = any(truth.delays(*named) for truth in delays)
    return {**kept, "steps_are_longer": is_longer, "is_of_noise": of_noise}


def _named_steps(finding: dict[str, Any]) -> list[int]:
    """Steps that a finding of rare ones names: its evidence lists the first few."""
    evidence = finding.get("evidence") or [{"sentence": ""}]
    listed = _LISTED.search(evidence[0]["sentence"])
    return [int(step) for step in listed[1].split(", ")] if listed else []


_LISTED = re.compile(r" steps \((\d+(?:, \d+)*)")


def printed_causes(run: Path) -> list[dict[str, Any]]:
    """The causes that `rankscope whatif` prints, in the shape of findings."""
    with open_any(run) as opened:
        recorded = causes(whatif_of(opened).prepared)
    return [
        {"kind": c.kind, "ranks": c.ranks, "stages": c.stages, "steps": [0, ALL_STEPS]}
        for c in recorded
    ]


def imported(path: Path, runs: Path) -> Path:
    """The run folder of a trace file."""
    _, output = answer(["import", str(path), "--into", str(runs)])
    return Path(output["folder"])


def answer(arguments: list[str]) -> tuple[int, dict[str, Any]]:
    """Exit code and JSON of a verb, run in this process."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()) as problems:
        code = rankscope([*arguments, "--json"])
    if not output.getvalue():
        raise RuntimeError(
            problems.getvalue().strip() or f"{arguments[0]} printed nothing ({code})"
        )
    content: dict[str, Any] = json.loads(output.getvalue())
    return code, content
