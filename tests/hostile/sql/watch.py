"""Watches folders: what changed by the times and sizes of files, who was opened by inotify."""

from __future__ import annotations

import ctypes
import hashlib
import os
import struct
from collections.abc import Iterable
from pathlib import Path

_OPENED = 0x20
_EVENT = struct.Struct("iIII")
_Stat = tuple[int, int, int, int, int]


def files(folders: Iterable[Path]) -> dict[str, _Stat]:
    """Every entry below the folders with inode, mode, size and times; ctime can't be forged."""
    found: dict[str, _Stat] = {}
    left = [str(folder) for folder in folders]
    while left:
        folder = left.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError:  # removed, which its parent shows
            continue
        for entry in entries:
            stat = entry.stat(follow_symlinks=False)
            is_folder = entry.is_dir(follow_symlinks=False)
            times = (0, 0) if is_folder else (stat.st_mtime_ns, stat.st_ctime_ns)
            found[entry.path] = (
                stat.st_ino,
                stat.st_mode,
                0 if is_folder else stat.st_size,
                *times,
            )
            if is_folder:
                left.append(entry.path)
    return found


def content_hash(folders: Iterable[Path]) -> str:
    """Of names and contents of all files below the folders."""
    digest = hashlib.sha256()
    for path in sorted(path for folder in folders for path in folder.rglob("*") if path.is_file()):
        digest.update(str(path).encode() + path.read_bytes())
    return digest.hexdigest()


def differences(before: dict[str, _Stat], after: dict[str, _Stat]) -> list[str]:
    """What changed between two looks, one phrase each."""
    made = [f"made {path}" for path in sorted(after.keys() - before.keys())]
    gone = [f"removed {path}" for path in sorted(before.keys() - after.keys())]
    both = sorted(before.keys() & after.keys())
    return made + gone + [f"changed {path}" for path in both if before[path] != after[path]]


class Opens:
    """Who opens some files and folders, whether or not an answer shows it."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._queue = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._queue < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1 failed")
        self._names: dict[int, str] = {}
        for path in paths:
            number = self._libc.inotify_add_watch(self._queue, os.fsencode(path), _OPENED)
            if number < 0:
                raise OSError(ctypes.get_errno(), "inotify_add_watch failed", str(path))
            self._names[number] = str(path)

    def since(self) -> list[str]:
        """What was opened since the last call, each once."""
        seen: dict[str, None] = {}
        while True:
            try:
                events = os.read(self._queue, 1 << 16)
            except BlockingIOError:
                return list(seen)
            at = 0
            while at < len(events):
                number, _, _, length = _EVENT.unpack_from(events, at)
                name = events[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0")
                at += _EVENT.size + length
                path = self._names.get(number, "?")
                seen[f"{path}/{name.decode()}" if name else path] = None

    def close(self) -> None:
        """End the watch."""
        os.close(self._queue)
