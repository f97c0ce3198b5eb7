"""Pickles that ask for code: a canary proves that none of it runs."""

from __future__ import annotations

import os
import pickle  # noqa: TID251  # to make what must be refused
import pickletools
import random
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from ingest.errors import UserError
from ingest.imports.importer import import_paths
from ingest.readers.parsing.pickle_check import built, is_plain
from ingest.readers.parsing.plain_pickle import CutShort, NotPlain, loads
from tests.hostile.fuzz.mutations import mutated

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
    with pytest.raises(UserError, match=r"asks for (posix|nt)\.system .*nothing in it was run"):
        import_paths([path], tmp_path / "runs")
    assert not canary.exists()
    pickle.loads(path.read_bytes())  # the canary sings where pickle itself reads it
    assert canary.exists()


OPCODES = {
    "GLOBAL": b"cos\nsystem\n",
    "INST": b"(S'x'\nios\nsystem\n",
    "REDUCE": b")R",
    "BUILD": b"}b",
    "NEWOBJ": b"))\x81",
    "PERSID": b"Pid\n",
    "BINPERSID": b"NQ",
    "EXT1": b"\x82\x01",
    "STACK_GLOBAL": b"\x8c\x02os\x8c\x06system\x93",
    "NEXT_BUFFER": b"\x97",
    "BYTEARRAY8": b"\x96" + struct.pack("<Q", 1 << 40),
    "OBJ": b"(o",
    "STRING": b"S'x'\n",
    "LONG4": b"\x8b" + struct.pack("<i", 1 << 30),
    "INT": b"I1\n",
}


@pytest.mark.parametrize("name", OPCODES)
def test_opcodes_that_are_no_plain_data(name: str) -> None:
    data = b"\x80\x04" + OPCODES[name] + b"."
    assert not is_plain(data, len(data))
    with pytest.raises(NotPlain, match=r"asks for|opcode"):
        loads(data)


CUT = {
    "nothing": b"",
    "only a protocol": b"\x80\x02",
    "no stop": b"\x80\x02N",
    "an empty stack": b"\x80\x02.",
    "a mark that is not there": b"\x80\x02]e.",
    "a memo that is not there": b"\x80\x02h\x05.",
    "a text of 2^60 bytes": b"\x80\x04\x8d" + struct.pack("<Q", 1 << 60) + b"x.",
    "items for a text": b"\x80\x02X\x01\0\0\0a(K\x01e.",
    "a list as key": b"\x80\x02}]Ns.",
    "pop of nothing": b"\x80\x020.",
    "a number cut": b"\x80\x02J\x01",
    "a tuple of too few": b"\x80\x02N\x87.",
}


@pytest.mark.parametrize("name", CUT)
def test_damage_is_reported_and_nothing_else_raised(name: str) -> None:
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
    monkeypatch.setattr("ingest.readers.parsing.plain_pickle._MOST_STEPS", 100)
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
        "a": [1, -1, 255, 65536, 2**62, -(2**63), 1.5, None, True, False],
        "ü": ("x",) * 4,
        5: {"deep": [[], {}, ()]},
        "again": ["long" * 99, "long" * 99],
    }
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        if protocol > 2:  # before, bytes are a call
            value["bytes"] = b"\0\xff" * 300
        assert loads(pickle.dumps(value, protocol)) == value


BUILDING = {
    "PROTO",
    "MARK",
    "STOP",
    "NONE",
    "NEWTRUE",
    "NEWFALSE",
    "BININT",
    "BININT1",
    "BININT2",
    "LONG1",
    "BINFLOAT",
    "BINUNICODE",
    "EMPTY_LIST",
    "APPEND",
    "APPENDS",
    "EMPTY_TUPLE",
    "TUPLE",
    "TUPLE1",
    "TUPLE2",
    "TUPLE3",
    "EMPTY_DICT",
    "SETITEM",
    "SETITEMS",
    "BINGET",
    "LONG_BINGET",
    "BINPUT",
    "LONG_BINPUT",
}
"""What the C unpickler may be given: of these opcodes none reaches out of the pickle."""


def test_the_check_knows_no_opcode_that_reaches_out() -> None:
    """Whatever follows an opcode: one that is let through is among those that build."""
    rng = random.Random(5)
    known = {}
    for opcode in pickletools.opcodes:
        for _ in range(300):
            behind = bytes(rng.choice((0, 1, 2, 46, rng.randrange(256))) for _ in range(12))
            data = opcode.code.encode("latin-1") + behind + b"."
            if is_plain(data, len(data)):
                first = next(iter(pickletools.genops(data)))[0].name
                known[first] = data
    assert set(known) <= BUILDING
    assert len(known) >= len(BUILDING) - 6  # by chance not every one is followed by a whole pickle


def _honest() -> dict[str, Any]:
    frame = {"name": "a" * 30, "filename": "/home/ü/" + "x" * 300, "line": 70_000}
    entry = {
        "frames": [frame, frame],
        "process_group": ("0", "default_pg"),
        "sizes": [[1, -5], []],
        "ns": 1_751_410_836_000_000_000,
        "none": None,
        "is": [True, False],
        7: 1.5,
        "pair": (1, 2),
    }
    return {**WORDS, "entries": [{**entry, "record_id": number} for number in range(300)]}


def test_what_torch_writes_is_built_in_c() -> None:
    data = pickle.dumps(_honest(), 2)
    assert is_plain(data, len(data))
    assert built(data) == loads(data) == _honest()
    assert not is_plain(data, len(data) - 1)  # more steps than allowed, perhaps


def test_what_the_check_lets_through_holds_plain_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Built in C or by the machine, a damaged pickle gives the same, or its damage is reported."""
    honest = pickle.dumps(_honest(), 2)[:3000]
    small = pickle.dumps({"a": [1, ("x",), None], 5: {"b": 2.5}}, 2)
    rng = random.Random(11)
    results = []
    num_in_c = 0
    for _ in range(1500):
        data = mutated(rng.choice((small, honest)), [small, honest], rng)
        found: list[str] = []
        for most in (len(data), -1):
            monkeypatch.setattr(
                "ingest.readers.parsing.plain_pickle.is_plain",
                lambda data, _, most=most: is_plain(data, most),
            )
            try:
                found.append(repr(loads(data)))
            except (CutShort, NotPlain) as error:
                found.append(f"{type(error).__name__} {error}")
        num_in_c += is_plain(data, len(data))
        if found[0] != found[1]:
            results.append((data, found))
    assert num_in_c > 100
    # the machine forgives what C does not, never the other way round: then both are the machine
    assert results == []


def test_tuples_in_tuples_as_a_key_do_not_end_the_process() -> None:
    """Their hash is recursive: 200,000 of them are more than any stack holds."""
    for depth in (10_000, 200_000):
        data = b"\x80\x02})" + b"\x85" * depth + b"Ns."
        if is_plain(data, len(data)):
            assert len(loads(data)) == 1
        else:
            with pytest.raises(CutShort):
                loads(data)
