"""Whether every opcode of a pickle builds plain data, by a regular expression, before it runs.

Python's own unpickler in C is ten times as fast as a machine in Python, but it also obeys opcodes
that name code, and allocates what sizes and indices claim. What is let through here gives it none
of that to obey: each opcode is one of those below, each text and number lies in the file whole,
indices of the memo are bounded. Whatever is not (of honest dumps: texts that are no UTF-8, more
than 10 MB) is left to ingest.readers.parsing.plain_pickle, which reads it or names what it would
import.

Opcodes: https://github.com/python/cpython/blob/main/Lib/pickletools.py
"""

from __future__ import annotations

import io
import pickle  # noqa: TID251  # of what was checked opcode by opcode only, and without classes
import re
from typing import Any, NoReturn

_LONGEST_SHORT_TEXT = 48
_LARGEST_NUMBER = 9
"""Bytes of an integer of 64 bits and its sign."""
_MOST_TUPLES = 1 << 14
"""Of tuples in tuples as keys the hash is recursive, in C and without a limit."""
_AHEAD = 1 << 17
_TEXT, _TUPLE, _STOP = ord("X"), frozenset(b"t\x85\x86\x87"), ord(".")


def _counted(sizes: range, count: bytes, kind: bytes) -> bytes:
    """Alternatives of a size, spelled by its first byte and `count`, and as many of `kind`."""
    return b"|".join(
        re.escape(bytes([size])) + count + (b"%b{%d}" % (kind, size) if size else b"")
        for size in sizes
    )


_RUN = re.compile(
    b"(?:"
    rb"[hqK]."  # BINGET, BINPUT, BININT1
    rb"|[](})Nesua\x88\x89]"  # containers, MARK, None, booleans, and what fills containers
    rb"|j...."  # LONG_BINGET
    rb"|r..[\0-\x3f]\0"  # LONG_BINPUT below 2^22: the memo is an array
    b"|X(?:" + _counted(range(_LONGEST_SHORT_TEXT), rb"\0\0\0", rb"[\0-\x7f]") + b")"
    b"|\x8a(?:" + _counted(range(1, _LARGEST_NUMBER + 1), b"", b".") + b")"  # LONG1
    rb"|M..|J....|G.{8}"  # BININT2, BININT, BINFLOAT
    rb"|\x80[\x02-\x05]"  # PROTO
    b")*+",
    re.DOTALL,
)


def is_plain(data: bytes, most_steps: int) -> bool:
    """Whether it is known to build plain data, in at most this many steps."""
    offset = num_tuples = 0
    if len(data) > most_steps:  # a step is a byte at least
        return False
    while True:
        run = _RUN.match(data, offset)
        offset = run.end() if run else offset
        code = data[offset] if offset < len(data) else -1
        if code in _TUPLE and num_tuples < _MOST_TUPLES:
            num_tuples += 1
            offset += 1
        elif code == _TEXT and (end := _end_of_text(data, offset + 1)):
            offset = end
        else:
            return code == _STOP


def _end_of_text(data: bytes, offset: int) -> int:
    """Where a text of any length ends, its size being at `offset`; 0 for anything else."""
    begin = offset + 4
    end = begin + int.from_bytes(data[offset:begin], "little")
    try:
        data[begin:end].decode()
    except UnicodeDecodeError:
        return 0
    return end if begin <= end <= len(data) else 0


def built(data: bytes) -> Any:
    """What a pickle that `is_plain` holds; raises ValueError for a damaged one."""
    stream = io.BufferedReader(io.BytesIO(data), _AHEAD)  # it looks ahead where it can
    try:
        return _Plain(stream).load()
    except (
        ArithmeticError,
        AttributeError,
        EOFError,
        LookupError,
        RecursionError,
        TypeError,
        pickle.UnpicklingError,
    ) as error:
        raise ValueError(f"damaged ({error})") from error


class _Plain(pickle.Unpickler):
    """Without classes and without objects from outside, should the check ever let one through."""

    def find_class(self, module: str, name: str) -> NoReturn:
        """Raises UnpicklingError."""
        raise pickle.UnpicklingError(f"{module}.{name}")

    def persistent_load(self, pid: Any) -> NoReturn:
        """Raises UnpicklingError."""
        raise pickle.UnpicklingError("an object from outside")
