"""The real server on a loopback port: sockets, prefixes, tokens, and that it stops in time."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from app.serving import take_port
from app.settings import Settings, Token
from ingest.errors import UserError
from tests.app.server.served import WAIT_S, Served, ask, served
from tests.browser.support.proxy import Proxy
from tests.runs_builder import RunBuilder, two_rank_run
from tests.waiting import wait_until

SECRET = "correct-horse-battery"
PREFIX = "/user/me/proxy/8050"
ENDLESS = "SELECT count(*) FROM range(10000000) a, range(10000000) b"
JSON = "application/json"


def next_message(opened: ClientConnection) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(opened.recv(WAIT_S))
    return message


def test_a_foreign_page_opens_no_socket(server: Served) -> None:
    for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}):
        with pytest.raises(InvalidStatus) as refused, server.socket(additional_headers=headers):
            pass
        assert refused.value.response.status_code == 403
    rebound = {"headers": {"host": "evil.example"}}
    assert server.ask("/healthz", **rebound["headers"])[0] == 403


def endless_query(address: str) -> bytes:
    """A request for what takes longer than anybody waits."""
    body = json.dumps({"sql": ENDLESS})
    head = f"POST /api/run/job/query HTTP/1.1\r\nHost: {address}\r\nX-Rankscope: 1\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()


def test_a_connection_that_is_cut_ends_its_query(server: Served) -> None:
    before = num_given_up(server)
    with socket.create_connection(("127.0.0.1", server.port)) as raw:
        raw.sendall(endless_query(server.address))
        time.sleep(0.5)
    wait_until(lambda: num_given_up(server) == before + 1)


def num_given_up(server: Served) -> int:
    line = rb'rankscope_requests_total\{route="/api/run/\{run\}/query",status="499"\} (\d+)'
    counted = re.search(line, server.ask("/metrics")[1])
    return int(counted[1]) if counted else 0


@pytest.fixture(scope="module")
def prefixed(job: RunBuilder) -> Iterator[Served]:
    with served(job.folder.parent, Settings(port=0, base=PREFIX)) as running_one:
        yield running_one


def page_callback(dependencies: list[dict[str, Any]]) -> bytes:
    """What the browser asks for the page at an address."""
    match = next(
        dependency for dependency in dependencies if "page.children" in dependency["output"]
    )
    address = {"pathname": f"{PREFIX}/run/job/query", "search": ""}
    outputs = [one.split(".") for one in match["output"].strip(".").split("...")]

    def filled(wanted: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [one | {"value": address.get(one["property"])} for one in wanted]

    return json.dumps(
        {
            "output": match["output"],
            "outputs": [{"id": name, "property": what} for name, what in outputs],
            "inputs": filled(match["inputs"]),
            "state": filled(match["state"]),
            "changedPropIds": ["url.pathname"],
        }
    ).encode()


@pytest.mark.parametrize("strips", [True, False], ids=["strips", "keeps"])
def test_behind_a_proxy_with_a_prefix(prefixed: Served, strips: bool) -> None:
    with Proxy(PREFIX, prefixed.port, strips=strips) as proxy:
        address = urlsplit(proxy.url).netloc
        own = {"Origin": f"http://{address}"}
        status, page = ask(address, f"{PREFIX}/run/job/overview")
        assert status == 200
        for link in re.findall(r'(?:src|href)="([^"]+)"', page.decode()):
            assert link.startswith(f"{PREFIX}/")
            assert ask(address, link)[0] == 200
        assert ask(address, f"{PREFIX}/api/runs")[0] == 200
        path = f"{PREFIX}/_dash-update-component"
        answer = page_callback(json.loads(ask(address, f"{PREFIX}/_dash-dependencies")[1]))
        status, page = ask(address, path, "POST", answer, **own, **{"Content-Type": JSON})
        assert status == 200
        assert b'"page"' in page
        assert ask(address, path, "POST", b"{}", Origin="http://evil.example")[0] == 403
        url = f"ws://{address}{PREFIX}/api/live?run=job"
        with connect(url, additional_headers=own) as opened:
            assert next_message(opened)["run"] == "job"
        foreign = {"Origin": "http://evil.example"}
        with pytest.raises(InvalidStatus), connect(url, additional_headers=foreign):
            pass


def test_a_taken_port_is_a_sentence_or_the_next_one() -> None:
    with take_port(Settings(port=0)) as first:
        port = first.getsockname()[1]
        with pytest.raises(UserError, match=f"port {port} of 127.0.0.1 is taken; stop the program"):
            take_port(Settings(port=port))
        with take_port(Settings(port=port), or_next=True) as other:
            assert other.getsockname()[1] > port


def test_an_invalid_host_is_a_sentence() -> None:
    with pytest.raises(UserError, match="is not an address of this machine"):
        take_port(Settings(host="no.such.host.invalid"))
    with pytest.raises(UserError, match="cannot listen on"):
        take_port(Settings(host="192.0.2.1", port=0))


def test_tokens_on_sockets(job: RunBuilder) -> None:
    settings = Settings(port=0, tokens=(Token(SECRET),))
    with served(job.folder.parent, settings) as guarded:
        with pytest.raises(InvalidStatus) as refused, guarded.socket():
            pass
        assert refused.value.response.status_code == 401
        with guarded.socket(additional_headers={"Authorization": f"Bearer {SECRET}"}) as opened:
            assert next_message(opened)["run"] is None


# ---- the command


class Command:
    """`rankscope serve` in a process of its own."""

    def __init__(self, *arguments: str) -> None:
        code = "import sys; from app.cli import main; sys.exit(main())"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, "serve", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def url(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith(("http://", "https://")), self.process.communicate()
        return line.strip()

    def end(self, number: int) -> tuple[int, str, str]:
        """Exit code and what it still printed; fails where it goes on."""
        self.process.send_signal(number)
        printed, errors = self.process.communicate(timeout=WAIT_S)
        return self.process.returncode, printed, errors


@pytest.fixture
def command() -> Iterator[Callable[..., Command]]:
    with ExitStack() as started:

        def start(*arguments: str) -> Command:
            one = Command(*arguments)
            started.callback(one.process.communicate)
            started.callback(one.process.kill)
            return one

        yield start


def wait_for_first_index(address: str) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while True:
        with connect(f"ws://{address}/api/live?run=job") as one:
            try:
                next_message(one)
                return
            except ConnectionClosed:
                assert time.monotonic() < deadline_s


def drain(opened: ClientConnection) -> None:
    while True:
        opened.recv(WAIT_S)


def test_it_prints_how_to_start_jobs_where_it_has_made_their_token(
    command: Callable[..., Command], tmp_path: Path
) -> None:
    running_one = command(str(tmp_path), "--port", "0")
    address = urlsplit(running_one.url()).netloc
    assert running_one.process.stdout is not None
    printed = running_one.process.stdout.readline()
    assert re.fullmatch(
        f"watch jobs live by starting them with TRACE_HOOKS_SERVER=ws://{address} "
        r"TRACE_HOOKS_TOKEN=[\w-]{32}\n",
        printed,
    )


@pytest.mark.sampled
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_stops_whatever_is_under_way(
    command: Callable[..., Command], tmp_path: Path, number: int
) -> None:
    run = two_rank_run(tmp_path / "job")
    running_one = command(str(tmp_path), "--port", "0", "--job-token", SECRET)
    address = urlsplit(running_one.url()).netloc
    writing = threading.Event()

    def write() -> None:
        step = 3
        while not writing.wait(0.05):
            run.step(0, step, step * 100, step * 100 + 100)
            run.publish()
            step += 1

    writer = threading.Thread(target=write)
    writer.start()
    with ExitStack() as opened:
        opened.callback(writer.join)
        opened.callback(writing.set)
        wait_for_first_index(address)
        for _ in range(5):
            one = opened.enter_context(connect(f"ws://{address}/api/live?run=job"))
            next_message(one)
        for _ in range(2):
            raw = opened.enter_context(socket.create_connection(tuple(address.split(":"))))  # type: ignore[arg-type]
            raw.sendall(endless_query(address))
        time.sleep(0.5)
        code, printed, errors = running_one.end(number)
        with pytest.raises(ConnectionClosed):
            drain(one)
    assert (code, printed, errors) == (0, "", "")


def test_an_upload_under_way_is_kept_when_it_stops(
    command: Callable[..., Command], tmp_path: Path
) -> None:
    running_one = command(str(tmp_path), "--port", "0")
    address = urlsplit(running_one.url()).netloc
    tus = {"Tus-Resumable": "1.0.0"}
    listed = {"files": [{"name": "a.json", "size": 8 << 20}]}
    made = httpx.post(f"http://{address}/api/uploads", json=listed, headers=tus).json()
    with socket.create_connection(tuple(address.split(":"))) as raw:  # type: ignore[arg-type]
        raw.sendall(
            f"PATCH /api/uploads/{made['id']} HTTP/1.1\r\nHost: {address}\r\n"
            f"Content-Length: {8 << 20}\r\nTus-Resumable: 1.0.0\r\nUpload-Offset: 0\r\n"
            "Content-Type: application/offset+octet-stream\r\n\r\n".encode()
            + b"x" * (4 << 20)
        )
        written = tmp_path / f".uploads/up-{made['id']}/files/a.json"
        wait_until(lambda: written.is_file() and written.stat().st_size >= 3 << 20)
        code, _, errors = running_one.end(signal.SIGTERM)
    assert (code, errors) == (0, "")
    assert written.stat().st_size >= 3 << 20


def test_beyond_this_machine_it_makes_a_token(
    command: Callable[..., Command], tmp_path: Path
) -> None:
    running_one = command(str(tmp_path), "--port", "0", "--host", "0.0.0.0")
    url = urlsplit(running_one.url())
    address = f"127.0.0.1:{url.port}"
    assert len(url.query.removeprefix("token=")) >= 32
    for path in ("/", "/api/runs", "/metrics", "/_dash-layout"):
        assert ask(address, path)[0] == 401
    assert ask(address, f"/?{url.query}")[0] == 303
    bearer = {"Authorization": f"Bearer {url.query.removeprefix('token=')}"}
    assert ask(address, "/api/runs", **bearer)[0] == 200
    assert running_one.end(signal.SIGINT)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--port", "99999"], "--port is 99999; give 0"),
        (["--token", "short"], "a token needs 16 visible characters"),
        (["--job-token", "short"], "a token needs 16 visible characters"),
        (["--base-path", "/api"], "--base-path /api begins like a path of the dashboard"),
        (["--public-url", "hub"], "--public-url is 'hub'; give a whole URL"),
    ],
)
def test_wrong_arguments_are_sentences(
    arguments: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from app.cli import main

    assert main(["serve", str(tmp_path), *arguments]) == 2
    assert sentence in capsys.readouterr().err
