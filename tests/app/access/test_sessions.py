"""Sessions that the server knows: they end, can be revoked, and outlive a restart."""

from __future__ import annotations

import resource
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.access.access_files import LONGEST_S, AccessFiles, Session, digest_of
from app.access.auth import Guard
from app.access.sessions import MOST_SESSIONS, Sessions
from app.settings import Settings, Token
from app.web.caller import ANONYMOUS_SESSION, SESSION
from tests.app.server.asgi import Client
from tests.waiting import wait_until

SECRET = "correct-horse-battery"
VIEW = "only-to-look-at-it"
SETTINGS = Settings(tokens=(Token(SECRET), Token.parse(f"viewer={VIEW}")))


@pytest.fixture
def files(tmp_path: Path) -> AccessFiles:
    made = AccessFiles(tmp_path / "access")
    made.make()
    return made


async def show_session(request: Request) -> Response:
    return JSONResponse({"session": request.scope[SESSION]})


def client(settings: Settings, sessions: Sessions | None = None) -> Client:
    guard = Middleware(Guard, settings=settings, sessions=sessions)
    return Client(Starlette(routes=[Route("/{path:path}", show_session)], middleware=[guard]))


def logged_in(sessions: Sessions, secret: str = SECRET) -> Client:
    browser = client(SETTINGS, sessions)
    assert browser.get(f"/?token={secret}").status == 303
    assert browser.get("/api/runs").status == 200
    return browser


def test_each_browser_has_a_random_id_that_nobody_can_work_out(files: AccessFiles) -> None:
    sessions = Sessions(files)
    first, second = logged_in(sessions), logged_in(sessions)
    (one,), (other,) = first.cookies.values(), second.cookies.values()
    assert one != other
    assert len(one) >= 43
    session = first.get("/api/runs").json()["session"]
    assert session == digest_of(one)
    assert session != second.get("/api/runs").json()["session"]


def test_the_cookie_lasts_30_days_and_is_named_by_the_port_that_people_see() -> None:
    for host, name in (("127.0.0.1:9000", "rankscope_9000"), ("localhost", "rankscope_default")):
        answer = client(SETTINGS).get(f"/?token={SECRET}", host=host)
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith(f"{name}=")
        for part in (f"Max-Age={30 * 86_400}", "HttpOnly", "SameSite=strict", "Path=/"):
            assert part in cookie


def test_a_session_outlives_the_server_and_ends_after_30_days(files: AccessFiles) -> None:
    browser = logged_in(Sessions(files))
    browser.app = client(SETTINGS, Sessions(files)).app  # started again
    assert browser.get("/api/runs").status == 200
    (session,) = files.sessions().values()
    files.add(replace(session, began_s=session.began_s - LONGEST_S))
    browser.app = client(SETTINGS, Sessions(files)).app
    assert browser.get("/api/runs").status == 401


def test_a_session_is_good_for_servers_with_its_token_only(files: AccessFiles) -> None:
    browser = logged_in(Sessions(files))
    others = Settings(tokens=(Token(VIEW),))
    browser.app = client(others, Sessions(files)).app
    assert browser.get("/api/runs").status == 401


def test_a_revoked_session_or_token_opens_nothing_while_the_server_runs(files: AccessFiles) -> None:
    sessions = Sessions(files)
    first, second = logged_in(sessions), logged_in(sessions, VIEW)
    by_token = {session.token: session for session in files.sessions().values()}
    files.remove(by_token[digest_of(SECRET)])
    sessions.refresh()
    assert first.get("/api/runs").status == 401
    assert second.get("/api/runs").status == 200
    with sessions.followed(SETTINGS.tokens, "http://127.0.0.1:8050/"):
        wait_until(lambda: len(files.tokens()) == 2)
    files.revoke(digest_of(VIEW))
    sessions.refresh()
    assert second.get("/api/runs").status == 401
    assert second.get("/api/runs", authorization=f"Bearer {VIEW}").status == 401
    assert second.get(f"/?token={VIEW}").status == 401
    assert second.get("/api/runs", authorization=f"Bearer {SECRET}").status == 200


def test_no_secret_is_on_disk_and_nobody_else_can_read_it(files: AccessFiles) -> None:
    sessions = Sessions(files)
    browser = logged_in(sessions)
    with sessions.followed(SETTINGS.tokens, "http://127.0.0.1:8050/"):
        wait_until(lambda: len(files.tokens()) == 2)
    assert stat.S_IMODE(files.folder.stat().st_mode) == 0o700
    written = list(files.folder.iterdir())
    assert len(written) == 3
    for path in written:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        content = path.name + path.read_text(encoding="utf-8")
        assert not any(one in content for one in (SECRET, VIEW, *browser.cookies.values()))


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"digest": 1}', "\udc80", "9" * 5000, "[" * 100_000]
)
def test_a_damaged_file_opens_nothing_and_stops_nothing(files: AccessFiles, content: str) -> None:
    browser = logged_in(Sessions(files))
    (path,) = files.folder.iterdir()
    path.write_text(content, errors="surrogateescape", encoding="utf-8")
    browser.app = client(SETTINGS, Sessions(files)).app
    assert browser.get("/api/runs").status == 401
    assert client(SETTINGS, Sessions(files)).get(f"/?token={SECRET}").status == 303


def test_sessions_are_bounded_and_the_oldest_goes_first(files: AccessFiles) -> None:
    token = digest_of(SECRET)
    for number in range(MOST_SESSIONS):
        files.add(Session(f"{number:064x}", token, time.time() - MOST_SESSIONS + number))
    sessions = Sessions(files)
    secret = sessions.open(token)
    assert len(files.sessions()) == MOST_SESSIONS
    assert f"{0:064x}" not in files.sessions()
    assert sessions.find(secret) is not None


def test_without_a_place_for_files_a_session_lasts_as_long_as_the_server(
    files: AccessFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_entry: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "add", full)
    sessions = Sessions(files)
    browser = logged_in(sessions)
    sessions.refresh()
    assert browser.get("/api/runs").status == 200
    assert logged_in(Sessions()).get("/api/runs").status == 200


def test_without_tokens_a_cookie_that_opens_nothing_distinguishes_browsers() -> None:
    first, second, program = (client(Settings()) for _ in range(3))
    assert "set-cookie" not in program.get("/api/runs").headers
    assert program.get("/api/runs").json()["session"] == ANONYMOUS_SESSION
    mine = first.get("/").json()["session"]
    assert mine == first.get("/api/runs").json()["session"]
    assert mine == first.get("/run/a/overview").json()["session"]
    assert "set-cookie" not in first.get("/").headers
    assert len({mine, second.get("/").json()["session"], ANONYMOUS_SESSION}) == 3
    first.cookies = dict.fromkeys(first.cookies, "x" * 500)
    assert first.get("/api/runs").json()["session"] == ANONYMOUS_SESSION
    (value,) = second.cookies.values()
    guarded = client(SETTINGS)
    guarded.cookies = {"rankscope_8050": value}
    assert guarded.get("/api/runs").status == 401


def test_a_login_while_ended_sessions_are_removed_stays(files: AccessFiles) -> None:
    for number in range(200):
        files.add(Session(f"{number:064x}", digest_of(SECRET), time.time() - LONGEST_S - 1))
    removing = threading.Thread(target=lambda: [files.remove_ended() for _ in range(20)])
    removing.start()
    sessions, secrets = Sessions(files), []
    while removing.is_alive():
        secrets.append(sessions.open(digest_of(SECRET)))
        time.sleep(0.001)
    removing.join()
    assert files.sessions().keys() == {digest_of(secret) for secret in secrets}


def cannot_be_read(path: Path) -> None:
    """A link to itself stands for any file whose reading fails, as on a damaged disk."""
    path.unlink()
    path.symlink_to(path)


def test_what_cannot_be_read_is_neither_removed_nor_taken_for_ended(files: AccessFiles) -> None:
    sessions = Sessions(files)
    browser, other = logged_in(sessions), logged_in(sessions)
    first, second = (files.folder / f"session-{digest}" for digest in files.sessions())
    content = first.read_text(encoding="utf-8")
    cannot_be_read(first)
    for refused in (files.sessions, sessions.refresh):
        with pytest.raises(OSError, match="symbolic links"):
            refused()
    files.remove_ended()
    assert first.is_symlink()
    assert second.is_file()
    assert [one.get("/api/runs").status for one in (browser, other)] == [200, 200]
    first.unlink()
    first.write_text(content, encoding="utf-8")
    sessions.refresh()
    assert browser.get("/api/runs").status == 200


@contextmanager
def no_descriptors() -> Iterator[None]:
    """Nothing can be opened in this process, as where all its descriptors are in use."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_without_descriptors_sessions_stay_and_revoking_goes_on_afterwards(
    files: AccessFiles, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("app.access.sessions.LOOK_EVERY_S", 0.02)
    sessions = Sessions(files)
    browser, token = sessions.open(digest_of(SECRET)), digest_of(VIEW)
    files.revoke(token)
    with sessions.followed((), ""):
        while not sessions.is_revoked(token):
            time.sleep(0.01)
        files.add(Session("0" * 64, token, time.time()))  # the folder is read again
        with no_descriptors():
            time.sleep(0.5)
            assert sessions.find(browser) is not None
            assert sessions.is_revoked(token)
        files.revoke(digest_of(SECRET))
        deadline_s = time.monotonic() + 60
        while sessions.find(browser) is not None:
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
    assert caplog.text.count("cannot be read") == 1


def test_a_server_that_starts_without_descriptors_learns_the_sessions_later(
    files: AccessFiles,
) -> None:
    secret = Sessions(files).open(digest_of(SECRET))
    with no_descriptors():
        sessions = Sessions(files)
    assert sessions.find(secret) is None
    sessions.refresh()
    assert sessions.find(secret) is not None
