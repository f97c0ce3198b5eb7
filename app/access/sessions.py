"""Sessions of this server and which of its tokens are revoked; safe for many threads."""

from __future__ import annotations

import hmac
import logging
import secrets
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from app.access.access_files import AccessFiles, ServedToken, Session, digest_of
from app.settings import Token

MOST_SESSIONS = 1_000
"""At most this many; beyond it, the oldest session of the token with the most sessions ends."""
LOOK_EVERY_S = 1.0
"""A revocation takes effect within this time."""
_NOTE_AGAIN_S = 86_400.0
_LOG = logging.getLogger(__name__)
_SETTLED_NS = 2_000_000_000
"""If a folder last changed at least this long before it was read, reading it missed nothing."""


def _crowd(sessions: Iterable[Session]) -> list[Session]:
    """The sessions beyond the limit: opening more does not end the sessions of other tokens."""
    by_token: dict[str, list[Session]] = defaultdict(list)
    for session in sorted(sessions, key=lambda session: -session.began_s):
        by_token[session.token].append(session)
    num_over = sum(map(len, by_token.values())) - MOST_SESSIONS
    return [max(by_token.values(), key=len).pop() for _ in range(num_over)]


class Sessions:
    """Without files, sessions last as long as the server and nothing is revoked from outside."""

    def __init__(self, files: AccessFiles | None = None) -> None:
        self._files = files
        self._lock = threading.Lock()
        self._sessions: dict[str, Session] = {}
        self._unsaved: dict[str, Session] = {}
        self._revoked: frozenset[str] = frozenset()
        self._num_opened = 0
        self._read_ns = (0, 0)
        self._is_failing = False
        self._try_refresh()

    def open(self, token: str) -> str:
        """Begin a session with the token of this digest; returns the id for the cookie."""
        secret = secrets.token_urlsafe(32)
        session = Session(digest_of(secret), token, time.time())
        try:
            if self._files is not None:
                self._files.add(session)
        except OSError:  # such as a full disk: the session lasts as long as the server
            with self._lock:
                self._unsaved[session.digest] = session
        with self._lock:
            self._num_opened += 1
            self._sessions[session.digest] = session
            crowd = _crowd(self._sessions.values())
        for oldest in crowd:
            self._end(oldest)
        return secret

    def find(self, secret: str) -> Session | None:
        """The session of a cookie; None if it is unknown, ended or revoked."""
        digest = digest_of(secret)
        with self._lock:
            session = self._sessions.get(digest)
        if session is None or not hmac.compare_digest(session.digest, digest):
            return None
        return session if self.is_valid(digest, session.token) else None

    def is_revoked(self, token: str) -> bool:
        """Whether the token of this digest is refused."""
        return token in self._revoked

    def is_valid(self, session: str, token: str) -> bool:
        """Whether a connection of this session, or of the token itself, may stay open."""
        if token in self._revoked:
            return False
        with self._lock:
            known = self._sessions.get(session)
        return session == token or (known is not None and known.ends_s > time.time())

    def refresh(self) -> None:
        """Read the files again if they changed; raises OSError and then keeps the last state."""
        if self._files is None:
            return
        changed_ns, now_ns = self._files.changed_ns(), time.time_ns()
        if changed_ns == self._read_ns[0] and changed_ns + _SETTLED_NS < self._read_ns[1]:
            return
        before = self._num_opened
        self._revoked = self._files.revoked()  # even if a session cannot be read
        sessions = self._files.sessions()
        with self._lock:
            if before == self._num_opened:  # else a session that was just opened would be missing
                self._sessions = sessions | self._unsaved
                self._read_ns = (changed_ns, now_ns)

    @contextmanager
    def followed(self, tokens: Sequence[Token], url: str) -> Iterator[None]:
        """Record the tokens for `rankscope token list` and read the files, while the block runs."""
        stopped = threading.Event()

        def follow() -> None:
            recorded_s = -_NOTE_AGAIN_S
            while True:
                if time.monotonic() - recorded_s >= _NOTE_AGAIN_S:
                    recorded_s = time.monotonic()
                    self._note(tokens, url)
                self._try_refresh()
                if stopped.wait(LOOK_EVERY_S):
                    return

        thread = threading.Thread(target=follow, name="sessions", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join()

    def _try_refresh(self) -> None:
        """Read the files; if that fails, log it once and try again next time."""
        try:
            self.refresh()
        except OSError as error:
            if not self._is_failing:
                _LOG.error(
                    "sessions cannot be read (%s); the sessions known so far stay valid", error
                )
            self._is_failing = True
        else:
            self._is_failing = False

    def _note(self, tokens: Sequence[Token], url: str) -> None:
        if self._files is not None:
            with suppress(OSError):  # such as a full disk: they are recorded again the next day
                self._files.remove_ended()
                for token in self._not_revoked(tokens):
                    served = ServedToken(digest_of(token.secret), token.role.name, url, time.time())
                    self._files.add(served)

    def _not_revoked(self, tokens: Sequence[Token]) -> list[Token]:
        return [token for token in tokens if not self.is_revoked(digest_of(token.secret))]

    def _end(self, session: Session) -> None:
        with self._lock:
            self._sessions.pop(session.digest, None)
            self._unsaved.pop(session.digest, None)
        if self._files is not None:
            with suppress(OSError):  # its lifetime ends it anyway
                self._files.remove(session)
