"""Sessions of browsers and revoked tokens, as small files that outlive the server.

Each fact is a file of its own in a folder that only this user may open, so that the server and
`rankscope token` need no lock: `session-DIGEST` (JSON) while a session lasts, `token-DIGEST`
(JSON) while a server accepts a token, `revoked-DIGEST` forever. Names and contents hold SHA-256
digests; no secret is stored.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TypeVar

LONGEST_S = 30 * 86_400.0
"""A session ends this long after it began; a token's record, this long after it was last served."""
_SESSION, _TOKEN, _REVOKED = "session-", "token-", "revoked-"

Entry = TypeVar("Entry", "Session", "ServedToken")


@dataclass(frozen=True)
class Session:
    """A browser that is logged in: digests of its id and of its token; Unix seconds."""

    digest: str
    token: str
    began_s: float

    @property
    def ends_s(self) -> float:
        """When it ends."""
        return self.began_s + LONGEST_S


@dataclass(frozen=True)
class ServedToken:
    """A token that a server accepts: its digest and role, the server's address, Unix seconds."""

    digest: str
    role: str
    url: str
    seen_s: float

    @property
    def ends_s(self) -> float:
        """When it is no longer listed, unless a server records it again."""
        return self.seen_s + LONGEST_S


def digest_of(secret: str) -> str:
    """The digest that replaces a secret in files, session names and responses."""
    return hashlib.sha256(secret.encode(errors="surrogateescape")).hexdigest()


def state_folder() -> Path:
    """The folder of these files; raises OSError if the user has no home folder."""
    base = os.environ.get("XDG_STATE_HOME")
    try:
        return Path(base or Path.home() / ".local" / "state") / "rankscope" / "access"
    except RuntimeError as error:
        raise FileNotFoundError("no home folder; set XDG_STATE_HOME") from error


class AccessFiles:
    """The folder of those files; its methods raise OSError if it cannot be read or written.

    A file that is removed meanwhile, is damaged or belongs to another account grants no access. If
    reading fails in any other way (no free descriptor, a disk error), the methods raise OSError.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(self) -> None:
        """Make the folder, for this user alone."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        probe = self.folder / f".probe-{os.getpid()}"
        probe.touch(0o600)
        probe.unlink()

    def changed_ns(self) -> int:
        """When an entry was last added or removed, by the file system's clock; 0: no folder."""
        try:
            return self.folder.stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def sessions(self) -> dict[str, Session]:
        """Sessions that have not ended, by digest."""
        return {entry.digest: entry for entry in self._entries(_SESSION, Session)}

    def tokens(self) -> dict[str, ServedToken]:
        """Tokens that were served recently, by digest."""
        return {entry.digest: entry for entry in self._entries(_TOKEN, ServedToken)}

    def revoked(self) -> frozenset[str]:
        """Digests of the revoked tokens."""
        return frozenset(self._digests(_REVOKED))

    def add(self, entry: Session | ServedToken) -> None:
        """Write the entry's file."""
        kind = _SESSION if isinstance(entry, Session) else _TOKEN
        self._write(kind + entry.digest, json.dumps(asdict(entry)))

    def remove(self, session: Session) -> None:
        """End a session."""
        (self.folder / f"{_SESSION}{session.digest}").unlink(missing_ok=True)

    def revoke(self, token: str) -> None:
        """Refuse the token with this digest from now on."""
        self._write(f"{_REVOKED}{token}", "")
        (self.folder / f"{_TOKEN}{token}").unlink(missing_ok=True)

    def remove_ended(self) -> None:
        """Remove damaged files, ended sessions and tokens that no server uses any more."""
        for digest in self._digests(_SESSION):
            self._remove_if_ended(_SESSION, digest, Session)
        for digest in self._digests(_TOKEN):
            self._remove_if_ended(_TOKEN, digest, ServedToken)

    def _remove_if_ended(
        self, kind: str, digest: str, entry_type: type[Session | ServedToken]
    ) -> None:
        with suppress(OSError):  # a file that cannot be read now may be valid
            try:
                has_ended = self._read(kind, digest, entry_type).ends_s <= time.time()
            except ValueError:
                has_ended = True
            if has_ended:
                (self.folder / f"{kind}{digest}").unlink(missing_ok=True)

    def _digests(self, kind: str) -> list[str]:
        try:
            names = [path.name for path in self.folder.iterdir()]
        except FileNotFoundError:
            return []
        return sorted(name.removeprefix(kind) for name in names if name.startswith(kind))

    def _entries(self, kind: str, entry_type: type[Entry]) -> Iterator[Entry]:
        """The entries of this kind that have not ended."""
        now_s = time.time()
        for digest in self._digests(kind):
            with suppress(FileNotFoundError, PermissionError, ValueError):
                entry = self._read(kind, digest, entry_type)
                if entry.ends_s > now_s:
                    yield entry

    def _read(self, kind: str, digest: str, entry_type: type[Entry]) -> Entry:
        """Raises OSError, or ValueError if the file is damaged."""
        text = (self.folder / f"{kind}{digest}").read_text(encoding="utf-8")
        try:
            content = json.loads(text)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error
        if not _fits(content, entry_type) or content["digest"] != digest:
            raise ValueError("not an entry of this kind")
        return entry_type(**content)

    def _write(self, name: str, text: str) -> None:
        temporary = self.folder / f".{name}.{os.getpid()}.tmp"
        try:
            file = os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
            with os.fdopen(file, "w", encoding="utf-8") as opened:
                opened.write(text)
            temporary.replace(self.folder / name)
        finally:
            temporary.unlink(missing_ok=True)


def _fits(content: object, entry: type[Session | ServedToken]) -> bool:
    """Whether `content` has exactly these fields: seconds are numbers, all others strings."""
    names = {field.name for field in fields(entry)}
    return (
        isinstance(content, dict)
        and content.keys() == names
        and all(
            isinstance(value, (int, float) if name.endswith("_s") else str)
            for name, value in content.items()
        )
    )
