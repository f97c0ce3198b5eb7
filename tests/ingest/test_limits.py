"""Limits are environment variables; wrong ones are refused with a sentence."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ingest.errors import UserError
from ingest.limits import Limits, limits, variable


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    limits.cache_clear()
    yield
    limits.cache_clear()


def test_a_variable_sets_its_field(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable("max_ranks"), "7")
    assert limits() == Limits(max_ranks=7)


@pytest.mark.parametrize(("text", "message"), [("x", "whole number"), ("0", "must be 1 or more")])
def test_a_wrong_one_is_refused(monkeypatch: pytest.MonkeyPatch, text: str, message: str) -> None:
    monkeypatch.setenv(variable("max_files"), text)
    with pytest.raises(UserError, match=f"RANKSCOPE_MAX_FILES.*{message}"):
        limits()
