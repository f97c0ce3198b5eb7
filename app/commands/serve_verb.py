"""Serve the dashboard for a folder of runs, until Ctrl-C."""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from app import memory
from app.commands.keeping import add_keep_argument, keep_of
from app.settings import DEFAULT_HOST, DEFAULT_PORT, Settings, Token
from ingest.errors import UserError
from trace_hooks.agent_address import SERVER, TOKEN

_LOOK_EVERY_S = 1.0
TOKEN_VARIABLE = "RANKSCOPE_TOKEN"
JOB_TOKEN_VARIABLE = "RANKSCOPE_JOB_TOKEN"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `rankscope serve`."""
    add = parser.add_argument
    add("runs", type=Path, metavar="RUNS", help="a folder of runs, or one run")
    add("--host", default=DEFAULT_HOST, help="address to listen on (%(default)s)")
    add("--port", type=int, default=DEFAULT_PORT, help="port, 0: any free one (%(default)s)")
    add("--public-url", default="", metavar="URL", help="what people see behind a proxy")
    add("--base-path", default="", metavar="/PATH", help="prefix of a proxy, kept or stripped")
    what = "secret that opens the dashboard; ROLE: viewer, uploader, operator (operator); also "
    add("--token", action="append", default=[], metavar="[ROLE=]SECRET", help=what + TOKEN_VARIABLE)
    what = "secret that ranks of jobs connect with, else one is made; also "
    add("--job-token", default="", metavar="SECRET", help=what + JOB_TOKEN_VARIABLE)
    add_keep_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the URL and serve; 0 when stopped by Ctrl-C or SIGTERM. Raises UserError."""
    settings, generated = settings_of(arguments)
    keep = keep_of(arguments)
    from app.content_keeper import content_kept
    from app.hub import Hub  # after the checks: the server takes a second to import
    from app.serving import leave, running, take_port

    hub = Hub(arguments.runs, keep=keep)
    listener = take_port(settings)
    arguments.leave = leave
    with told_to_stop() as stop, content_kept(hub), running(hub, settings, listener) as server:
        port = listener.getsockname()[1]
        url = settings.url(port)
        print(url + (f"?token={quote(generated)}" if generated else ""), flush=True)
        if not _given_job_token(arguments):
            told = f"{SERVER}={settings.job_server(port)} {TOKEN}={settings.job_token}"
            print(f"live from jobs started with {told}", flush=True)
        memory.keep_what_is_loaded()
        while not stop.wait(_LOOK_EVERY_S):
            if not server.is_alive():
                raise UserError("the server has ended by itself; its output says why")
    return 0


def settings_of(arguments: argparse.Namespace) -> tuple[Settings, str]:
    """Settings, and the token that was made because none was given where one is needed."""
    generated = ""
    try:
        texts = [*arguments.token, *filter(None, [os.environ.get(TOKEN_VARIABLE)])]
        settings = Settings(
            arguments.host, arguments.port, arguments.public_url, arguments.base_path,
            tuple(Token.parse(text) for text in texts),
            _given_job_token(arguments) or secrets.token_urlsafe(24),
        )  # fmt: skip
        if not settings.is_local and not settings.tokens:
            generated = secrets.token_urlsafe(24)
            settings = replace(settings, tokens=(Token(generated),))
    except ValueError as error:
        raise UserError(str(error)) from error
    return settings, generated


def _given_job_token(arguments: argparse.Namespace) -> str:
    return arguments.job_token or os.environ.get(JOB_TOKEN_VARIABLE, "")


@contextmanager
def told_to_stop() -> Iterator[threading.Event]:
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
