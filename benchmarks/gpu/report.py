"""The generated parts of docs/gpu.md: how to read each part, and tables of results."""

from __future__ import annotations

import ast
from pathlib import Path

from benchmarks.gpu.figures import Figure
from benchmarks.gpu.machine import Machine
from benchmarks.gpu.parts import PARTS
from benchmarks.gpu.runs import Result
from benchmarks.page_part import write_part

BEGIN, END = "<!-- results: generated -->", "<!-- end of results -->"
PARTS_BEGIN, PARTS_END = "<!-- parts: generated -->", "<!-- end of parts -->"


def write(page: Path, machines: list[tuple[Machine, list[Result]]]) -> None:
    """Rewrite a page; ends the program where it has no lines for the tables."""
    write_part(page, BEGIN, END, tables(machines))
    if PARTS_BEGIN in page.read_text("utf-8"):
        write_part(page, PARTS_BEGIN, PARTS_END, parts())


def parts() -> str:
    """Markdown: the docstring of each part."""
    lines = []
    for part in PARTS:
        source = (Path(__file__).parent / "parts" / f"{part.module}.py").read_text("utf-8")
        title, _, text = (ast.get_docstring(ast.parse(source)) or "").partition("\n")
        lines.append(f"### {title.rstrip('.')}\n\n{text.strip()}\n")
    return "\n".join(lines)


def tables(machines: list[tuple[Machine, list[Result]]]) -> str:
    """Markdown: for each machine how each part ended, then its figures."""
    if not machines:
        return "No part has been run on a GPU yet."
    return "\n".join(_of_machine(*machine) for machine in machines)


def _of_machine(machine: Machine, results: list[Result]) -> str:
    known = {result.part: result for result in results}
    lines = [f"### {machine.in_words()}", "", "| part | date | how it ended |", "|---|---|---|"]
    for part in PARTS:
        result = known.get(part)
        outcome = ("", "not run") if result is None else (result.date, result.in_words())
        lines.append(f"| ({part.letter}) {part.shows} | {outcome[0]} | {_cell(outcome[1])} |")
    lines += ["", "| part | what | value | holds | note |", "|---|---|---|---|---|"]
    for result in results:
        lines += [_row(result.part.letter, figure) for figure in result.figures]
    return "\n".join([*lines, ""])


def _row(letter: str, figure: Figure) -> str:
    value = f"{figure.value:,.4g}" if isinstance(figure.value, float) else str(figure.value)
    held = {True: "yes", False: "**no**", None: ""}[figure.holds]
    cells = (f"({letter})", figure.name, f"{value} {figure.unit}".strip(), held, figure.note)
    return "| " + " | ".join(map(_cell, cells)) + " |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
