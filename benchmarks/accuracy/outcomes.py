"""Outcomes as lines of a file, so that a run of the benchmark can be resumed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from benchmarks.accuracy.cases import Case
from benchmarks.accuracy.judge import Outcome
from sample_traces.generate.labelled.labels import Label

_FIELDS = {one.name for one in fields(Outcome)} - {"case", "labels"}
"""Files of earlier versions have others."""
_PLACES = ("ranks", "stages", "hosts", "also", "culprits")


def append(outcome: Outcome, path: Path) -> None:
    """Add one line, after the end of one that was cut off."""
    with path.open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read() != b"\n":
                file.write(b"\n")
        file.write(json.dumps(asdict(outcome)).encode() + b"\n")


def outcomes_in(path: Path) -> Iterator[Outcome]:
    """Outcomes of a file; a line that is cut off is left out. Raises ValueError for other files."""
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            plain: dict[str, Any] = json.loads(line)
        except ValueError:
            continue
        if not isinstance(plain, dict) or not {"case", "labels"} <= plain.keys():
            raise ValueError(f"{path} has lines that are no outcomes of this benchmark")
        labels = tuple(
            Label(**{**label, **{name: tuple(label.get(name, ())) for name in _PLACES}})
            for label in plain.pop("labels")
        )
        known = {key: value for key, value in plain.items() if key in _FIELDS}
        yield Outcome(Case(**plain.pop("case")), labels=labels, **known)
