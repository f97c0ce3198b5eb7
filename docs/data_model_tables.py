"""Writes the generated parts of docs/data-model.md: tables, metrics, index, saved queries.

    python docs/data_model_tables.py

A test fails where the page differs from this output.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

PAGE = Path(__file__).with_name("data-model.md")

if __name__ == "__main__":
    sys.path.insert(0, str(PAGE.parents[1]))

from ingest.query.index_sql import index_sql  # noqa: E402
from ingest.query.saved_queries import saved_queries  # noqa: E402
from trace_hooks.schema import TABLES  # noqa: E402
from trace_hooks.telemetry.names import METRICS  # noqa: E402


def tables() -> Iterator[str]:
    """Every table of the schema with its columns."""
    for table in TABLES.values():
        yield f"\n### `{table.name}`\n\n{table.doc[0].upper()}{table.doc[1:]}.\n"
        yield "\n| column | type | meaning |\n|---|---|---|\n"
        for column in table.columns:
            kind = "text" if "dictionary" in str(column.type) else str(column.type)
            optional = ", may be NULL" if column.nullable else ""
            yield f"| `{column.name}` | {kind}{optional} | {column.doc} |\n"


def index_tables() -> Iterator[str]:
    """Every table of the index with the comment above it in sql/index/tables.sql."""
    yield "\n| table | one row is | columns |\n|---|---|---|\n"
    pattern = re.compile(
        r"((?:^--[^\n]*\n)+)CREATE TABLE IF NOT EXISTS (\w+) \((.*?)\);", re.M | re.S
    )
    for comment, name, body in pattern.findall(index_sql("tables")):
        about = " ".join(line.removeprefix("--").strip() for line in comment.splitlines())
        columns = re.sub(r"PRIMARY KEY \([^)]*\)", "", body)
        names = [part.split()[0] for part in columns.split(",") if part.split()]
        yield f"| `{name}` | {about} | {', '.join(names)} |\n"


def questions() -> Iterator[str]:
    """Every saved query: meaning, parameters, columns, what an empty answer means."""
    for query in saved_queries().values():
        yield f"\n### `{query.name}`\n\n{query.doc}\n\n"
        for parameter in query.parameters:
            given = "required" if parameter.required else f"default {parameter.shown_default}"
            about = f": {parameter.doc}" if parameter.doc else ""
            yield f"- parameter `{parameter.name}` ({parameter.type}, {given}){about}\n"
        columns = "; ".join(f"`{name}` {doc}" for name, doc in query.columns)
        yield f"- columns: {columns}\n- empty: {query.empty}\n"


def metrics() -> Iterator[str]:
    """Every metric of host_metrics, by the kind of device that has it."""
    when = {"second": "each second", "change": "on change", "minute": "once a minute"}
    yield "\n| metric | device | unit | written | meaning |\n|---|---|---|---|---|\n"
    for metric in METRICS.values():
        cells = (metric.device, metric.unit or "-", when[metric.pace], metric.doc)
        yield f"| `{metric.name}` | {' | '.join(cells)} |\n"


PARTS = {"tables": tables, "metrics": metrics, "index tables": index_tables, "questions": questions}


def rewritten(page: str) -> str:
    """The page with its generated parts replaced by new ones."""
    for name, make in PARTS.items():
        begin, end = f"<!-- {name}: generated -->\n", f"<!-- end of {name} -->"
        head, _, rest = page.partition(begin)
        _, _, tail = rest.partition(end)
        page = f"{head}{begin}{''.join(make())}\n{end}{tail}"
    return page


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
