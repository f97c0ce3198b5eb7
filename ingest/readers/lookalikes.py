"""Files that are no readable trace, recognised by content and called what they are."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress

from ingest.readers.archives import is_tar
from ingest.readers.inputs import Source
from ingest.readers.protobuf import Damaged, fields

_PICKLE = re.compile(rb"\x80[\x02-\x05]")
_FLIGHT_RECORDER = (b"pg_config", b"collective_seq_id", b"comm_lib_version")
_EXECUTION_TRACE = re.compile(rb'\s*\{[^\[]*"schema"\s*:\s*"[^"]*"')
_MEMORY_TIMELINE = re.compile(rb"\s*\[\s*\[\s*(-?\d|\[)")
_JSON_LINES = re.compile(rb"\s*\{[^\n]*\}\s*\n\s*\{")
_PACKED = (b"\xfd7zXZ", b"BZh", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf")
_EVENT = re.compile(rb'"ph"\s*:\s*"')
_HTML = re.compile(rb"\s*<(?:!doctype html|html)", re.IGNORECASE)
_CHAKRA = re.compile(rb"[\x03-\x40]\x0a[\x03-\x20]\d+\.\d+\.\d+")
_NCCL_LOG = re.compile(rb"^[^\n]*NCCL (?:INFO|WARN|version)", re.MULTILINE)
_LEAST_PACKETS = 3


def _is_pickle(head: bytes) -> bool:
    return bool(_PICKLE.match(head))


def _is_flight_recorder(head: bytes) -> bool:
    return any(word in head for word in _FLIGHT_RECORDER) and b"entries" in head


def _is_perfetto(head: bytes) -> bool:
    """Whether packets of Perfetto's trace proto (field 1, a message each) follow on each other."""
    found = 0
    with suppress(Damaged):
        for number, value, _ in fields(head):
            if number != 1 or not isinstance(value, bytes):
                return False
            found += 1
    return found >= _LEAST_PACKETS


def _is_json(head: bytes) -> bool:
    return head.lstrip()[:1] in (b"{", b"[")


_LOOKALIKES: tuple[tuple[str, Callable[[bytes], bool]], ...] = (
    ("an empty file", lambda head: not head.strip()),
    ("a SQLite database", lambda head: head[:15] == b"SQLite format 3"),
    (
        "a PyTorch Flight Recorder dump",
        lambda head: (_is_pickle(head) or _is_json(head)) and _is_flight_recorder(head),
    ),
    (
        "a PyTorch memory snapshot (what was allocated, no operations in time)",
        lambda head: _is_pickle(head) and b"device_traces" in head and b"segments" in head,
    ),
    ("a Python pickle, which could run code", _is_pickle),
    ("a Parquet file with other columns than a trace has", lambda head: head[:4] == b"PAR1"),
    (
        "a zip archive inside another file (unpack it first)",
        lambda head: head[:4] == b"PK\x03\x04",
    ),
    ("packed by xz, bzip2, zstd or 7-Zip (unpack it first)", lambda head: head.startswith(_PACKED)),
    (
        "a PyTorch execution trace (operators without GPU times), no profiler trace",
        lambda head: bool(_EXECUTION_TRACE.match(head)) and b'"nodes"' in head,
    ),
    (
        "a PyTorch memory timeline, which holds no operations",
        lambda head: bool(_MEMORY_TIMELINE.match(head)),
    ),
    (
        "JSON with events of a Chrome trace, but not where a trace has them",
        lambda head: _is_json(head) and bool(_EVENT.search(head)),
    ),
    ("a speedscope profile", lambda head: _is_json(head) and b"www.speedscope.app" in head[:4096]),
    ("a file of JSON lines", lambda head: bool(_JSON_LINES.match(head))),
    ("JSON, but no trace", _is_json),
    ("a tar archive inside another file (unpack it first)", is_tar),
    (
        "a pointer of Git LFS, not the file itself (`git lfs pull` fetches it)",
        lambda head: head.startswith(b"version https://git-lfs.github.com/spec/"),
    ),
    ("an HTML page, perhaps one that asks to log in", lambda head: bool(_HTML.match(head))),
    (
        "a log of NCCL, which tells no times of operations",
        lambda head: b"\x00" not in head[:4096] and bool(_NCCL_LOG.search(head, 0, 65536)),
    ),
    (
        "a Chakra execution trace (operators without GPU times), no profiler trace",
        lambda head: bool(_CHAKRA.match(head)),
    ),
    ("a file of TensorBoard events, no trace", lambda head: b"brain.Event:" in head[:64]),
    ("a native Perfetto trace; export it as JSON (traceconv json)", _is_perfetto),
    ("plain text", lambda head: b"\x00" not in head[:4096]),
)


def what_it_is(source: Source) -> str:
    """What the file is, in words that fit after "is"."""
    for name, applies in _LOOKALIKES:
        if applies(source.head):
            return name
    return "of no format known here"
