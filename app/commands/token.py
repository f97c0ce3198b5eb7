"""List the tokens and sessions of this user's dashboards, or revoke some, while they are served."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict

from app.access.access_files import AccessFiles, ServedToken, Session, state_folder
from ingest.errors import UserError

_SHOWN = 12
"""Digits of a digest that stand for it."""
_FEWEST = 6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `rankscope token`."""
    add = parser.add_argument
    add("action", choices=("list", "revoke"), help="what to do")
    add("ids", nargs="*", metavar="ID", help="of tokens or sessions, as the list shows them")
    add("--json", action="store_true", help="print the list as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the list, or what was revoked; 0. Raises UserError."""
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
            f"what this user's servers know cannot be changed ({error}); set XDG_STATE_HOME to the "
            "folder that they use"
        ) from error
    return 0


def _list(files: AccessFiles, as_json: bool) -> None:
    tokens, sessions = files.tokens().values(), files.sessions().values()
    tokens_shown = sorted(tokens, key=lambda one: one.seen_s)
    if as_json:
        print(
            json.dumps(
                {
                    "tokens": [asdict(token) for token in tokens_shown],
                    "sessions": [asdict(one) | {"ends_s": one.ends_s} for one in sessions],
                }
            )
        )
        return
    for token in tokens_shown:
        print(
            f"token {token.digest[:_SHOWN]}  {token.role}, last served at {token.url}, "
            f"seen {_time(token.seen_s)}"
        )
        _print_sessions([one for one in sessions if one.token == token.digest])
    known = {token.digest for token in tokens_shown}
    others = [one for one in sessions if one.token not in known]
    if others:
        print("of tokens that are revoked, or that no server has taken for 30 days")
        _print_sessions(others)
    if not tokens_shown and not others:
        print("No server of this user has taken a token in the last 30 days.")


def _print_sessions(sessions: list[Session]) -> None:
    for session in sorted(sessions, key=lambda one: one.began_s):
        print(
            f"  session {session.digest[:_SHOWN]}  {_time(session.began_s)} to "
            f"{_time(session.ends_s)}"
        )


def _time(unix_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(unix_s))


def _revoke(files: AccessFiles, ids: list[str]) -> None:
    """All of them, or none where one is not known."""
    if not ids:
        raise UserError("give the ID of a token or a session; `rankscope token list` shows them")
    for entry in [_entry(files, id_prefix) for id_prefix in ids]:
        if isinstance(entry, Session):
            files.remove(entry)
            print(f"session {entry.digest[:_SHOWN]} is revoked")
            continue
        files.revoke(entry.digest)
        sessions = [one for one in files.sessions().values() if one.token == entry.digest]
        for session in sessions:
            files.remove(session)
        print(f"token {entry.digest[:_SHOWN]}{_with_sessions(len(sessions))} revoked")


def _with_sessions(number: int) -> str:
    if number == 0:
        return " is"
    return f" and its {number} sessions are" if number > 1 else " and its session are"


def _entry(files: AccessFiles, id_prefix: str) -> ServedToken | Session:
    """The one token or session whose digest begins so; raises UserError."""
    entries = [*files.tokens().values(), *files.sessions().values()]
    matches = [entry for entry in entries if entry.digest.startswith(id_prefix)]
    if len(id_prefix) < _FEWEST or len(matches) != 1:
        raise UserError(
            f"there is no token or session {id_prefix!r}, or more than one; give an ID as "
            "`rankscope token list` shows it"
        )
    return matches[0]
