"""Serve the dashboard for a folder of runs, until Ctrl-C."""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from app.access.access_files import AccessFiles, digest_of, state_folder
from app.commands.retention_option import add_keep_argument
from app.commands.served_runs import add_runs_arguments, served_hub
from app.settings import DEFAULT_HOST, DEFAULT_PORT, Settings, Token
from ingest.errors import UserError
from ingest.process_tuning import freeze_loaded
from trace_hooks.protocol.server_address import SERVER, TOKEN

_LOOK_EVERY_S = 1.0
TOKEN_VARIABLE = "RANKSCOPE_TOKEN"
JOB_TOKEN_VARIABLE = "RANKSCOPE_JOB_TOKEN"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `rankscope serve`."""
    add = parser.add_argument
    add_runs_arguments(parser)
    add("--host", default=DEFAULT_HOST, help="address to listen on (default: %(default)s)")
    what = "port, 0: any free one (default: %(default)s)"
    add("--port", type=int, default=DEFAULT_PORT, help=what)
    what = "address under which people reach the dashboard, if there is a proxy in front of it"
    add("--public-url", default="", metavar="URL", help=what)
    what = "path below which a proxy shows the dashboard; the proxy may remove it or not"
    add("--base-path", default="", metavar="/PATH", help=what)
    what = (
        "secret that opens the dashboard for a role: viewer, uploader or operator (default); also "
    )
    add("--token", action="append", default=[], metavar="[ROLE=]SECRET", help=what + TOKEN_VARIABLE)
    what = "secret with which ranks of jobs connect (default: a generated one); also "
    add("--job-token", default="", metavar="SECRET", help=what + JOB_TOKEN_VARIABLE)
    what = "proxy whose X-Forwarded-For the server trusts when it counts wrong tokens by address"
    add("--trusted-proxy", action="append", default=[], metavar="ADDRESS", help=what)
    add("--certfile", default="", metavar="FILE", help="certificate (PEM): the server speaks TLS")
    add(
        "--keyfile", default="", metavar="FILE", help="its key (PEM), unless --certfile contains it"
    )
    add_keep_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the URL and serve; 0 when stopped by Ctrl-C or SIGTERM. Raises UserError."""
    settings, generated = settings_of(arguments)
    files = access_files_of(settings)
    from app.runs.retention_thread import content_kept  # later: it takes a second to import
    from app.serving import leave, running, take_port

    with served_hub(arguments) as hub:
        if hub.read_only:  # where ranks would send files
            settings = replace(settings, job_token="")
        listener = take_port(settings)
        arguments.leave = leave
        with (
            stop_signals() as stop,
            content_kept(hub),
            running(hub, settings, listener, files) as server,
        ):
            port = listener.getsockname()[1]
            _announce(settings, port, generated, with_job_token=not _job_token_option(arguments))
            freeze_loaded()
            while not stop.wait(_LOOK_EVERY_S):
                if not server.is_alive():
                    raise UserError("the server has ended unexpectedly; the messages above say why")
    return 0


def _announce(settings: Settings, port: int, generated: str, with_job_token: bool) -> None:
    """Print the URL, with the generated token if there is one, and what is not protected."""
    from ingest.free_sql.kernel import missing_layers

    url = settings.url(port)
    print(url + (f"?token={quote(generated)}" if generated else ""), flush=True)
    if settings.job_token and with_job_token:
        variables = f"{SERVER}={settings.job_server(port)} {TOKEN}={settings.job_token}"
        print(f"watch jobs live by starting them with {variables}", flush=True)
    if not settings.is_local and not settings.is_encrypted:
        print(
            "the connection is not encrypted: anybody on the network path can read the token "
            "and all data; give --certfile and --keyfile, or use a tunnel",
            file=sys.stderr,
            flush=True,
        )
    if missing := missing_layers():
        print(
            f"this machine lacks {' and '.join(missing)}, which would confine SQL queries "
            "further; the other protections (docs/security.md) are in force",
            file=sys.stderr,
            flush=True,
        )


def settings_of(arguments: argparse.Namespace) -> tuple[Settings, str]:
    """Settings, and the generated token if one is needed and none was given."""
    generated = ""
    try:
        texts = [*arguments.token, *filter(None, [os.environ.get(TOKEN_VARIABLE)])]
        settings = Settings(
            arguments.host,
            arguments.port,
            arguments.public_url,
            arguments.base_path,
            tuple(Token.parse(text) for text in texts),
            _job_token_option(arguments) or secrets.token_urlsafe(24),
            tuple(arguments.trusted_proxy),
            arguments.certfile,
            arguments.keyfile,
        )
        if not settings.is_local and not settings.tokens:
            generated = secrets.token_urlsafe(24)
            settings = replace(settings, tokens=(Token(generated),))
    except ValueError as error:
        raise UserError(str(error)) from error
    return settings, generated


def access_files_of(settings: Settings) -> AccessFiles | None:
    """Files of the sessions, None without tokens; raises UserError for a revoked token.

    Prints a sentence if the files cannot be written.
    """
    if not settings.tokens:
        return None
    try:
        files = AccessFiles(state_folder())
        files.make()
    except OSError as error:
        print(
            f"the folder for sessions cannot be written ({error}): sessions end with this server, "
            "and `rankscope token` does not list it; set XDG_STATE_HOME to a writable folder",
            file=sys.stderr,
        )
        return None
    revoked = files.revoked()
    for token in settings.tokens:
        if digest_of(token.secret) in revoked:
            raise UserError(
                f"the token for the role {token.role.name} was revoked with `rankscope token "
                "revoke`; give another one"
            )
    return files


def _job_token_option(arguments: argparse.Namespace) -> str:
    return arguments.job_token or os.environ.get(JOB_TOKEN_VARIABLE, "")


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set; a second one ends the process at once."""
    stop = threading.Event()

    def handle(number: int, _frame: Any) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()

    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = [signal.signal(number, handle) for number in numbers]
    try:
        yield stop
    finally:
        for number, handler in zip(numbers, handlers, strict=True):
            signal.signal(number, handler)
