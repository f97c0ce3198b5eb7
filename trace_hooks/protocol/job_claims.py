"""How a rank proves to a server that it belongs to its run, and that its attempt is its own.

Rank 0 makes a secret with the run and shares it with the other ranks as it shares the run's name.
The run folder holds these files for it::

    job-secret          the secret, which restarts read again; for the job's user only
    job-secret.sha256   its digest, by which a server recognises ranks of the run
    attempts/ATTEMPT    the id of the start that took this number

The ranks write these where they share a disk with the server; elsewhere the server keeps the digest
of the first hello, and who took which attempt, in the folder that it serves.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISREG

VERSION = 2
"""Version of the messages between agent and server."""
SECRET_FILE = "job-secret"
DIGEST_FILE = "job-secret.sha256"
_WRITTEN_S = 1.0
_LONGEST_FILE = 4_096


def new_secret() -> str:
    """A random secret."""
    return secrets.token_urlsafe(32)


def new_start() -> str:
    """The id of one start of a job."""
    return secrets.token_hex(8)


def digest_of(secret: str) -> str:
    """Digest of a secret, for files that others may read."""
    return hashlib.sha256(f"rankscope run {secret}".encode()).hexdigest()


def attempt_file(folder: Path, attempt: int) -> Path:
    """File of a run folder that holds the id of the start that has this attempt."""
    return folder / "attempts" / f"{attempt:04d}"


def first_text(path: Path, text: str, mode: int = 0o666) -> str:
    """Write a text to a file unless it exists; return the file's text. Raises OSError.

    A second writer gets what the first one wrote. The file is written atomically, also where a
    write fails or the process is killed; one that stays empty counts as missing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    known = _text_of(path)
    if known:
        return known
    with _temporary(path, text, mode) as temporary:
        if known is not None:  # a crash left an empty file
            temporary.replace(path)
            return text
        try:
            os.link(temporary, path)
        except FileExistsError:  # on NFS also where our own link was made but the reply was lost
            return _text_of(path) or ""
        except OSError:
            return _first_without_links(path, text, mode)
    return text


def _first_without_links(path: Path, text: str, mode: int) -> str:
    """As first_text, where the file system has no hard links: a crash may leave an empty file."""
    try:
        _write_new(path, text, mode)
    except FileExistsError:
        return _text_of(path) or ""
    return text


def _text_of(path: Path) -> str | None:
    """The text of a file, '' where it stays empty for a second, None where there is no file."""
    until_s = time.monotonic() + _WRITTEN_S
    try:
        while not (text := read_line(path)) and time.monotonic() < until_s:
            time.sleep(0.02)
    except FileNotFoundError:
        return None
    return text


@contextmanager
def _temporary(path: Path, text: str, mode: int = 0o666) -> Iterator[Path]:
    """A temporary file next to `path` that holds a text; raises OSError."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        _write_new(temporary, text, mode)
        yield temporary
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _write_new(path: Path, text: str, mode: int) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(file, "w", encoding="utf-8") as opened:
            opened.write(text + "\n")
    except OSError:
        path.unlink(missing_ok=True)
        raise


def read_line(path: Path) -> str:
    """The only line of a small file; raises OSError, also for a link or a pipe."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not S_ISREG(os.fstat(file).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        return os.read(file, _LONGEST_FILE).decode("utf-8", "replace").strip()
    finally:
        os.close(file)


def run_secret(folder: Path) -> str:
    """The secret of the run in a folder, made by the first caller, with its digest next to it.

    Where the folder cannot be written or read, it is a new one, valid for this start alone.
    """
    secret = new_secret()
    with suppress(OSError):
        secret = first_text(folder / SECRET_FILE, secret, 0o600) or secret
        _publish_digest(folder, digest_of(secret))
    return secret


def _publish_digest(folder: Path, digest: str) -> None:
    """Write the digest: a job that can write the folder overrules what a server noted before."""
    path = folder / DIGEST_FILE
    with suppress(OSError):
        if read_line(path) == digest:
            return
    with _temporary(path, digest) as temporary:
        temporary.replace(path)
