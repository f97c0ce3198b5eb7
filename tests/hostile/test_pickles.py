"""Pickles that ask for code: a canary proves that none of it runs."""

from __future__ import annotations

import os
import pickle  # noqa: TID251  # to make what must be refused
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from ingest.errors import UserError
from ingest.imports import import_paths
from ingest.readers.plain_pickle import CutShort, NotPlain, loads

WORDS = {"version": "2.9", "entries": [], "pg_config": {}, "pg_status": {}}


class Calls:
    """Unpickled by pickle itself, it writes the canary's file."""

    def __init__(self, canary: Path) -> None:
        self._canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self._canary}",)


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    return tmp_path / "canary"


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("place", ["first", "inside", "last"])
def test_a_pickle_that_calls_something_is_refused_unread(
    tmp_path: Path, canary: Path, protocol: int, place: str
) -> None:
    call = Calls(canary)
    data = {
        "first": {"x": call, **WORDS},
        "inside": {**WORDS, "entries": [{"record_id": call}]},
        "last": {**WORDS, "x": call},
    }[place]
    path = tmp_path / "_dump_0"
    path.write_bytes(pickle.dumps(data, protocol))
    with pytest.raises(UserError, match=r"asks for (posix|nt)\.system .*nothing of it was run"):
        import_paths([path], tmp_path / "runs")
    assert not canary.exists()
    pickle.loads(path.read_bytes())  # the canary sings where pickle itself reads it
    assert canary.exists()


OPCODES = {
    "GLOBAL": b"cos\nsystem\n", "INST": b"(S'x'\nios\nsystem\n", "REDUCE": b")R", "BUILD": b"}b",
    "NEWOBJ": b"))\x81", "PERSID": b"Pid\n", "BINPERSID": b"NQ", "EXT1": b"\x82\x01",
    "STACK_GLOBAL": b"\x8c\x02os\x8c\x06system\x93", "NEXT_BUFFER": b"\x97",
    "BYTEARRAY8": b"\x96" + struct.pack("<Q", 1 << 40), "OBJ": b"(o", "STRING": b"S'x'\n",
    "LONG4": b"\x8b" + struct.pack("<i", 1 << 30), "INT": b"I1\n",
}  # fmt: skip


@pytest.mark.parametrize("name", OPCODES)
def test_opcodes_that_are_no_plain_data(name: str) -> None:
    with pytest.raises(NotPlain, match=r"asks for|opcode"):
        loads(b"\x80\x04" + OPCODES[name] + b".")


CUT = {
    "nothing": b"", "only a protocol": b"\x80\x02", "no stop": b"\x80\x02N",
    "an empty stack": b"\x80\x02.", "a mark that is not there": b"\x80\x02]e.",
    "a memo that is not there": b"\x80\x02h\x05.",
    "a text of 2^60 bytes": b"\x80\x04\x8d" + struct.pack("<Q", 1 << 60) + b"x.",
    "items for a text": b"\x80\x02X\x01\0\0\0a(K\x01e.",
    "a list as key": b"\x80\x02}]Ns.", "pop of nothing": b"\x80\x020.",
    "a number cut": b"\x80\x02J\x01", "a tuple of too few": b"\x80\x02N\x87.",
}  # fmt: skip


@pytest.mark.parametrize("name", CUT)
def test_damage_is_said_and_nothing_else_raised(name: str) -> None:
    with pytest.raises(CutShort, match="cut off or damaged at byte"):
        loads(CUT[name])


def test_a_memo_with_a_huge_index_costs_no_memory() -> None:
    """Python's own unpickler allocates 2^33 bytes for it."""
    data = b"\x80\x02]r\xff\xff\xff\x7fj\xff\xff\xff\x7f."
    assert loads(data) == []


def test_nesting_has_no_limit_and_steps_have_one(monkeypatch: pytest.MonkeyPatch) -> None:
    deep = loads(b"\x80\x02" + b"]" * 10**6 + b"a" * (10**6 - 1) + b".")
    depth = 1
    while deep:
        (deep,) = deep
        depth += 1
    assert depth == 10**6
    assert depth > sys.getrecursionlimit()
    monkeypatch.setattr("ingest.readers.plain_pickle._MOST_STEPS", 100)
    with pytest.raises(NotPlain, match="takes more than 100 steps"):
        loads(b"\x80\x02]" + b"Na" * 99 + b".")


def test_lists_that_hold_themselves(tmp_path: Path) -> None:
    path = tmp_path / "_dump_0"
    endless: list[Any] = []
    endless.append(endless)
    many: Any = "x"
    for _ in range(200):  # 2^200 leaves for whoever walks it
        many = [many, many]
    path.write_bytes(pickle.dumps({**WORDS, "entries": [endless, {"state": many}, many]}, 4))
    folder = import_paths([path], tmp_path / "runs")
    assert "3 damaged entries left out" in (folder / "run.json").read_text()


def test_plain_data_is_what_pickle_makes_of_it() -> None:
    value: dict[object, object] = {
        "a": [1, -1, 255, 65536, 2**62, -(2**63), 1.5, None, True, False], "ü": ("x",) * 4,
        5: {"deep": [[], {}, ()]}, "again": ["long" * 99, "long" * 99],
    }  # fmt: skip
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        if protocol > 2:  # before, bytes are a call
            value["bytes"] = b"\0\xff" * 300
        assert loads(pickle.dumps(value, protocol)) == value
