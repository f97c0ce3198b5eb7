"""Files of one JSON object a line: bad lines cost themselves only."""

from __future__ import annotations

import io

import pytest

from ingest import limits as module
from ingest.limits import Limits
from ingest.readers.parsing import json_lines
from ingest.readers.parsing.json_lines import JsonLines, decoded, first_objects


def test_bad_lines_are_counted_and_named() -> None:
    text = b'{"a":1}\n\nno\n[2]\n{"b":NaN}\n{"c"\n{"d":\n{"a":2}'
    lines = JsonLines(io.BytesIO(text).read)
    values = list(lines)
    assert [list(value) for value in values] == [["a"], ["b"], ["a"]]
    assert lines.num_lines == 8
    assert lines.problems == ["4 bad lines left out (line 3, 4, 6, ...)"]


def test_a_line_without_end_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "limits", lambda: Limits(max_value_mib=1))
    lines = JsonLines(io.BytesIO(b'{"a":1}\n{"b":"' + b"x" * (4 * module.MIB)).read)
    assert list(lines) == [{"a": 1}]
    assert "line 2 is longer than RANKSCOPE_MAX_VALUE_MIB=1" in lines.problems[0]


def test_only_objects_count() -> None:
    assert decoded(b"[1]") is None
    assert decoded(b'{"a": "\xff"}') == {"a": "\ufffd"}
    assert first_objects(b'log\n{"a": 1}\n{"b"') == [{"a": 1}]
