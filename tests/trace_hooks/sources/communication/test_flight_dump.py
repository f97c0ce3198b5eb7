"""Dumps of the Flight Recorder: only new entries are parsed."""

from __future__ import annotations

import json

import pytest

from tests.trace_hooks.sources.communication.one_rank import all_reduce
from trace_hooks.sources.communication import flight_dump

pytestmark = pytest.mark.usefixtures("one_rank")


def test_only_new_entries_of_a_dump_are_parsed() -> None:
    all_reduce(5)
    data = flight_dump.dump()
    everything = json.loads(data)["entries"]
    first = everything[-2]["record_id"]
    assert flight_dump.entries_from(data, 0) == everything
    assert flight_dump.entries_from(data, first) == everything[-2:]
    assert len(flight_dump._tail(data, first)) < len(data) / 2
    assert flight_dump.entries_from(data, first + 2) == []
    assert flight_dump.entries_from(b"", 0) == []


def test_a_dump_laid_out_otherwise_is_parsed_whole() -> None:
    entry = {"record_id": 3, "collective_seq_id": 1}
    data = json.dumps({"entries": [{"record_id": 2}, entry]}).encode().replace(b": ", b":")
    assert flight_dump.entries_from(data, 3) == [entry]
