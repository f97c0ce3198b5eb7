"""rankscope serve: certificates, and warnings about what is not encrypted or cannot be stored."""

from __future__ import annotations

import json
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.sync.client import connect

from app.cli import main
from tests.app.commands.test_token import SECRET
from tests.app.server.served import WAIT_S, ask
from tests.app.server.test_serving import Command

TLS = Path(__file__).parent / "tls"
CERTIFICATE, KEY = TLS / "certificate.pem", TLS / "key.pem"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def test_it_warns_where_sessions_cannot_be_kept(tmp_path: Path, state: Path) -> None:
    state.write_text("not a folder")
    command = Command(str(tmp_path), "--port", "0", "--token", SECRET)
    address = urlsplit(command.url()).netloc
    assert ask(address, f"/?token={SECRET}")[0] == 303
    _, _, errors = command.end(15)
    assert "sessions end with this server" in errors
    assert "set XDG_STATE_HOME" in errors


def test_off_loopback_it_warns_that_nothing_is_encrypted(tmp_path: Path) -> None:
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
