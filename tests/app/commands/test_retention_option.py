"""--keep-content and its environment variable."""

from __future__ import annotations

import argparse

import pytest

from app.commands.retention_option import KEEP_VARIABLE, add_keep_argument, keep_of
from ingest.errors import UserError
from ingest.index.retention import FOREVER, Keep


def parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_keep_argument(parser)
    return parser.parse_args(arguments)


def test_the_option_comes_before_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEEP_VARIABLE, raising=False)
    assert keep_of(parsed()) == Keep.parse(FOREVER)
    monkeypatch.setenv(KEEP_VARIABLE, "20GB")
    assert keep_of(parsed()) == Keep.parse("20GB")
    assert keep_of(parsed("--keep-content", "30d")) == Keep.parse("30d")


def test_nonsense_is_a_sentence() -> None:
    with pytest.raises(UserError, match="soon"):
        keep_of(parsed("--keep-content", "soon"))
