"""What files hold as hashes, by which a run knows whether they were imported before."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

from ingest.cpu_count import num_cores
from ingest.errors import UserError

HASH_DIGITS = 12
_HASHED_AT_ONCE = 1 << 22
_LOOK_EVERY_S = 0.1


def content_hash(digests: Sequence[bytes]) -> str:
    """Hash of what files hold, whatever they are called and in whatever order they come."""
    return hashlib.sha256(b"".join(sorted(digests))).hexdigest()[:HASH_DIGITS]


def digests_of(files: Sequence[Path], watch: Callable[[], None]) -> list[bytes]:
    """blake2b of each file; `watch` is called ten times a second and may raise to end it.

    Raises UserError for a file that cannot be read.
    """
    stop = threading.Event()
    with ThreadPoolExecutor(num_cores()) as threads:
        try:
            digests = [threads.submit(_digest, path, stop) for path in files]
            while wait(digests, _LOOK_EVERY_S).not_done:
                watch()
            return [digest.result() for digest in digests]
        finally:
            stop.set()


def _digest(path: Path, stop: threading.Event) -> bytes:
    digest = hashlib.blake2b()
    try:
        with path.open("rb") as file:
            while not stop.is_set() and (piece := file.read(_HASHED_AT_ONCE)):
                digest.update(piece)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    return digest.digest()
