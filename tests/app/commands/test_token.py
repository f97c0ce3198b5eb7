"""`rankscope serve` and `rankscope token` as people start them: tokens, TLS, revoking."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from functools import partial
from http.client import RemoteDisconnected
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from app.access.access_files import AccessFiles, ServedToken, Session
from app.cli import main
from tests.app.server.served import ask, logged_in
from tests.app.server.test_serving import Command, drain
from tests.runs_builder import two_rank_run
from tests.waiting import wait_until

SECRET, VIEW = "correct-horse-battery", "only-to-look-at-it"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Command]:
    two_rank_run(tmp_path / "runs" / "job")
    tokens = ["--token", SECRET, "--token", f"viewer={VIEW}"]
    command = Command(str(tmp_path / "runs"), "--port", "0", *tokens)
    try:
        yield command
    finally:
        command.process.kill()
        command.process.communicate()


def listed(capsys: pytest.CaptureFixture[str]) -> dict[str, list[dict[str, str]]]:
    assert main(["token", "list", "--json"]) == 0
    output: dict[str, list[dict[str, str]]] = json.loads(capsys.readouterr().out)
    return output


def test_a_token_is_revoked_while_the_server_runs_with_all_it_opened(
    started: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    address = urlsplit(started.url()).netloc
    bearer, cookie = {"Authorization": f"Bearer {VIEW}"}, logged_in(address, VIEW)
    sockets = [
        connect(f"ws://{address}/api/live?run=job", additional_headers=headers)
        for headers in (bearer, cookie)
    ]
    wait_until(lambda: len(listed(capsys)["tokens"]) == 2)
    roles = {token["role"]: token["digest"] for token in listed(capsys)["tokens"]}
    assert set(roles) == {"operator", "viewer"}
    assert main(["token", "revoke", roles["viewer"][:12]]) == 0
    assert f"token {roles['viewer'][:12]} and its session are revoked\n" == capsys.readouterr().out
    for headers in (bearer, cookie):
        wait_until(partial(is_refused, address, **headers))
    for socket in sockets:
        with socket, pytest.raises(ConnectionClosed):
            drain(socket)
    assert ask(address, "/api/runs", Authorization=f"Bearer {SECRET}")[0] == 200


def is_refused(address: str, **headers: str) -> bool:
    """Whether a request is; one that comes while the session ends may be cut off."""
    try:
        return ask(address, "/api/runs", **headers)[0] == 401
    except RemoteDisconnected:
        return False


def test_a_session_is_revoked_alone(started: Command, capsys: pytest.CaptureFixture[str]) -> None:
    address = urlsplit(started.url()).netloc
    first, second = logged_in(address, SECRET), logged_in(address, SECRET)
    oldest, _ = sorted(listed(capsys)["sessions"], key=lambda session: session["began_s"])
    assert main(["token", "revoke", oldest["digest"][:12]]) == 0
    wait_until(partial(is_refused, address, **first))
    assert ask(address, "/api/runs", **second)[0] == 200
    assert main(["token", "list"]) == 0
    printed = capsys.readouterr().out
    assert re.search(
        r"operator, last served at http://\S+, seen \d{4}-\d\d-\d\d \d\d:\d\d\n", printed
    )
    assert printed.count("  session ") == 1


def test_the_output_names_what_is_revoked_and_what_is_left(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files, now_s = AccessFiles(state / "rankscope" / "access"), time.time()
    files.make()
    for token, num_sessions in (("a" * 64, 0), ("b" * 64, 2)):
        files.add(ServedToken(token, "viewer", "http://127.0.0.1:1/", now_s))
        for number in range(num_sessions):
            files.add(Session(f"{number}{token[1:]}", token, now_s))
    files.add(Session("c" * 64, "d" * 64, now_s))  # one that began just as its token was revoked
    assert main(["token", "list"]) == 0
    assert "of tokens that are revoked, or that no server has" in capsys.readouterr().out
    assert main(["token", "revoke", "a" * 12, "b" * 12]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed == [
        "token aaaaaaaaaaaa is revoked",
        "token bbbbbbbbbbbb and its 2 sessions are revoked",
    ]


def test_a_revoked_token_starts_no_server_again(
    started: Command, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    started.url()
    wait_until(lambda: len(listed(capsys)["tokens"]) == 2)
    for token in listed(capsys)["tokens"]:
        assert main(["token", "revoke", token["digest"]]) == 0
    assert main(["serve", str(tmp_path / "runs"), "--port", "0", "--token", SECRET]) == 2
    assert "was revoked with `rankscope token revoke`" in capsys.readouterr().err
    assert main(["token", "list"]) == 0
    assert "No server of this user has used a token" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["revoke"], "give the ID of a token or a session"),
        (["revoke", "a"], "there is no token or session 'a', or more than one"),
        (["revoke", "0" * 12], "there is no token or session '000000000000'"),
        (["list", "abc"], "list takes no ID"),
    ],
)
def test_wrong_arguments_of_token_are_sentences(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["token", *arguments]) == 2
    assert sentence in capsys.readouterr().err


# ---- listening beyond this machine


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["--public-url", "https://hub.example.org/x"],
            "names hub.example.org, which others reach",
        ),
        (["--public-url", "https://hub.example.org", "--host", "0.0.0.0"], "there is no token"),
        (["--token", "15-characters--"], "a token needs 16 visible characters or more"),
        (["--job-token", "15-characters--"], "a token needs 16 visible characters or more"),
        (["--trusted-proxy", "proxy.example"], "give an address or a network such as 10.0.0.0/24"),
    ],
)
def test_what_would_let_strangers_in_is_refused(
    arguments: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", str(tmp_path), "--port", "0", *arguments]) == 2
    assert sentence in capsys.readouterr().err
