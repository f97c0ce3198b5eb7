"""Which operation, on tensors of which shapes, a kernel belongs to: `args` of its span, as JSON.

    {"op": "aten::mm", "dims": [[64, 32], [32, 8]], "types": ["float", "float"], "kernel": 0}

PyTorch writes shapes where `record_shapes=True`. A kernel belongs to the innermost operator that
was open on the thread that launched it; `kernel` numbers those of one call. Where a file shows
neither kernels nor devices, its operators have this themselves. `inputs` are what else the operator
was given, of those for which it decides how much there is to compute: of others it changes with
every step.
"""

from __future__ import annotations

import re
from array import array
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from ingest.intervals import parents
from ingest.readers.kineto.flows import Launches
from ingest.readers.kineto.innermost import Innermost
from ingest.readers.parsing.trace_events import Event
from ingest.readers.tables.rows import Coded
from ingest.readers.tables.torch_names import COMPUTING_OPERATORS

Ints = npt.NDArray[np.int64]

NO_SHAPES = -1
_SHAPES_KEY = b'"Input Dims"'
_DECIDED_BY_INPUTS = re.compile(r"conv|attention")
_COMMUNICATION = ("c10d::", "_c10d_functional::", "c10d_functional::")
_LONGEST = 4096
"""Bytes of the shapes of one call: a list of tensors may have hundreds."""


class _Args(msgspec.Struct, gc=False):
    dims: msgspec.Raw = msgspec.field(name="Input Dims", default=msgspec.Raw(b""))
    types: msgspec.Raw = msgspec.field(name="Input type", default=msgspec.Raw(b"null"))
    inputs: msgspec.Raw = msgspec.field(name="Concrete Inputs", default=msgspec.Raw(b"null"))


_ARGS = msgspec.json.Decoder(_Args)


def is_communication(name: str) -> bool:
    """Whether an operator of this name communicates: it has shapes, too, and waits for others."""
    return name.startswith(_COMMUNICATION)


class Times(NamedTuple):
    """Thread, begin and end in ns of N spans."""

    thread_N: Ints
    begin_N: Ints
    end_N: Ints

    def of(self, rows: Ints) -> Times:
        """Some of them."""
        return Times(self.thread_N[rows].astype(np.int64), self.begin_N[rows], self.end_N[rows])


class Operators:
    """All operators of one file, and the shapes of their inputs: some 12 bytes an operator."""

    def __init__(self) -> None:
        self._rows, self._codes = array("q"), array("i")
        self._texts: list[bytes] = []
        self._names: list[str] = []
        self._known: dict[tuple[str, bytes, bytes, bytes], int] = {}

    def add(self, row: int, event: Event) -> None:
        """Take one operator and the row that it became."""
        has_shapes = _SHAPES_KEY in bytes(event.args) and not is_communication(event.name or "")
        self._rows.append(row)
        self._codes.append(self._code(event) if has_shapes else NO_SHAPES)

    def _code(self, event: Event) -> int:
        try:
            args = _ARGS.decode(event.args)
        except (ValueError, RecursionError):
            return NO_SHAPES
        name = event.name or ""
        inputs = bytes(args.inputs) if _DECIDED_BY_INPUTS.search(name) else b"null"
        key = name, bytes(args.dims), bytes(args.types), inputs
        if sum(map(len, key)) > _LONGEST:
            return NO_SHAPES
        code = self._known.get(key)
        if code is None:
            code = self._known[key] = self._new(*key)
        return code

    def _new(self, name: str, *texts: bytes) -> int:
        try:
            dims, types, inputs = (msgspec.json.decode(text) for text in texts)
        except (ValueError, RecursionError):
            return NO_SHAPES
        known = {"op": name, "dims": dims, "types": types, "inputs": inputs}
        text = msgspec.json.encode({key: value for key, value in known.items() if value})
        self._texts.append(text)
        self._names.append(name)
        return len(self._texts) - 1

    def args(self, times: Times, kernels: Ints, launches: Launches, on_cpu: bool) -> Coded:
        """Args of all spans of the file; `kernels`: rows of those that compute, which `launches`
        is about. The last text is None.
        """
        code_N = np.full(len(times.thread_N), NO_SHAPES, np.int64)
        texts = [text.decode() for text in self._texts]
        if texts:
            rows = np.frombuffer(self._rows, np.int64)
            shapes = np.frombuffer(self._codes, np.int32).astype(np.int64)
            if len(kernels):
                own, number = _calls(times.of(rows), launches, times.begin_N[kernels])
                shapes = np.where(own >= 0, shapes[own], NO_SHAPES)
                code_N[kernels], texts = _numbered(shapes, number, texts)
            elif on_cpu:
                alone = self._outermost(times, rows)
                code_N[rows[alone]] = shapes[alone]
        code_N[code_N < 0] = len(texts)
        return Coded(code_N, [*texts, None])

    def _outermost(self, times: Times, rows: Ints) -> Ints:
        """Operators that compute and lie in no other such one: known ones, and innermost ones."""
        own = times.of(rows)
        # ordinals: ns of damaged files would not fit into the keys of intervals
        moments = np.unique(np.concatenate((own.begin_N, own.end_N)))
        begin_O, end_O = (np.searchsorted(moments, ns) for ns in (own.begin_N, own.end_N))
        parent_O = parents(own.thread_N, begin_O, end_O)
        known = np.array([*(name in COMPUTING_OPERATORS for name in self._names), False], np.bool_)
        known_O = known[np.frombuffer(self._codes, np.int32)]
        alone_O = known_O | ~np.isin(np.arange(len(rows)), parent_O)
        above_O = parent_O
        while (above_O >= 0).any():
            alone_O &= ~((above_O >= 0) & known_O[above_O])
            above_O = np.where(above_O >= 0, parent_O[above_O], -1)
        return np.flatnonzero(alone_O)


def _calls(own: Times, launches: Launches, begin_K: Ints) -> tuple[Ints, Ints]:
    """Of each kernel the operator that launched it, -1 unknown, and its number in that call."""
    at_K = Innermost(own.thread_N, own.begin_N, own.end_N).at(launches.thread_N, launches.ts_ns_N)
    order_K = np.lexsort((begin_K, at_K))
    first_K = np.append(True, np.diff(at_K[order_K]) != 0)[: len(at_K)]
    place_K = np.arange(len(at_K))
    number_K = np.empty(len(at_K), np.int64)
    number_K[order_K] = place_K - np.maximum.accumulate(np.where(first_K, place_K, 0))
    return at_K, number_K


def _numbered(shapes_K: Ints, number_K: Ints, texts: list[str]) -> tuple[Ints, list[str]]:
    """Codes of args that have the number of the kernel, too, -1 none, and their texts."""
    most = int(number_K.max()) + 1
    key_K = np.where(shapes_K >= 0, shapes_K * most + number_K, NO_SHAPES)
    used, code_K = np.unique(key_K, return_inverse=True)
    skipped = int(used[0] == NO_SHAPES)
    named = [
        f'{texts[key // most][:-1]},"kernel":{key % most}}}' for key in used[skipped:].tolist()
    ]
    return code_K.astype(np.int64) - skipped, named
