"""`rankscope serve` and `rankscope token` as people start them: tokens, TLS, revoking."""

from __future__ import annotations

import json
import re
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from app.access.access_files import AccessFiles, ServedToken, Session
from app.cli import main
from tests.app.server.served import WAIT_S, ask, logged_in
from tests.app.server.test_serving import Command, drain
from tests.runs_builder import two_rank_run
from tests.waiting import wait_until

TLS = Path(__file__).parent / "tls"
CERTIFICATE, KEY = TLS / "certificate.pem", TLS / "key.pem"
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
        wait_until(lambda headers=headers: ask(address, "/api/runs", **headers)[0] == 401)  # type: ignore[misc]
    for socket in sockets:
        with socket, pytest.raises(ConnectionClosed):
            drain(socket)
    assert ask(address, "/api/runs", Authorization=f"Bearer {SECRET}")[0] == 200


def test_a_session_is_revoked_alone(started: Command, capsys: pytest.CaptureFixture[str]) -> None:
    address = urlsplit(started.url()).netloc
    first, second = logged_in(address, SECRET), logged_in(address, SECRET)
    oldest, _ = sorted(listed(capsys)["sessions"], key=lambda session: session["began_s"])
    assert main(["token", "revoke", oldest["digest"][:12]]) == 0
    wait_until(lambda: ask(address, "/api/runs", **first)[0] == 401)
    assert ask(address, "/api/runs", **second)[0] == 200
    assert main(["token", "list"]) == 0
    printed = capsys.readouterr().out
    assert re.search(
        r"operator, last served at http://\S+, seen \d{4}-\d\d-\d\d \d\d:\d\d\n", printed
    )
    assert printed.count("  session ") == 1


def test_what_is_revoked_and_left_is_said_as_it_is(
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


def test_it_says_where_sessions_cannot_be_kept(tmp_path: Path, state: Path) -> None:
    state.write_text("not a folder")
    command = Command(str(tmp_path), "--port", "0", "--token", SECRET)
    address = urlsplit(command.url()).netloc
    assert ask(address, f"/?token={SECRET}")[0] == 303
    _, _, errors = command.end(15)
    assert "sessions end with this server" in errors
    assert "set XDG_STATE_HOME" in errors


# ---- listening beyond this machine


def test_off_loopback_it_says_that_nothing_is_encrypted(tmp_path: Path) -> None:
    command = Command(str(tmp_path), "--port", "0", "--host", "0.0.0.0")
    command.url()
    _, _, errors = command.end(15)
    assert errors.count("\n") == 1
    assert errors.startswith("the connection is not encrypted: ")


def test_with_a_certificate_it_speaks_tls(tmp_path: Path) -> None:
    arguments = ["--certfile", str(CERTIFICATE), "--keyfile", str(KEY), "--token", SECRET]
    command = Command(str(tmp_path), "--port", "0", "--host", "0.0.0.0", *arguments)
    url = urlsplit(command.url())
    assert url.scheme == "https"
    assert command.process.stdout is not None
    assert f"TRACE_HOOKS_SERVER=wss://{url.netloc} " in command.process.stdout.readline()
    address = f"127.0.0.1:{url.port}"
    trust = ssl.create_default_context(cafile=CERTIFICATE)
    with httpx.Client(base_url=f"https://{address}", verify=trust) as browser:
        cookie = browser.get(f"/?token={SECRET}").headers["set-cookie"]
        assert "Secure" in cookie
        assert browser.get("/api/runs", headers={"Origin": f"https://{address}"}).status_code == 200
        head = {"Cookie": cookie.partition(";")[0], "Origin": f"https://{address}"}
        with connect(f"wss://{address}/api/live", ssl=trust, additional_headers=head) as live:
            assert "version" in json.loads(live.recv(WAIT_S))
    assert command.end(15) == (0, "", "")


@pytest.mark.parametrize(
    ("certfile", "keyfile", "sentence"),
    [
        ("nope.pem", KEY, "--certfile nope.pem cannot be read (No such file"),
        (CERTIFICATE, "nope.pem", "--keyfile nope.pem cannot be read (No such file"),
        (TLS, KEY, "cannot be read (Is a directory)"),
        (CERTIFICATE, "", "cannot be used for TLS"),
        (KEY, CERTIFICATE, "cannot be used for TLS"),
        (CERTIFICATE, CERTIFICATE, "cannot be used for TLS"),
        (__file__, KEY, "cannot be used for TLS"),
        ("", KEY, "--keyfile is given without --certfile"),
    ],
)
def test_what_is_no_certificate_is_a_sentence(
    certfile: object,
    keyfile: object,
    sentence: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["--certfile", str(certfile), "--keyfile", str(keyfile)]
    assert main(["serve", str(tmp_path), "--port", "0", *arguments]) == 2
    assert sentence in capsys.readouterr().err


def test_a_key_with_a_password_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing waits for somebody to type it in."""
    arguments = ["--certfile", str(CERTIFICATE), "--keyfile", str(TLS / "locked_key.pem")]
    assert main(["serve", str(tmp_path), "--port", "0", *arguments]) == 2
    assert "a PEM certificate and its key, without a password" in capsys.readouterr().err


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
