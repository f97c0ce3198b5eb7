"""List the tokens and sessions of this user's dashboards, or revoke some, while they run."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict

from app.access.access_files import AccessFiles, ServedToken, Session, state_folder
from ingest.errors import UserError

_SHOWN = 12
"""Digits of a digest that are shown."""
_FEWEST = 6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `rankscope token`."""
    add = parser.add_argument
    add("action", choices=("list", "revoke"), help="what to do")
    add("ids", nargs="*", metavar="ID", help="ids of tokens or sessions, as in the list")
    add("--json", action="store_true", help="print the list as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the list, or the revoked ones; 0. Raises UserError."""
    try:
        files = AccessFiles(state_folder())
        if arguments.action == "revoke":
            _revoke(files, arguments.ids)
        elif arguments.ids:
            raise UserError("list takes no ID; give IDs to revoke")
        else:
            _list(files, arguments.json)
    except OSError as error:
        raise UserError(
            f"cannot access the files of this user's servers ({error}); set XDG_STATE_HOME to the "
            "folder that they use"
        ) from error
    return 0


def _list(files: AccessFiles, as_json: bool) -> None:
    tokens, sessions = files.tokens().values(), files.sessions().values()
    tokens_shown = sorted(tokens, key=lambda token: token.seen_s)
    if as_json:
        print(
            json.dumps(
                {
                    "tokens": [asdict(token) for token in tokens_shown],
                    "sessions": [
                        asdict(session) | {"ends_s": session.ends_s} for session in sessions
                    ],
                }
            )
        )
        return
    for token in tokens_shown:
        print(
            f"token {token.digest[:_SHOWN]}  {token.role}, last served at {token.url}, "
            f"seen {_time(token.seen_s)}"
        )
        _print_sessions([session for session in sessions if session.token == token.digest])
    known = {token.digest for token in tokens_shown}
    others = [session for session in sessions if session.token not in known]
    if others:
        print("sessions of tokens that are revoked, or that no server has used for 30 days")
        _print_sessions(others)
    if not tokens_shown and not others:
        print("No server of this user has used a token in the last 30 days.")


def _print_sessions(sessions: list[Session]) -> None:
    for session in sorted(sessions, key=lambda session: session.began_s):
        print(
            f"  session {session.digest[:_SHOWN]}  {_time(session.began_s)} to "
            f"{_time(session.ends_s)}"
        )


def _time(unix_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(unix_s))


def _revoke(files: AccessFiles, ids: list[str]) -> None:
    """Revoke all of them, or none if one is unknown."""
    if not ids:
        raise UserError("give the ID of a token or a session; `rankscope token list` shows them")
    for entry in [_entry(files, id_prefix) for id_prefix in ids]:
        if isinstance(entry, Session):
            files.remove(entry)
            print(f"session {entry.digest[:_SHOWN]} is revoked")
            continue
        files.revoke(entry.digest)
        sessions = [
            session for session in files.sessions().values() if session.token == entry.digest
        ]
        for session in sessions:
            files.remove(session)
        print(f"token {entry.digest[:_SHOWN]}{_with_sessions(len(sessions))} revoked")


def _with_sessions(number: int) -> str:
    if number == 0:
        return " is"
    return f" and its {number} sessions are" if number > 1 else " and its session are"


def _entry(files: AccessFiles, id_prefix: str) -> ServedToken | Session:
    """The only token or session whose digest begins with this; raises UserError."""
    entries = [*files.tokens().values(), *files.sessions().values()]
    matches = [entry for entry in entries if entry.digest.startswith(id_prefix)]
    if len(id_prefix) < _FEWEST or len(matches) != 1:
        raise UserError(
            f"there is no token or session {id_prefix!r}, or more than one; give an ID as "
            "`rankscope token list` shows it"
        )
    return matches[0]
