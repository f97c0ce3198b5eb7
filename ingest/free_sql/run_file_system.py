"""The only file system that SQL sees: the files of one run by name, to be read."""

from __future__ import annotations

import datetime
import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from fsspec.spec import AbstractFileSystem

SCHEME = "run"
_OPENED = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
"""Without waiting: opening a pipe in place of a file would wait for a writer."""


class RunFiles(AbstractFileSystem):  # type: ignore[misc]
    """`run://NAME` for every name of `files`; everything else does not exist, nothing is written.

    DuckDB calls it, so errors are those of the operating system; they name no path of the machine.
    """

    protocol = SCHEME
    cachable = False

    def __init__(self, files: Mapping[str, Path]) -> None:
        super().__init__()
        self._files = dict(files)

    def replace(self, files: Mapping[str, Path]) -> None:
        """Let these be read and no others."""
        self._files = dict(files)

    def _file(self, path: str) -> Path:
        file = self._files.get(path.removeprefix(f"{SCHEME}://"))
        if file is None:
            raise FileNotFoundError("there is no such file in this run")
        return file

    def _open(self, path: str, mode: str = "rb", **_: Any) -> BinaryIO:
        if mode != "rb":
            raise PermissionError("files of a run are only read here")
        try:
            number = os.open(self._file(path), _OPENED)
        except OSError as error:  # less the path of the machine
            raise OSError(error.errno, error.strerror or "it cannot be opened") from None
        if not stat.S_ISREG(os.fstat(number).st_mode):
            os.close(number)
            raise OSError(errno.EINVAL, "it is not a regular file")
        return os.fdopen(number, "rb", buffering=0)

    def open(self, path: str, mode: str = "rb", **_: Any) -> BinaryIO:
        """A file to read; raises FileNotFoundError, PermissionError."""
        return self._open(path, mode)

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Name, size and type of a file."""
        return {"name": path, "size": self._file(path).lstat().st_size, "type": "file"}

    def size(self, path: str) -> int:
        """Bytes of a file."""
        return self._file(path).lstat().st_size

    def modified(self, path: str) -> datetime.datetime:
        """When a file was last written."""
        written_s = self._file(path).lstat().st_mtime
        return datetime.datetime.fromtimestamp(written_s, datetime.UTC)

    def exists(self, path: str, **_: Any) -> bool:
        """Whether the run has such a file."""
        return path.removeprefix(f"{SCHEME}://") in self._files

    isfile = exists

    def isdir(self, path: str) -> bool:
        """Never: there are files only."""
        return False

    def glob(self, path: str, **_: Any) -> list[str]:
        """The file of exactly this name; patterns match nothing."""
        return [path] if self.exists(path) else []

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """Nothing: no folder can be listed."""
        return []
