"""What an answer gives away that it must not: secrets, and what only this machine has."""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import duckdb
import pyarrow as pa

from tests.folders import REPO
from tests.hostile.free_sql.sql_target import Outcome
from tests.hostile.sql.stage import SECRETS

_OF_THE_MACHINE = (
    r"root:x:0:0",
    r"/nologin",
    r"/bin/(?:ba)?sh\b",
    r"\bPATH=/",
    r"\bHOME=/",
    r"\bPYTHONPATH=",
    r"\bVmRSS:",
    r"Linux version \d",
    r"\br-xp \d",
    r"/dist-packages/",
    r"/site-packages/",
    r"python3?\x00-",
)
"""In /etc/passwd, /proc/self/environ, status, maps, cmdline, and what names installed files."""
_LEAST_SETTINGS = 3
"""Names of settings in an answer that make it a list of settings."""


class Leaks:
    """Finds in outcomes what must not be there; a path that the statement names is an echo."""

    def __init__(self, paths: Iterable[str]) -> None:
        """`paths`: of folders that only this machine has."""
        paths = {*paths, sys.prefix, str(Path.home()), str(Path(duckdb.__file__).parent)}
        paths |= {str(REPO)}
        self._paths = [path.encode() for path in paths if len(path) > 4]
        hidden = [variant for secret in SECRETS.values() for variant in _variants(secret)]
        self._secrets = re.compile(b"|".join(map(re.escape, hidden)))
        plain = (re.escape(path) for path in self._paths)
        self._machine = re.compile(b"|".join([*(p.encode() for p in _OF_THE_MACHINE), *plain]))
        with duckdb.connect() as connection:
            names = connection.execute("SELECT name FROM duckdb_settings()").fetchall()
        long = [re.escape(name.encode()) for (name,) in names if len(name) > 11 and "_" in name]
        self._settings = re.compile(b"|".join(long))

    def found(self, statement: str, outcome: Outcome) -> list[str]:
        """What the outcome gives away, one word for each; [] nothing."""
        own_text = statement.encode(errors="replace")
        seen: dict[str, None] = {}
        settings: set[bytes] = set()
        for part in _parts(outcome):
            for match in self._secrets.finditer(part):
                seen[f"secret {match[0].decode()}"] = None
            for match in self._machine.finditer(part):
                if match[0] not in own_text:
                    seen[f"machine {match[0].decode()}"] = None
            settings |= {name for name in self._settings.findall(part) if name not in own_text}
        if outcome.kind == "rows" and len(settings) >= _LEAST_SETTINGS:
            seen["settings"] = None
        return list(seen)


def _variants(secret: str) -> Iterator[bytes]:
    """The secret, and as functions may write it."""
    plain = secret.encode()
    yield from (
        plain,
        plain[::-1],
        plain.upper(),
        plain.hex().encode(),
        plain.hex().upper().encode(),
    )
    yield base64.b64encode(plain)[:-4]


def _parts(outcome: Outcome) -> Iterator[bytes | memoryview]:
    yield outcome.message.encode(errors="replace")
    if outcome.table is not None:
        yield str(outcome.table.schema).encode(errors="replace")
        for column in outcome.table.columns:
            yield from _buffers(column.chunks)


def _buffers(arrays: Iterable[pa.Array]) -> Iterator[memoryview]:
    """The memory of the arrays: texts stand in it as they are, however nested."""
    for array in arrays:
        if isinstance(array, pa.DictionaryArray):
            yield from _buffers([array.dictionary])
        elif isinstance(array, pa.ExtensionArray):
            yield from _buffers([array.storage])
        else:
            yield from (memoryview(buffer) for buffer in array.buffers() if buffer is not None)
