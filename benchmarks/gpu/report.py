"""Tables of results for docs/gpu.md."""

from __future__ import annotations

from pathlib import Path

from benchmarks.gpu.figures import Figure
from benchmarks.gpu.machine import Machine
from benchmarks.gpu.parts import PARTS
from benchmarks.gpu.runs import Result

BEGIN, END = "<!-- make gpu writes what follows -->\n", "<!-- end of make gpu -->"


def write(page: Path, machines: list[tuple[Machine, list[Result]]]) -> None:
    """Replace the tables of a page; raises ValueError where it has no place for them."""
    text = page.read_text("utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} has no lines {BEGIN.strip()} and {END}")
    page.write_text(before + begin + tables(machines) + end + after, encoding="utf-8")


def tables(machines: list[tuple[Machine, list[Result]]]) -> str:
    """Markdown: for each machine how each part ended, then what was found."""
    if not machines:
        rows = [f"| ({part.letter}) {part.shows} | not run |" for part in PARTS]
        return "\n| part | |\n|---|---|\n" + "\n".join(rows) + "\n\n"
    return "\n" + "\n".join(_of_machine(*one) for one in machines) + "\n"


def _of_machine(machine: Machine, results: list[Result]) -> str:
    known = {result.part: result for result in results}
    lines = [f"### {machine.in_words()}", "", "| part | date | how it ended |", "|---|---|---|"]
    for part in PARTS:
        result = known.get(part)
        told = ("", "not run") if result is None else (result.date, result.in_words())
        lines.append(f"| ({part.letter}) {part.shows} | {told[0]} | {_cell(told[1])} |")
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
