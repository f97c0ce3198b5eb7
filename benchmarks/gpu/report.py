"""The generated parts of docs/gpu.md: how to read each part, and tables of results."""

from __future__ import annotations

import ast
from pathlib import Path

from benchmarks.gpu.figures import Figure
from benchmarks.gpu.machine import Machine
from benchmarks.gpu.parts import PARTS
from benchmarks.gpu.runs import Result

BEGIN, END = "<!-- results: generated -->\n", "<!-- end of results -->"
PARTS_BEGIN, PARTS_END = "<!-- parts: generated -->\n", "<!-- end of parts -->"


def write(page: Path, machines: list[tuple[Machine, list[Result]]]) -> None:
    """Rewrite a page; raises ValueError if it has no marks for the tables."""
    text = page.read_text("utf-8")
    text = _between(text, BEGIN, END, tables(machines), page)
    if PARTS_BEGIN in text:
        text = _between(text, PARTS_BEGIN, PARTS_END, parts(), page)
    page.write_text(text, encoding="utf-8")


def _between(text: str, begin: str, end: str, new: str, page: Path) -> str:
    before, has_begin, rest = text.partition(begin)
    _, has_end, after = rest.partition(end)
    if not has_begin or not has_end:
        raise ValueError(f"{page} has no lines {begin.strip()} and {end}")
    return before + begin + new + end + after


def parts() -> str:
    """Markdown: the docstring of each part."""
    lines = []
    for part in PARTS:
        source = (Path(__file__).parent / "parts" / f"{part.module}.py").read_text("utf-8")
        title, _, text = (ast.get_docstring(ast.parse(source)) or "").partition("\n")
        lines.append(f"### {title.rstrip('.')}\n\n{text.strip()}\n")
    return "\n" + "\n".join(lines) + "\n"


def tables(machines: list[tuple[Machine, list[Result]]]) -> str:
    """Markdown: for each machine how each part ended, then its figures."""
    if not machines:
        return "\nNo part has been run on a GPU yet.\n\n"
    return "\n" + "\n".join(_of_machine(*machine) for machine in machines) + "\n"


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
