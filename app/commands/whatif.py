"""Estimate how long a job would take without its stragglers, and list what its findings cost.

Replays the recorded operations with some of them made ideal (arXiv 2505.05713); docs/whatif.md
explains the numbers and the assumptions. What a finding costs comes from the diagnosis. With
--schedule, predicts how long the pipeline would take under other schedules instead.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from app.analysis.diagnosis import diagnose_run
from app.analysis.finding_costs import costs_lines
from app.commands.run_argument import add_run_arguments, open_run
from app.views.whatif.analysis import Answer, whatif_of
from app.views.whatif.answer import worst_first
from app.views.whatif.schedules import EQUAL, TENSOR_PARALLEL, Asked, advice_of
from diagnosis.statistics.units import in_ms
from diagnosis.whatif.analysis import STRAGGLING, WhatIf
from diagnosis.whatif.causes import NOT_IDENTIFIABLE, causes
from diagnosis.whatif.operations import NotAnswerable
from diagnosis.whatif.schedules.measured import measured
from diagnosis.whatif.schedules.names import NAMES
from diagnosis.whatif.schedules.predict import Prediction, predict
from ingest.errors import UserError, printable

EXIT_NOT_ENOUGH = 4
ALL = "all"

KEYS = (
    "S",
    "T_base_s",
    "T_s",
    "T_ideal_s",
    "fidelity",
    "S_t",
    "S_stage",
    "S_dp",
    "S_w",
    "M_W",
    "M_W_ranks",
    "M_S",
)
"""Keys of the JSON object."""

HEADING = "All unevenness of the ranks together, by replay"
_WORKERS_SHOWN = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `rankscope whatif`."""
    add_run_arguments(parser)
    parser.add_argument(
        "--schedule",
        nargs="+",
        choices=(*NAMES, ALL),
        metavar="NAME",
        help=f"pipeline schedules to predict: {', '.join(NAMES)}, or {ALL}",
    )
    parser.add_argument(
        "--advise",
        action="store_true",
        help="changes of the job's parallelism, those that save most first",
    )
    changed = parser.add_argument_group("changes of the job, with --schedule")
    add = changed.add_argument
    add("--microbatches", type=int, metavar="M", help="the same tokens in M micro-batches")
    add("--chunks", type=int, metavar="V", help="V chunks of a stage, where a schedule has several")
    add("--split", default="", help=f"shares of layers by stage, such as 1,1,1,0.8, or {EQUAL}")
    add("--most-held", type=int, metavar="N", help="micro-batches that a device may hold at once")
    what = "memory that a device may have allocated, 1e9 B"
    add("--memory-limit", type=float, metavar="GB", help=what)
    what = "of fbd: how fast the devices of forwards are, 1 as fast as measured"
    add("--forward-speed", type=float, metavar="X", help=what)
    what = "of fbd: handing over the activations of a micro-batch"
    add("--handover-ms", type=float, metavar="MS", help=what)
    add("--without-stragglers", action="store_true", help="each stage takes its median time")


def run(arguments: argparse.Namespace) -> int:
    """Print the metrics; 4 if the data do not allow them."""
    with open_run(arguments.path) as opened:
        try:
            answer = whatif_of(opened)
        except NotAnswerable as error:
            return _refuse(str(error), arguments.json)
        try:
            predicted = schedules(answer, arguments.schedule or (), _asked(arguments))
            advised = advice(answer) if arguments.advise else {}
        except NotAnswerable as error:
            return _refuse(str(error), arguments.json)
        if arguments.json:
            text = json.dumps(as_json(answer.metrics) | schedules_json(predicted) | advised)
        elif predicted or advised:
            parts = [schedules_text(predicted)] if predicted else []
            text = "\n\n".join(parts + ([advice_text(advised["advice"])] if advised else []))
        else:
            costs = costs_lines(diagnose_run(opened, answer.attempt))
            text = "\n".join([*map(printable, costs), "", HEADING, as_text(answer)])
    print(text)
    return 0


def _refuse(reason: str, wants_json: bool) -> int:
    if wants_json:
        print(json.dumps(dict.fromkeys(KEYS) | {"reason": reason}))
    else:
        print(f"rankscope whatif: {printable(reason)}", file=sys.stderr)
    return EXIT_NOT_ENOUGH


def _asked(arguments: argparse.Namespace) -> Asked:
    return Asked(
        arguments.microbatches,
        arguments.chunks,
        arguments.split,
        arguments.most_held,
        not arguments.without_stragglers,
        arguments.memory_limit,
        arguments.forward_speed,
        arguments.handover_ms,
    )


def schedules(answer: Answer, names: Sequence[str], asked: Asked) -> list[Prediction]:
    """Predictions under the named schedules; raises NotAnswerable and UserError."""
    if not names and asked != Asked():
        raise UserError("a changed job needs a schedule to predict; add --schedule, such as 1f1b")
    if not names:
        return []
    times = measured(answer.prepared, answer.memory)
    changes = asked.changes(times)
    wanted = NAMES if ALL in names else dict.fromkeys(names)
    return [predict(times, name, changes=changes) for name in wanted]


def schedules_json(predicted: Sequence[Prediction]) -> dict[str, Any]:
    """The key `schedules` of `--json`, by name; nothing where none was asked for."""
    return {"schedules": {one.name: asdict(one) for one in predicted}} if predicted else {}


def schedules_text(predicted: Sequence[Prediction]) -> str:
    """A line for each schedule, the least time of all devices first, and what was assumed."""
    known = [one for one in predicted if one.span_s is not None]
    lines = [
        f"{'schedule':15} {'by operations':>13} {'with gaps':>11} "
        f"{'10 % to 90 % of the steps':>27} {'idle':>7}  held"
    ]
    for one in sorted(known, key=lambda one: (one.expected_s or 0.0) * one.num_devices):
        most = max(one.in_flight)
        unit = "micro-batch" if most == 1 else "micro-batches"
        number = f"{most:,.1f}".removesuffix(".0")
        held = f"{number} {unit} on the fullest of {one.num_devices} devices"
        if one.memory_bytes is not None:
            held += f", {_amount(one.memory_bytes)} of activations"
        if one.peak_bytes is not None:
            held += f", {_amount(max(one.peak_bytes))} allocated at the peak"
        between = f"{one.low_s:.4g} to {one.high_s:.4g} s"
        lines.append(
            f"{one.name:15} {one.span_s:11.4g} s {one.expected_s:9.4g} s {between:>27} "
            f"{one.expected_bubble:7.1%}  {held}"
        )
    lines += [f"{one.name:15} not possible: {one.reason}" for one in predicted if one.reason]
    assumed = dict.fromkeys(text for one in known for text in one.assumptions)
    for text in assumed:
        of = [one.name for one in known if text in one.assumptions]
        lines.append(
            f"assumed    {text}" + ("" if len(of) == len(known) else f" ({', '.join(of)})")
        )
    return "\n".join(lines)


def _amount(num_bytes: float) -> str:
    return f"{num_bytes / 1e9:.3g} GB" if num_bytes >= 0.9995e9 else f"{num_bytes / 1e6:.3g} MB"


def advice(answer: Answer) -> dict[str, Any]:
    """The key `advice` of `--json`; raises NotAnswerable."""
    found = advice_of(answer, lambda: None)
    if "reason" in found:
        raise NotAnswerable(found["reason"])
    return {"advice": found}


def advice_text(found: dict[str, Any]) -> str:
    """A line for each change that may save something, and what the numbers rest on."""
    lines = [
        f"A step takes {found['step_s']:.4g} s, {found['rest_s']:.3g} s of it before and after the "
        f"pipeline, which runs {found['own']}.",
        f"{'saves':>7} {'+-':>6} {'step':>10}   change",
    ]
    for one in found["advice"]:
        if one["saves"] + one["error"] > 0:
            needs = f"; needs {', '.join(one['needs'])}" if one["needs"] else ""
            step = f"{one['step_s']:.4g} s"
            lines.append(
                f"{one['saves']:7.1%} {one['error']:6.1%} {step:>10}   {one['change']}{needs}"
            )
    if not any(one["is_certain"] for one in found["advice"]):
        lines.append("No change saves more than its prediction may be off.")
    return "\n".join([*lines, TENSOR_PARALLEL])


def as_json(metrics: WhatIf) -> dict[str, Any]:
    """The object of `--json`: KEYS."""
    by_number = {
        "S_stage": dict(enumerate(metrics.S_stage)),
        "S_dp": dict(enumerate(metrics.S_dp)),
        "S_w": metrics.S_w,
    }
    plain = {key: getattr(metrics, key) for key in KEYS if key not in by_number}
    texts = {key: {str(n): x for n, x in values.items()} for key, values in by_number.items()}
    values = plain | texts | {"M_W_ranks": list(metrics.M_W_ranks)}
    return {key: values[key] for key in KEYS}


def as_text(answer: Answer) -> str:
    """The metrics for people."""
    metrics = answer.metrics
    lost = 100 * (1 - 1 / metrics.S)
    num_steps, first, last = len(metrics.step_S), metrics.step_S[0], metrics.step_S[-1]
    over = f"on average over {num_steps} steps, {first} to {last}"
    steps = over if num_steps > 1 else f"in step {first}"
    fidelity = round(100 * metrics.fidelity, 2) + 0.0  # without the sign of a zero
    lines = [
        f"S          {metrics.S:.4f}  ({lost:.1f} % of the replayed time, {steps})",
        f"step       {metrics.T_base_s:.6g} s measured, {metrics.T_s:.6g} s replayed "
        f"(fidelity {fidelity:+.2f} %), {metrics.T_ideal_s:.6g} s ideal",
    ]
    is_healthy = metrics.S < STRAGGLING
    if is_healthy:
        lines.append(f"healthy    S is below {STRAGGLING}: the numbers below have no meaning")
    lines += [f"by type    {_ranked(metrics.S_t)}"]
    lines += [f"by stage   {_ranked(dict(enumerate(metrics.S_stage)))}"]
    lines += [f"by dp rank {_ranked(dict(enumerate(metrics.S_dp)))}"]
    lines += [f"by rank    {_ranked(metrics.S_w)}"]
    if metrics.M_W is not None and not is_healthy:
        worst = worst_first(metrics.M_W_ranks, metrics)
        named, num_more = ", ".join(map(str, worst[:_WORKERS_SHOWN])), len(worst) - _WORKERS_SHOWN
        named += f" and {num_more} more" if num_more > 0 else ""
        recovered = f"{_recovered(metrics.M_W)} of the lost time is recovered"
        who = f"rank {named} keeps" if len(worst) == 1 else f"ranks {named} keep"
        lines.append(f"M_W        {recovered} if {who} pace")
    if metrics.M_S is not None and not is_healthy:
        recovered = f"{_recovered(metrics.M_S)} of it is recovered"
        lines.append(f"M_S        {recovered} if the last stage keeps pace")
    lines += [
        f"cause      {cause.kind}: {printable(cause.text)}; replayed with it alone, all steps "
        f"together are {in_ms(1000 * cause.cost_s)} longer on average"
        for cause in causes(answer.prepared)
    ]
    lines += [f"note       {printable(note)}" for note in (*answer.notes, NOT_IDENTIFIABLE)]
    return "\n".join(lines)


def _recovered(share: float) -> str:
    """A share of the lost time. Not above 0: the job is as slow without these workers."""
    return f"{100 * share:.1f} %" if share > 0 else "none"


def _ranked(values: dict[Any, float]) -> str:
    worst = sorted(values.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{name} {value:.4f}" for name, value in worst[:_WORKERS_SHOWN])
    num_more = len(worst) - _WORKERS_SHOWN
    return f"{shown}, and {num_more} with less" if num_more > 0 else shown
