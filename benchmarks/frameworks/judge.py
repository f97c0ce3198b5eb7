"""What is not as it should be in a job with hooks, in sentences."""

from __future__ import annotations

import math
from typing import Any

from benchmarks.frameworks.cases import Case
from benchmarks.frameworks.running import Ran

CLOSE = 1e-5
"""A recorded loss may differ so much from the job's: logs of frameworks round."""


def problems(
    case: Case, way: str, plain: Ran, job: Ran, facts: list[dict[str, Any]], steps: int
) -> list[str]:
    """Sentences; none where all is well. `facts`: what each run of the job has recorded."""
    if job.code != plain.code:
        return [f"exit code {job.code} instead of {plain.code}: {job.log[-600:]}"]
    found = changes(case, plain, job)
    if len(facts) != 1:
        return [*found, f"{len(facts)} runs instead of one"]
    (fact,) = facts
    first = case.first_step if way == "lines" else 0
    wanted = list(range(first, first + steps))
    if fact["ranks"] != list(range(case.ranks)) or fact["world_sizes"] != [case.ranks]:
        found.append(f"ranks {fact['ranks']} of {fact['world_sizes']} instead of {case.ranks}")
    for rank, numbers in fact["steps"].items():
        if numbers != wanted:
            found.append(f"rank {rank} has {len(numbers)} steps {numbers[:3]}.. of {steps}")
    if fact["layout"] != case.layout:
        found.append(f"layout {fact['layout']} instead of {case.layout}")
    for name, shown in (("microbatches", "micro-batches"), ("tokens", "tokens")):
        true = getattr(case, name)
        is_compared = true is not None and (way == "lines" or name not in case.needs_lines)
        if is_compared and fact[name] != [true]:
            found.append(f"{shown} {fact[name]} instead of {true}")
    if way == "lines":
        found += losses(plain, fact)
    if fact["errors"] or fact["dropped"]:
        found.append(f"errors in hooks: {fact['errors']}; {fact['dropped']} rows dropped")
    return found


def changes(case: Case, plain: Ran, job: Ran) -> list[str]:
    """Ranks whose losses or weights are not those without hooks."""
    if sorted(plain.reports) != list(range(case.ranks)):
        return [f"without hooks only ranks {sorted(plain.reports)} reported"]
    return [
        f"losses or weights of rank {rank} are not those without hooks"
        for rank, report in plain.reports.items()
        if job.reports.get(rank) != report
    ]


def losses(plain: Ran, fact: dict[str, Any]) -> list[str]:
    """Losses that are recorded for another step than the job's, or with another value, or not."""
    if not fact["losses"]:
        return ["no loss is recorded"]
    wrong = []
    for place, loss in fact["losses"].items():
        rank, _, step = place.partition(":")
        true = plain.reports[int(rank)]["losses"].get(step)
        if true is None or not math.isclose(float.fromhex(true), loss, rel_tol=CLOSE):
            wrong.append(place)
    num_true = sum(len(report["losses"]) for report in plain.reports.values())
    found = [f"{len(wrong)} losses are not the job's: {wrong[:3]}"] if wrong else []
    if len(fact["losses"]) != num_true:
        found.append(f"{len(fact['losses'])} losses of {num_true}")
    return found
