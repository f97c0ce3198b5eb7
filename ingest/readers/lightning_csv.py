"""metrics.csv of Lightning's CSVLogger: columns `step`, `epoch` and what the job logged.

A row has values of one call of `log_metrics`, and nothing in the other columns. `step` is the
number of the optimizer step, from 0. Source: lightning/fabric/loggers/csv_logs.py.
"""

from __future__ import annotations

import csv
import io
import math
import re
from pathlib import PurePath

from ingest.readers.base import Format
from ingest.readers.parsing.sources import Source
from ingest.readers.tables.scalar_series import ScalarFile, ScalarImport, ScalarSeries, column_of
from ingest.readers.tables.staged_rows import StagedRows
from ingest.readers.tables.whole_files import TooLarge, all_of

FORMAT = Format("lightning_csv", "Lightning's metrics.csv", is_generic=True, accompanies=True)

_HEAD = re.compile(rb'(?:\xef\xbb\xbf)?[\w./ @()"-]{1,80}(?:,[\w./ @()"-]{1,80}){1,400}\r?\n')
_STEP, _EPOCH = "step", "epoch"


def recognises(source: Source) -> bool:
    """Whether its columns are a step, an epoch, and a number that is known."""
    head = _HEAD.match(source.head)
    if head is None:
        return False
    names = {name.strip('"') for name in head[0].decode("utf-8-sig", "replace").strip().split(",")}
    return {_STEP, _EPOCH} <= names and any(column_of(name) for name in names)


def read(source: Source, staged: StagedRows) -> ScalarFile | None:
    """Read one file."""
    series, num_bad = ScalarSeries(), 0
    try:
        text = all_of(source).decode("utf-8-sig", "replace")
        for row in csv.DictReader(io.StringIO(text, newline="")):
            num_bad += not _take(series, row)
    except (TooLarge, csv.Error) as error:
        staged.add_problem(f"{source.name}: {error}")
    except ValueError as error:  # more steps than an import takes
        staged.add_problem(f"{source.name}: {error}")
    for problem in source.damages():
        staged.add_problem(f"{source.name}: {problem}")
    if num_bad:
        staged.add_problem(f"{source.name}: {num_bad:,} rows without a step were left out")
    folder = str(PurePath(source.name).parent)
    return ScalarFile(source.name, series.steps(), folder, guesses=series.guesses())


def _take(series: ScalarSeries, row: dict[str | None, str | list[str] | None]) -> bool:
    """The values of one row; False where it names no step."""
    step = row.get(_STEP)
    if not isinstance(step, str) or not step.strip().isdecimal() or len(step) > 15:
        return False
    for name, text in row.items():
        if name in (None, _STEP, _EPOCH) or not isinstance(text, str) or not text:
            continue
        value = _number(text)
        if value is not None:
            series.add(str(name), int(step), value)
    return True


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isnan(value) or abs(value) < 1e300 else None


class Import(ScalarImport):
    """One import: tables of one training."""

    what = "tables of Lightning's CSVLogger"
