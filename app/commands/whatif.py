"""Estimate how long a job would take without its stragglers, and list what its findings cost.

Replays the recorded operations with some of them made ideal (arXiv 2505.05713); docs/whatif.md
explains the numbers and the assumptions. What a finding costs comes from the diagnosis.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from app.analysis.diagnosis import diagnose_run
from app.analysis.finding_costs import costs_lines
from app.commands.run_argument import add_run_arguments, open_run
from app.views.whatif.analysis import Answer, whatif_of
from app.views.whatif.answer import worst_first
from diagnosis.whatif.analysis import STRAGGLING, WhatIf
from diagnosis.whatif.causes import NOT_IDENTIFIABLE, causes
from diagnosis.whatif.operations import NotAnswerable
from ingest.errors import printable

EXIT_NOT_ENOUGH = 4

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


def run(arguments: argparse.Namespace) -> int:
    """Print the metrics; 4 if the data do not allow them."""
    with open_run(arguments.path) as opened:
        try:
            answer = whatif_of(opened)
        except NotAnswerable as error:
            return _refuse(str(error), arguments.json)
        if arguments.json:
            text = json.dumps(as_json(answer.metrics))
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
    steps = f"{len(metrics.step_S)} steps, {metrics.step_S[0]} to {metrics.step_S[-1]}"
    lines = [
        f"S          {metrics.S:.4f}  ({lost:.1f} % of the replayed time; {steps})",
        f"step       {metrics.T_base_s:.6g} s measured, {metrics.T_s:.6g} s replayed "
        f"(fidelity {100 * metrics.fidelity:+.2f} %), {metrics.T_ideal_s:.6g} s ideal",
    ]
    if metrics.S < STRAGGLING:
        lines.append(f"healthy    S is below {STRAGGLING}: the numbers below have no meaning")
    lines += [f"by type    {_ranked(metrics.S_t)}"]
    lines += [f"by stage   {_ranked(dict(enumerate(metrics.S_stage)))}"]
    lines += [f"by dp rank {_ranked(dict(enumerate(metrics.S_dp)))}"]
    lines += [f"by rank    {_ranked(metrics.S_w)}"]
    if metrics.M_W is not None:
        worst = worst_first(metrics.M_W_ranks, metrics)
        named, num_more = ", ".join(map(str, worst[:_WORKERS_SHOWN])), len(worst) - _WORKERS_SHOWN
        named += f" and {num_more} more" if num_more > 0 else ""
        recovered = f"{100 * metrics.M_W:.1f} % of the lost time is recovered"
        who = f"rank {named} keeps" if len(worst) == 1 else f"ranks {named} keep"
        lines.append(f"M_W        {recovered} if {who} pace")
    if metrics.M_S is not None:
        recovered = f"{100 * metrics.M_S:.1f} % of it is recovered"
        lines.append(f"M_S        {recovered} if the last stage keeps pace")
    lines += [
        f"cause      {cause.kind}: {printable(cause.text)}; replayed with it alone, all steps "
        f"together are {1000 * cause.cost_s:.3g} ms longer on average"
        for cause in causes(answer.prepared)
    ]
    lines += [f"note       {printable(note)}" for note in (*answer.notes, NOT_IDENTIFIABLE)]
    return "\n".join(lines)


def _ranked(values: dict[Any, float]) -> str:
    worst = sorted(values.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{name} {value:.4f}" for name, value in worst[:_WORKERS_SHOWN])
    num_more = len(worst) - _WORKERS_SHOWN
    return f"{shown}, and {num_more} with less" if num_more > 0 else shown
