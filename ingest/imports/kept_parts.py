"""What processes made of the files of an import, until it is put together.

For each file on disk there is a folder. Each process that reads the file, or members of it where it
is an archive, appends there what it made of them to a file of its own; a file for every member
would cost more than reading it. A file that ends in the middle of a part was written by a process
that was killed.
"""

from __future__ import annotations

import fcntl
import io
import os
import pickle  # noqa: TID251  # of our own processes only, see kept_parts
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ingest.imports.parts import Part

_ENDING = ".parts"
_HEADER = struct.Struct("<QQ")
"""Number of the member and bytes of its part."""
_OWN = ("ingest.imports.parts", "ingest.readers.", "trace_hooks.layout")
_PLAIN = frozenset(
    {
        ("array", "_array_reconstructor"),
        ("array", "array"),
        ("builtins", "int"),
        ("builtins", "list"),
        ("collections", "defaultdict"),
        ("numpy", "dtype"),
        ("numpy", "ndarray"),
        ("numpy._core.numeric", "_frombuffer"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("pathlib", "PosixPath"),
    }
)


class KeptParts:
    """Where one process keeps the parts of one file; a context manager."""

    def __init__(self, folder: Path) -> None:
        self._parts = os.open(
            folder / f"{os.getpid()}{_ENDING}", os.O_WRONLY | os.O_CREAT | os.O_APPEND
        )
        self._claims = os.open(folder / "claims", os.O_RDWR | os.O_CREAT)

    def __enter__(self) -> KeptParts:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._parts)
        os.close(self._claims)

    def claim(self, number: int) -> bool:
        """Whether no process had this member before, one that was killed included."""
        fcntl.flock(self._claims, fcntl.LOCK_EX)
        try:
            is_free = os.pread(self._claims, 1, number) in (b"", b"\0")
            if is_free:
                os.pwrite(self._claims, b"\1", number)
        finally:
            fcntl.flock(self._claims, fcntl.LOCK_UN)
        return is_free

    def keep(self, part: Part, number: int) -> None:
        """Put a part where `kept_parts` finds it; raises OSError."""
        content = pickle.dumps(part, protocol=pickle.HIGHEST_PROTOCOL)
        left = memoryview(_HEADER.pack(number, len(content)) + content)
        while left:
            left = left[os.write(self._parts, left) :]


class _OwnPickle(pickle.Unpickler):
    """Of what a process of this import kept; it admits what readers return."""

    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content))

    def find_class(self, module: str, name: str) -> Any:
        """A class of ours, or what arrays are made of; raises UnpicklingError for others."""
        if (module, name) in _PLAIN:
            return super().find_class(module, name)
        if module.startswith(_OWN) and "." not in name:
            value = super().find_class(module, name)
            if isinstance(value, type):
                return value
        raise pickle.UnpicklingError(f"{module}.{name} is nothing that a reader returns")


def kept_parts(folder: Path) -> Iterator[Part]:
    """Parts below `folder` in the order of files and members, one at a time in memory."""
    for of_file in sorted(path for path in folder.iterdir() if path.is_dir()):
        positions = sorted(
            (number, path, offset, num_bytes)
            for path in of_file.glob(f"*{_ENDING}")
            for number, offset, num_bytes in _index(path)
        )
        for _, path, offset, num_bytes in positions:
            with path.open("rb") as file:
                file.seek(offset)
                yield _part(file.read(num_bytes), path)


def _index(path: Path) -> Iterator[tuple[int, int, int]]:
    """Number, offset and size of every whole part in a file."""
    end, offset = path.stat().st_size, 0
    with path.open("rb") as file:
        while offset + _HEADER.size <= end:
            file.seek(offset)
            number, num_bytes = _HEADER.unpack(file.read(_HEADER.size))
            offset += _HEADER.size
            if offset + num_bytes > end:
                return
            yield number, offset, num_bytes
            offset += num_bytes


def _part(content: bytes, path: Path) -> Part:
    part = _OwnPickle(content).load()
    if not isinstance(part, Part):
        raise TypeError(f"{path} holds a {type(part).__name__}")
    return part
