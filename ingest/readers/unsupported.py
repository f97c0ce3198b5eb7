"""Recognised but unsupported files: what to call them, by their content."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress

from ingest.readers.logs.signs import is_named_like_log
from ingest.readers.parsing.archives import is_tar
from ingest.readers.parsing.protobuf import Damaged, fields
from ingest.readers.parsing.sources import Source

_PICKLE = re.compile(rb"\x80[\x02-\x05]")
_EXECUTION_TRACE = re.compile(rb'\s*\{[^\[]*"schema"\s*:\s*"[^"]*"')
_MEMORY_TIMELINE = re.compile(rb"\s*\[\s*\[\s*(?:\[\s*)?-?\d")
_JSON = re.compile(
    rb'\s*(?:\{\s*(?:["}]|\Z)|\[\s*(?:[\[{"\]]|\Z|(?:-?\d[\d.eE+-]*|true|false|null)\s*[,\]]))'
)
"""Lines of logs begin with brackets, too: `[2026-01-01 ...`, `[rank0]: ...`."""
_JSON_LINES = re.compile(rb"\s*\{[^\n]*\}\s*\n\s*\{")
_EVENT = re.compile(rb'"ph"\s*:\s*"')
_HTML = re.compile(rb"\s*<(?:!doctype html|html)", re.IGNORECASE)
_CHAKRA = re.compile(rb"[\x03-\x40]\x0a[\x03-\x20]\d+\.\d+\.\d+")
_OF_SNAPSHOT = (b"device_traces", b"segment_type")
"""Keys of memory snapshots; of a long one only the second stands near the beginning."""
_LEAST_PACKETS = 3
_LONGEST_VALUE_TYPE = 16
_NAME_WITHIN = 64

_BEGINNINGS: tuple[tuple[bytes, str], ...] = (
    (b"PAR1", "a Parquet file with other columns than a trace has"),
    (b"PK\x03\x04", "a zip archive inside another file (unpack it first)"),
    (b"\x1f\x8b", "a gzip inside another gzip (unpack it first)"),
    (b"\xfd7zXZ", "compressed with xz (decompress it first)"),
    (b"BZh", "compressed with bzip2 (decompress it first)"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd (decompress it first)"),
    (b"7z\xbc\xaf", "compressed with 7-Zip (decompress it first)"),
    (b"NVR\x00", "a report of Nsight Compute, which describes single kernels only"),
    (b"PERFILE2", "a recording of Linux perf, which holds samples and no operations"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x89HDF\r\n", "an HDF5 file"),
    (b"\x7fELF", "a program or a library"),
    (b"\x89PNG\r\n", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"%PDF-", "a PDF document"),
    (
        b"version https://git-lfs.github.com/spec/",
        "a pointer of Git LFS, not the file itself (`git lfs pull` fetches it)",
    ),
)
_NSYS = (
    "a report of Nsight Systems, judging by its name (convert it with `nsys export --type sqlite "
    "FILE`)"
)
_XPLANE = (
    "a profile of JAX or TensorFlow (XPlane): import the trace.json.gz next to it, or what Python "
    'gives for `xprof.convert.raw_to_tool_data.xspace_to_tool_data([FILE], "trace_viewer", {})`'
)
_ENDINGS = {".nsys-rep": _NSYS, ".qdrep": _NSYS, ".xplane.pb": _XPLANE}
"""Formats that cannot be recognised by their first bytes: their names are better than nothing."""


def _is_pickle(head: bytes) -> bool:
    return bool(_PICKLE.match(head))


def _is_sqlite(head: bytes) -> bool:
    return head.startswith(b"SQLite format 3")


def _first_fields(head: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Fields of a protobuf as far as the head goes."""
    with suppress(Damaged):
        for number, value, _ in fields(head):
            yield number, value


def _is_perfetto(head: bytes) -> bool:
    """Whether packets of Perfetto's trace proto (field 1, a message each) follow on each other."""
    num_packets = 0
    for number, value in _first_fields(head):
        if number != 1 or not isinstance(value, bytes):
            return False
        num_packets += 1
    return num_packets >= _LEAST_PACKETS


def _is_xplane(head: bytes) -> bool:
    """Whether its first message is a plane of XSpace, which are named by devices and hosts.

    The name comes first; a plane may be longer than what is looked at.
    """
    named = (b"/device:", b"/host:", b"Task Environment")
    return head[:1] == b"\x0a" and any(name in head[:_NAME_WITHIN] for name in named)


def _is_pprof(head: bytes) -> bool:
    """Whether types of values (field 1, two small numbers each) come first, then samples (2)."""
    for index, (number, value) in enumerate(_first_fields(head)):
        if number == 2:
            return index > 0 and isinstance(value, bytes)
        is_type = number == 1 and isinstance(value, bytes) and len(value) <= _LONGEST_VALUE_TYPE
        if not is_type or not {n for n, _ in _first_fields(bytes(value))} <= {1, 2}:
            return False
    return False


def _is_json(head: bytes) -> bool:
    return bool(_JSON.match(head))


def _is_text(head: bytes) -> bool:
    return b"\x00" not in head[:4096]


_LOOKALIKES: tuple[tuple[str, Callable[[bytes], bool]], ...] = (
    ("an empty file", lambda head: not head.strip()),
    (
        "a database of rocprofv3, whose tables are not those of rocmProfileData",
        lambda head: _is_sqlite(head) and b"rocpd_info_" in head,
    ),
    (
        "a SQLite database, but neither an export of Nsight Systems nor rocmProfileData",
        _is_sqlite,
    ),
    (
        "a PyTorch memory snapshot, which says what was allocated but not when operations ran "
        "(look at it with `python -m torch.cuda._memory_viz trace_plot FILE -o memory.html`)",
        lambda head: b"segments" in head and any(key in head for key in _OF_SNAPSHOT),
    ),
    (
        "a Python pickle, which could run code and is not opened",
        _is_pickle,
    ),
    (
        "a PyTorch execution trace (operators without GPU times), not a profiler trace",
        lambda head: bool(_EXECUTION_TRACE.match(head)) and b'"nodes"' in head,
    ),
    (
        "a PyTorch memory timeline, which holds no operations",
        lambda head: bool(_MEMORY_TIMELINE.match(head)) or b"<title>GPU Memory Timeline" in head,
    ),
    (
        "JSON with events of a Chrome trace, but not where a trace has them",
        lambda head: _is_json(head) and bool(_EVENT.search(head)),
    ),
    ("a speedscope profile", lambda head: _is_json(head) and b"www.speedscope.app" in head[:4096]),
    ("a file of JSON lines", lambda head: bool(_JSON_LINES.match(head))),
    ("JSON, but not a trace", _is_json),
    ("a tar archive inside another file (unpack it first)", is_tar),
    ("an HTML page, perhaps a login page", lambda head: bool(_HTML.match(head))),
    (
        "a Chakra execution trace (operators without GPU times): import the profiler trace that "
        "it was made from (`chakra_jsonizer --input_filename FILE --output_filename FILE.json` "
        "only shows it as JSON)",
        lambda head: bool(_CHAKRA.match(head)),
    ),
    (
        "a file of TensorBoard events that is damaged at its beginning",
        lambda head: b"brain.Event:" in head[:64],
    ),
    (_XPLANE, _is_xplane),
    ("a native Perfetto trace (convert it with `traceconv json FILE OUTPUT`)", _is_perfetto),
    ("a pprof profile, which holds samples and no operations", _is_pprof),
    ("plain text, neither a trace nor a log", _is_text),
)


def is_empty_log(source: Source) -> bool:
    """Whether nothing was written to it, as to most logs of errors: nothing to speak of."""
    is_whole = not source.damages()
    return is_whole and not source.head.strip() and is_named_like_log(source.name)


def what_it_is(source: Source) -> str:
    """What the file is, in words that fit after "is"."""
    for beginning, name in _BEGINNINGS:
        if source.head.startswith(beginning):
            return name
    for name, applies in _LOOKALIKES:
        if applies(source.head):
            return name
    name = source.name.lower()
    known = (what for ending, what in _ENDINGS.items() if name.endswith(ending))
    return next(known, "in a format that rankscope does not know")
