"""Which versions of the schema this code reads."""

from __future__ import annotations

import pytest

from trace_hooks.schema import SCHEMA_MAJOR, SCHEMA_VERSION, check_version


@pytest.mark.parametrize("text", [SCHEMA_VERSION, f"{SCHEMA_MAJOR}.999", "0.1"])
def test_older_versions_and_other_minors_are_read(text: str) -> None:
    check_version(text, "run.json")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"{SCHEMA_MAJOR + 1}.0", "run.json: written with schema .*; upgrade rankscope"),
        ("", "is not a version; the file is damaged"),
        ("x.1", "is not a version"),
        ("-1.0", "is not a version"),
    ],
)
def test_others_are_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check_version(text, "run.json")
