"""The request to capture kernels, checked."""

from __future__ import annotations

from typing import Any

import pytest

from trace_hooks.protocol.capture_request import CaptureRequest, read_request


def test_a_request_and_back() -> None:
    assert read_request({"steps": 3}) == CaptureRequest(3, None)
    request = CaptureRequest(50, 7)
    assert read_request(request.to_json()) == request


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([3], "takes an object"),
        ({"steps": 3, "rank": 1}, "has no 'rank'"),
        ({}, "steps is None; give 1 to 50"),
        ({"steps": True}, "steps is True"),
        ({"steps": 51}, "steps is 51"),
        ({"steps": 3, "from": -1}, "from is -1"),
        ({"steps": 3, "from": 1.5}, "from is 1.5"),
    ],
)
def test_a_wrong_request_is_refused(value: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_request(value)
