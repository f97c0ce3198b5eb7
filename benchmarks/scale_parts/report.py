"""What scale.py measured, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.scale_parts.asking import Times

MB = 10**6


def report(result: dict[str, Any]) -> str:
    """Conditions and tables; a target that is missed is marked."""
    conditions = ", ".join(f"{key} {value}" for key, value in result["conditions"].items())
    parts = [conditions, _questions(result["questions"]), _figures(result)]
    if result["pages"]:
        parts.append(_pages(result["pages"]))
    return "\n\n".join(parts)


def _questions(questions: dict[str, Times]) -> str:
    lines = [
        "| question, p50 (p95) in ms | warm | target | cold | a file for each rank, warm | cold |",
        "|---|---|---|---|---|---|",
    ]
    for name, times in questions.items():
        cells = (
            _ms(times.warm_ms) + _missed(times.warm_ms, times.target_ms),
            str(times.target_ms),
            _ms(times.cold_ms),
            _ms(times.glob_warm_ms),
            _ms(times.glob_cold_ms),
        )
        lines.append(f"| {name} | {' | '.join(cells)} |")
    num = {len(times.warm_ms) for times in questions.values()}
    raw = {len(times.glob_warm_ms) for times in questions.values()}
    return "\n".join([*lines, "", f"Questions: {_range(num)} of each kind, {_range(raw)} by glob."])


def _figures(result: dict[str, Any]) -> str:
    rows: list[tuple[str, str, str]] = []
    made = result["made"]
    if made:
        for name, verb in (("generate", "generated"), ("index", "indexed")):
            cost = made[name]
            rows += [
                (f"{verb}, M spans a s", f"{made['spans'] / cost['wall_s'] / 1e6:.2f}", ""),
                (f"{verb}, M spans a CPU s", f"{made['spans'] / cost['cpu_s'] / 1e6:.2f}", ""),
                (f"{verb}, peak MB", f"{cost['peak_mb']:,.0f}", ""),
            ]
        rows += [
            ("spans", f"{made['spans']:,}", ""),
            ("bytes a span", f"{made['span_bytes']:.1f}", "6"),
            ("bytes of collectives for each span", f"{made['collective_bytes']:.1f}", ""),
            ("index, MB", f"{made['index_bytes'] / MB:,.0f}", ""),
        ]
    judged = result["diagnosis"]
    rows += [
        ("diagnosis, s", f"{judged['wall_s']:.1f}", "60"),
        ("diagnosis, CPU s", f"{judged['cpu_s']:.1f}", ""),
        ("diagnosis, peak MB", f"{judged['peak_mb']:,.0f}", ""),
        ("slow machines named", f"{judged['named']} of {judged['slow']}", "all"),
        ("... before anything else", f"{judged['named_first']}", "all"),
        ("healthy machines named", f"{judged['healthy_named']}", "0"),
    ]
    whatif = result["whatif"]
    if "steps" in whatif:
        per_step_ms = whatif["wall_s"] * 1e3 / whatif["steps"]
        rows += [
            (f"what-if of {whatif['steps']} steps, ms a step", f"{per_step_ms:,.0f}", "100"),
            ("what-if, peak MB", f"{whatif['peak_mb']:,.0f}", ""),
        ]
    lines = [f"| {name} | {value} | {target} |" for name, value, target in rows]
    return "\n".join(["| | | target |", "|---|---|---|", *lines])


def _pages(pages: dict[str, Any]) -> str:
    lines = ["| in Chromium, empty cache | p50 ms | p95 ms |", "|---|---|---|"]
    lines.append(f"| first picture of a server just started | {pages['first_picture_ms']:,.0f} | |")
    for page, times in pages["pages"].items():
        lines.append(f"| {page} | {times['p50_ms']:,.0f} | {times['p95_ms']:,.0f} |")
    slowest = sorted(pages["routes"].items(), key=lambda one: -one[1]["p95_ms"])
    lines += ["", "| requests repeated, slowest five | p50 ms | p95 ms | kB |", "|---|---|---|---|"]
    for name, times in slowest[:5]:
        lines.append(f"| {name} | {times['p50_ms']} | {times['p95_ms']} | {times['kB']} |")
    first, again = pages["share_first_s"], pages["share_again_s"]
    lines += [
        "",
        f"Shared file of the overview: {first:.1f} s the first time, {again:.1f} s again. "
        f"Server and its processes: at most {pages['server_mb']:,.0f} MB.",
    ]
    return "\n".join(lines)


def _ms(values: Sequence[float]) -> str:
    if not values:
        return "-"
    p50, p95 = np.percentile(values, [50, 95])
    return f"{_figure(p50)} ({_figure(p95)})"


def _figure(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def _missed(values: Sequence[float], target: float) -> str:
    return " **missed**" if np.percentile(values, 95) > target else ""


def _range(counts: set[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low}" if low == high else f"{low} to {high}"
