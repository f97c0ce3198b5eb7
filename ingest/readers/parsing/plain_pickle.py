"""Pickles of plain containers, decoded so that no opcode can name code.

What ingest.readers.parsing.pickle_check vouches for is built by Python's own unpickler, in C.
Damaged and odd pickles go through the machine here, which reports what is wrong and keeps what came
before. Known to it are the opcodes that build None, booleans, numbers, texts, bytes, lists, tuples
and dicts. Any other one (a global, a call, a persistent id, a buffer from outside) is refused by
name, before it does anything. Nothing is recursive, and nothing is allocated that the file does not
hold.

Opcodes: https://github.com/python/cpython/blob/main/Lib/pickletools.py
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from ingest.readers.parsing.pickle_check import built, is_plain

MARK, STOP = ord("("), ord(".")
_REFUSED = {
    ord("c"): "GLOBAL",
    0x93: "STACK_GLOBAL",
    ord("i"): "INST",
    ord("o"): "OBJ",
    ord("R"): "REDUCE",
    ord("b"): "BUILD",
    0x81: "NEWOBJ",
    0x92: "NEWOBJ_EX",
    ord("P"): "PERSID",
    ord("Q"): "BINPERSID",
    0x82: "EXT1",
    0x83: "EXT2",
    0x84: "EXT4",
    0x97: "NEXT_BUFFER",
    0x98: "READONLY_BUFFER",
    0x96: "BYTEARRAY8",
    0x8F: "EMPTY_SET",
    0x90: "ADDITEMS",
    0x91: "FROZENSET",
}
_LONGEST_NUMBER = 16
"""Bytes of an integer: longer ones are no number, time or hash."""
_LONGEST_LINE = 1 << 10
_MOST_STEPS = 10_000_000
"""Some 60 bytes of memory each at most; 2,000 collectives with their stacks take 700,000."""
_INT4, _UINT4 = struct.Struct("<i"), struct.Struct("<I")
_FLOAT8 = struct.Struct(">d")
_SIZES = {"\x8c": 1, "\x8d": 8, "B": 4, "C": 1, "\x8e": 8, "T": 4, "U": 1}
_SIZE_OF = {ord(code): size for code, size in _SIZES.items()}
_TEXT = frozenset(map(ord, "\x8c\x8dTU"))
_KEYS = frozenset({str, int, float, bool, bytes, type(None)})
"""Types of keys. Not tuples: of deep ones the hash is recursive, in C and without a limit."""


class NotPlain(ValueError):
    """The pickle needs more than plain containers; the text names it."""


class CutShort(ValueError):
    """The pickle ended, or made no sense, at some byte; `value` is what was built before."""

    def __init__(self, text: str, value: Any) -> None:
        super().__init__(text)
        self.value = value


def loads(data: bytes) -> Any:
    """What a pickle of plain containers holds.

    Raises NotPlain for anything else, CutShort for damage.
    """
    if is_plain(data, _MOST_STEPS):
        with suppress(ValueError):  # damaged: the machine finds where, and keeps what is before
            return built(data)
    machine = _Machine(data)
    try:
        return machine.run()
    except NotPlain:
        raise
    except (IndexError, KeyError, ValueError, TypeError, AttributeError, struct.error) as error:
        where = f"at byte {machine.at:,}"
        raise CutShort(f"cut off or damaged {where}", machine.closed()) from error


class _Machine:
    """The stack machine of pickle, without what reaches outside."""

    def __init__(self, data: bytes) -> None:
        self.at = 0
        self._data = data
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def run(self) -> Any:
        """Execute up to STOP; `at` is where it stopped."""
        try:
            return self._run()
        finally:
            self.at -= 1  # the opcode itself

    def _run(self) -> Any:  # one table of opcodes, the frequent ones of a dump first
        data, stack, memo, marks = self._data, self._stack, self._memo, self._marks
        push, uint4 = stack.append, _UINT4.unpack_from
        offset, end = 0, len(data)
        for _ in range(_MOST_STEPS):
            if offset >= end:
                self.at = offset + 1
                raise IndexError("no STOP")
            code = data[offset]
            offset += 1
            self.at = offset
            if code == 0x6A:  # j LONG_BINGET
                push(memo[uint4(data, offset)[0]])
                offset += 4
            elif code == 0x68:  # h BINGET
                push(memo[data[offset]])
                offset += 1
            elif code == 0x71:  # q BINPUT
                memo[data[offset]] = stack[-1]
                offset += 1
            elif code == 0x72:  # r LONG_BINPUT
                memo[uint4(data, offset)[0]] = stack[-1]
                offset += 4
            elif code == MARK:
                marks.append(len(stack))
            elif code == 0x75:  # u SETITEMS
                items = self.from_mark()
                stack[-1].update(_pairs(items))
            elif code == 0x7D:  # } EMPTY_DICT
                push({})
            elif code == 0x4B:  # K BININT1
                push(data[offset])
                offset += 1
            elif code == 0x4D:  # M BININT2
                push(data[offset] | data[offset + 1] << 8)
                offset += 2
            elif code == 0x58:  # X BINUNICODE
                start = offset + 4
                offset = start + uint4(data, offset)[0]
                push(_taken(data, start, offset - start).decode("utf-8", "replace"))
            elif code in _SIZE_OF:
                size = _SIZE_OF[code]
                length = int.from_bytes(_taken(data, offset, size), "little")
                raw = _taken(data, offset + size, length)
                offset += size + length
                push(raw.decode("utf-8", "replace") if code in _TEXT else raw)
            elif code == 0x4A:  # J BININT
                push(_INT4.unpack_from(data, offset)[0])
                offset += 4
            elif code == 0x8A:  # LONG1
                length = data[offset]
                if length > _LONGEST_NUMBER:
                    raise NotPlain(f"holds a number of {length} bytes")
                push(int.from_bytes(_taken(data, offset + 1, length), "little", signed=True))
                offset += 1 + length
            elif code in _OPERATIONS:
                _OPERATIONS[code](self)
            elif code == 0x47:  # G BINFLOAT
                push(_FLOAT8.unpack_from(data, offset)[0])
                offset += 8
            elif code == 0x80:  # PROTO
                offset += 1
            elif code == 0x95:  # FRAME: its length helps only who reads from a stream
                offset += 8
            elif code == 0x94:  # MEMOIZE
                memo[len(memo)] = stack[-1]
            elif code == STOP:
                return stack[-1]
            else:
                self._refuse(code, offset)
        raise NotPlain(f"takes more than {_MOST_STEPS:,} steps to build")

    def _refuse(self, code: int, offset: int) -> None:
        name = _REFUSED.get(code)
        if name is None:
            raise NotPlain(
                f"has the opcode {code:#x} at byte {offset - 1:,}, which no plain data needs"
            )
        wanted = ""
        if name in ("GLOBAL", "INST"):
            lines = self._data[offset : offset + _LONGEST_LINE].split(b"\n")[:2]
            wanted = b".".join(lines).decode("utf-8", "replace")
        elif name == "STACK_GLOBAL":
            names = [part for part in self._stack[-2:] if isinstance(part, str)]
            wanted = ".".join(names)[:_LONGEST_LINE]
        raise NotPlain(f"asks for {wanted or 'more than data'} ({name})")

    def from_mark(self) -> list[Any]:
        """Takes what lies above the last mark."""
        mark = self._marks.pop()
        taken = self._stack[mark:]
        del self._stack[mark:]
        return taken

    def push(self, value: Any) -> None:
        """Puts a value on the stack."""
        self._stack.append(value)

    def pop(self, number: int) -> list[Any]:
        """Takes the last values, in the order in which they came."""
        taken = self._stack[-number:]
        if len(taken) < number:
            raise IndexError("stack")
        del self._stack[-number:]
        return taken

    def top(self) -> Any:
        """The last value, left where it is."""
        return self._stack[-1]

    def closed(self) -> Any:
        """What was built so far, as if every container that is open ended here."""
        while self._marks:
            items = self.from_mark()
            if self._stack:
                _put(self._stack[-1], items)
        if len(self._stack) > 1:
            _put(self._stack[0], self._stack[1:])
        return self._stack[0] if self._stack else None


def _taken(data: bytes, offset: int, length: int) -> bytes:
    piece = data[offset : offset + length]
    if len(piece) < length:
        raise IndexError("end of data")
    return piece


def _put(container: Any, items: list[Any]) -> None:
    """Append items to a list, or key after value to a dict; an odd last key is dropped."""
    if isinstance(container, list):
        container.extend(items)
    elif isinstance(container, dict):
        pairs = zip(items[::2], items[1::2], strict=False)
        container.update((key, value) for key, value in pairs if isinstance(key, str | int))


def _pairs(items: list[Any]) -> Iterator[tuple[Any, Any]]:
    """Keys with their values; raises TypeError for keys that are no scalars."""
    keys = items[::2]
    if not _KEYS.issuperset(map(type, keys)):
        raise TypeError("key")
    return zip(keys, items[1::2], strict=True)


def _append_items(machine: _Machine) -> None:
    items = machine.from_mark()
    machine.top().extend(items)


def _set_item(machine: _Machine) -> None:
    pair = machine.pop(2)
    machine.top().update(_pairs(pair))


def _append_item(machine: _Machine) -> None:
    (value,) = machine.pop(1)
    machine.top().append(value)


def _make_dict(machine: _Machine) -> None:
    machine.push(dict(_pairs(machine.from_mark())))


_OPERATIONS: dict[int, Callable[[_Machine], object]] = {
    ord("N"): lambda m: m.push(None),
    0x88: lambda m: m.push(True),
    0x89: lambda m: m.push(False),
    ord("]"): lambda m: m.push([]),
    ord(")"): lambda m: m.push(()),
    ord("e"): _append_items,
    ord("s"): _set_item,
    ord("a"): _append_item,
    ord("d"): _make_dict,
    ord("l"): lambda m: m.push(m.from_mark()),
    ord("t"): lambda m: m.push(tuple(m.from_mark())),
    0x85: lambda m: m.push(tuple(m.pop(1))),
    0x86: lambda m: m.push(tuple(m.pop(2))),
    0x87: lambda m: m.push(tuple(m.pop(3))),
    ord("0"): lambda m: m.pop(1),
    ord("1"): lambda m: m.from_mark(),
    ord("2"): lambda m: m.push(m.top()),
}
