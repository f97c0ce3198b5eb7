"""Event files of TensorBoard: scalars by step, as torch's SummaryWriter and TensorFlow write them.

TFRecords, each a message Event{wall_time=1, step=2, file_version=3, summary=5{value=1{tag=1,
simple_value=2, tensor=8}}}. Files are events.out.tfevents.SECONDS.HOST.PID.N; those of one folder
are attempts of one training. Source: tensorboard/compat/proto/{event,summary,tensor}.proto.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import PurePath

from ingest.limits import limits
from ingest.readers.base import Format
from ingest.readers.parsing.protobuf import Damaged, fields
from ingest.readers.parsing.sources import Source
from ingest.readers.parsing.tf_records import TfRecords, begins_with_record
from ingest.readers.tables.scalar_series import ScalarFile, ScalarImport, ScalarSeries
from ingest.readers.tables.staged_rows import StagedRows

FORMAT = Format("tensorboard", "TensorBoard event files", is_generic=True, accompanies=True)

_VERSION = b"brain.Event:"
_LONGEST_RECORD = 64 << 10
"""Scalars of one call are far shorter; images and graphs are longer."""
_WALL_TIME, _STEP, _SUMMARY = 1, 2, 5
_TAG, _SIMPLE_VALUE, _TENSOR = 1, 2, 8
_DTYPE, _CONTENT, _FLOATS, _DOUBLES = 1, 4, 5, 6
_FLOAT, _DOUBLE = 1, 2
_LATEST_S = float(2**33)
_FILE_NAME = re.compile(r"\.tfevents\.\d{1,12}\.([\w.-]{1,200}?)(?:\.\d{1,9}\.\d{1,6})?(?:\.v2)?$")
_RANK_FOLDER = re.compile(r"(?i)(?:^|/)rank[-_]?(\d{1,7})(?=/)")


def recognises(source: Source) -> bool:
    """Whether it begins with the record that names the version of the format."""
    return _VERSION in source.head[:64] and begins_with_record(source.head)


def read(source: Source, staged: StagedRows) -> ScalarFile:
    """Read one file."""
    records, series, num_bad = TfRecords(source.read, _LONGEST_RECORD), ScalarSeries(), 0
    try:
        for record in records:
            try:
                _take(series, record)
            except Damaged:
                num_bad += 1
    except ValueError as error:  # more steps than an import takes
        staged.add_problem(f"{source.name}: {error}")
    if num_bad:
        records.problems.append(f"{num_bad:,} damaged events were left out")
    for problem in (*source.damages(), *records.problems):
        staged.add_problem(f"{source.name}: {problem}")
    return _file(source.name.replace("\\", "/"), series)


def _file(name: str, series: ScalarSeries) -> ScalarFile:
    path = PurePath(name)
    named, ranked = _FILE_NAME.search(path.name), _RANK_FOLDER.search(name)
    rank = int(ranked[1]) if ranked and int(ranked[1]) < limits().max_ranks else None
    return ScalarFile(
        name,
        series.steps(),
        str(path.parent),
        rank,
        host=named[1] if named else "",
        guesses=series.guesses(),
    )


def _take(series: ScalarSeries, record: bytes) -> None:
    """The scalars of one event; raises Damaged."""
    wall_s, step, summaries = 0.0, 0, []
    for number, value, _ in fields(record):
        if number == _WALL_TIME and isinstance(value, int):
            (wall_s,) = struct.unpack("<d", value.to_bytes(8, "little"))
        elif number == _STEP and isinstance(value, int):
            step = value
        elif number == _SUMMARY and isinstance(value, bytes):
            summaries.append(value)
    end_ns = round(wall_s * 1e6) * 1000 if 0 < wall_s < _LATEST_S else None
    for summary in summaries:
        for number, value, _ in fields(summary):
            if number == 1 and isinstance(value, bytes):
                for tag, scalar in _scalar(value):
                    series.add(tag, step, scalar, end_ns)


def _scalar(message: bytes) -> Iterator[tuple[str, float]]:
    """Tag and value of one value of a summary, if it is a scalar."""
    tag, scalar = "", None
    for number, value, _ in fields(message):
        if number == _TAG and isinstance(value, bytes):
            tag = value.decode("utf-8", "replace")
        elif number == _SIMPLE_VALUE and isinstance(value, int):
            scalar = _float(value.to_bytes(8, "little")[:4])
        elif number == _TENSOR and isinstance(value, bytes):
            scalar = _of_tensor(value)
    if tag and scalar is not None:
        yield tag, scalar


def _of_tensor(message: bytes) -> float | None:
    """The value of a tensor with one element, of float or double; None for any other."""
    dtype, content = 0, b""
    for number, value, _ in fields(message):
        if number == _DTYPE and isinstance(value, int):
            dtype = value
        elif number in (_CONTENT, _FLOATS, _DOUBLES) and isinstance(value, bytes):
            content = value
        elif number == _FLOATS and isinstance(value, int):
            content = value.to_bytes(8, "little")[:4]
        elif number == _DOUBLES and isinstance(value, int):
            content = value.to_bytes(8, "little")
    if dtype == _FLOAT and len(content) == 4:
        return _float(content)
    return (
        float(struct.unpack("<d", content)[0]) if dtype == _DOUBLE and len(content) == 8 else None
    )


def _float(four: bytes) -> float:
    return float(struct.unpack("<f", four)[0])


class Import(ScalarImport):
    """One import: event files of one training, perhaps of several ranks."""

    what = "event files"
