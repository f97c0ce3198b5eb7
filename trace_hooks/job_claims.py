"""How a rank shows a server that it belongs to its run, and that its attempt is its own.

Rank 0 makes a secret with the run and shares it with the other ranks as it shares the run's name.
A run folder holds for it::

    job-secret          the secret, which restarts read again; for the job's user only
    job-secret.sha256   its digest, by which a server recognises ranks of the run
    attempts/ATTEMPT    the id of the start that took this number

The ranks write these where they share a disk with the server; elsewhere the server keeps the digest
of the first hello, and who took which attempt, in the folder that it serves.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from contextlib import suppress
from pathlib import Path

VERSION = 2
"""Of what passes between agent and server."""
SECRET_FILE = "job-secret"
DIGEST_FILE = "job-secret.sha256"
_WRITTEN_S = 1.0
_LONGEST_FILE = 4_096


def new_secret() -> str:
    """A secret that nobody guesses."""
    return secrets.token_urlsafe(32)


def new_start() -> str:
    """The id of one start of a job."""
    return secrets.token_hex(8)


def digest_of(secret: str) -> str:
    """What is kept of a secret where others may read it."""
    return hashlib.sha256(f"rankscope run {secret}".encode()).hexdigest()


def attempt_file(folder: Path, attempt: int) -> Path:
    """File of a run folder that holds the id of the start that has this attempt."""
    return folder / "attempts" / f"{attempt:04d}"


def first_text(path: Path, text: str, mode: int = 0o666) -> str:
    """The text of a file that only its first writer makes; raises OSError.

    Who comes second gets what the first one wrote, or '' where nothing was written within a second.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        return _text_of(path)
    with os.fdopen(file, "w", encoding="utf-8") as opened:
        opened.write(text + "\n")
    return text


def _text_of(path: Path) -> str:
    until_s = time.monotonic() + _WRITTEN_S
    while not (text := read_line(path)) and time.monotonic() < until_s:
        time.sleep(0.02)
    return text


def read_line(path: Path) -> str:
    """The only line of a small file; raises OSError."""
    with path.open("rb") as file:
        return file.read(_LONGEST_FILE).decode("utf-8", "replace").strip()


def run_secret(folder: Path) -> str:
    """The secret of the run in a folder, made by who asks first, with its digest next to it.

    Where the folder cannot be written or read, it is a new one that holds for this start alone.
    """
    secret = new_secret()
    with suppress(OSError):
        secret = first_text(folder / SECRET_FILE, secret, 0o600) or secret
        _publish_digest(folder, digest_of(secret))
    return secret


def _publish_digest(folder: Path, digest: str) -> None:
    """Whoever writes the run's folder decides who belongs to it, whatever a server noted before."""
    path = folder / DIGEST_FILE
    with suppress(OSError):
        if read_line(path) == digest:
            return
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_text(digest + "\n", encoding="utf-8")
    temporary.replace(path)
