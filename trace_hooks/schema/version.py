"""Version of the schema, and which other versions this code reads."""

from __future__ import annotations

from pathlib import Path

SCHEMA_MAJOR = 1
SCHEMA_MINOR = 9
SCHEMA_VERSION = f"{SCHEMA_MAJOR}.{SCHEMA_MINOR}"
VERSION_BYTES = SCHEMA_VERSION.encode()


def check_version(text: str, where: str | Path) -> None:
    """Raise ValueError when `text` ("major.minor") is not a version this code can read.

    Another minor is fine: it only adds tables, nullable columns and words (kinds of spans).
    """
    major = text.partition(".")[0]
    if not major.isdecimal():
        raise ValueError(f"{where}: schema version {text!r} is not a version; the file is damaged")
    if int(major) > SCHEMA_MAJOR:
        raise ValueError(
            f"{where}: written with schema {text}, this rankscope reads up to "
            f"{SCHEMA_VERSION}; upgrade rankscope to open it"
        )
