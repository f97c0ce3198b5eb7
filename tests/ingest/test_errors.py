"""Errors of the user: one clean sentence, with a remedy."""

from __future__ import annotations

import errno

import pytest

from ingest.errors import DiskFull, UserError, disk_error


def test_a_sentence_holds_no_control_characters() -> None:
    text = str(UserError("a\x1b[2Jb\nc"))
    assert text.isprintable()
    assert "a" in text


@pytest.mark.parametrize(
    ("code", "kind", "remedy"),
    [
        (errno.ENOSPC, DiskFull, "make room there"),
        (errno.EDQUOT, DiskFull, "make room there"),
        (errno.EACCES, UserError, "check its permissions, or give another folder"),
    ],
)
def test_an_error_of_the_disk_has_its_remedy(code: int, kind: type, remedy: str) -> None:
    error = disk_error("runs", OSError(code, "why"))
    assert type(error) is kind
    assert str(error) == f"runs cannot be written (why); {remedy}"
