"""The matrix of docs/frameworks.md."""

from __future__ import annotations

from typing import Any

from benchmarks.frameworks.cases import CASES, Case

BEGIN, END = "<!-- benchmarks.frameworks replaces what follows -->", "<!-- end of frameworks -->"
HOW = {"hooks": "`-m trace_hooks`", "lines": "with the lines above"}


def matrix(rows: list[dict[str, Any]]) -> str:
    """A line for each job and way of tracing it, and what is wrong in sentences."""
    by_name = {case.name: case for case in CASES}
    lines = [
        "| job | versions | ranks | how | steps | layout | micro-batches | loss | tokens |"
        " covered | longest unseen | hooks |",
        f"|{'---|' * 12}",
    ]
    wrong = []
    for row in rows:
        case = by_name[row["case"]]
        lines += [
            f"| {' | '.join(cells(case, row, way))} |" for way in HOW if row.get(way) is not None
        ]
        wrong += [f"- {case.title}, {text}" for text in row["problems"]]
    return "\n".join([*lines, "", *(wrong or ["Nothing differs in any of these jobs."])])


def cells(case: Case, row: dict[str, Any], way: str) -> list[str]:
    """What was recorded of a job in one way."""
    fact = row[way]
    steps = sorted(set(fact["steps"].values()))
    layout = " x ".join(f"{axis}{size}" for axis, size in (fact["layout"] or {}).items())
    num_steps = sum(fact["steps"].values())
    loss = f"{fact['losses'] / num_steps:.0%} of steps" if fact["losses"] else "not logged"
    unseen = ", ".join(f"{name} {share:.1%}" for name, share in fact["unseen"][:2] if share > 0.005)
    return [
        case.title,
        ", ".join(f"{name} {version}" for name, version in row["versions"].items()),
        str(len(fact["ranks"])),
        HOW[way],
        "/".join(map(str, steps)),
        layout or "unknown",
        "/".join(map(str, fact["microbatches"])) or "none",
        loss,
        "/".join(f"{tokens:.0f}" for tokens in fact["tokens"]) or "not recorded",
        "unknown" if fact["coverage"] is None else f"{fact['coverage']:.1%}",
        unseen or "none above 0.5 %",
        "unknown"
        if fact.get("cost_ms") is None
        else f"{fact['cost_ms']:.1f} of {fact['step_ms']:,.0f} ms",
    ]
