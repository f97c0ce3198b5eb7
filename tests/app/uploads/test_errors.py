"""Errors of the disk as sentences for the uploader."""

from __future__ import annotations

import errno

import pytest

from app.uploads.errors import no_room


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (errno.ENOSPC, "is full; make room"),
        (errno.EDQUOT, "is full; make room"),
        (errno.EACCES, "check its permissions"),
    ],
)
def test_an_error_of_the_disk_says_what_to_do(number: int, sentence: str) -> None:
    error = no_room(OSError(number, "reason"))
    assert sentence in str(error)
    assert error.status == 507
