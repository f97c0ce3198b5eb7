"""In a real browser, a page of another site that tries everything gets nothing to run here."""

from __future__ import annotations

import html
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from app.settings import Settings, Token
from app.web.metrics import METRICS
from tests.app.server.served import Served, served
from tests.browser.support.other_site import OtherSite, other_site
from tests.runs_builder import two_rank_run

SECRET = "correct-horse-battery"
PATHS = (
    "/api/run/job/query?sql=select%2042",
    "/api/run/job/query.csv?sql=select%2042",
    "/api/runs",
    "/api/run/job/share",
    "/api/run/job/grid",
    "/api/watch?run=job",
    "/api/uploads",
    "/metrics",
    "/healthz",
    "/_dash-layout",
)
TIMEOUT_MS = 30_000


@pytest.fixture(scope="module")
def attacker() -> Iterator[OtherSite]:
    with other_site() as site:
        yield site


@pytest.fixture(scope="module", params=["no tokens", "tokens"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    runs = tmp_path_factory.mktemp("runs")
    two_rank_run(runs / "job")
    tokens = (Token(SECRET),) if request.param == "tokens" else ()
    with served(runs, Settings(port=0, tokens=tokens)) as running:
        running.hub.run("job")
        yield running


@pytest.fixture
def visitor(browser: Browser, server: Served) -> Iterator[BrowserContext]:
    """A browser that is logged in at the server."""
    context = browser.new_context()
    context.set_default_timeout(TIMEOUT_MS)
    page = context.new_page()
    page.goto(f"http://{server.address}/?token={SECRET}")
    page.wait_for_selector("#page:not(.loading)")
    page.wait_for_load_state("networkidle")
    assert page.evaluate("fetch('/api/runs').then((answer) => answer.status)") == 200
    page.close()
    yield context
    context.close()


def answered() -> dict[str, int]:
    """How many requests each route has answered that a page of another site may not ask."""
    return {
        f"{route} {status}": number
        for (route, status), number in METRICS.requests.items()
        if route.startswith(("/api", "/live", "/metrics", "/healthz", "_dash"))
    }


def settled() -> dict[str, int]:
    """The same, once it stands still: a request is counted after its answer was sent."""
    before = None
    while (now := answered()) != before:
        before = now
        time.sleep(0.2)
    return now


def embedding(origin: str) -> str:
    """A page that asks for all paths in all ways that leave it where it is."""
    parts = []
    for path in PATHS:
        url = html.escape(f"{origin}{path}")
        action, _, _ = url.partition("?")
        parts.append(
            f'<img src="{url}"><script src="{url}"></script><link rel="stylesheet" href="{url}">'
            f'<iframe src="{url}"></iframe><embed src="{url}"><object data="{url}"></object>'
            f'<link rel="prefetch" href="{url}"><video src="{url}"></video>'
            f'<link rel="prerender" href="{url}"><link rel="preload" as="fetch" href="{url}">'
            f'<iframe name="f{len(parts)}"></iframe><form action="{action}" target="f{len(parts)}">'
            f'<input name="sql" value="select 42"></form><form method="post" action="{url}" '
            f'target="f{len(parts)}" enctype="text/plain"><input name="{{}}" value="1"></form>'
        )
    script = f"""
    for (const form of document.forms) form.submit();
    const answers = [];
    for (const path of {list(PATHS)}) {{
        for (const options of [{{}}, {{mode: 'no-cors'}},
            {{mode: 'no-cors', method: 'POST', body: '{{}}'}},
            {{method: 'POST', headers: {{'X-Rankscope': '1'}}}}]) {{
            answers.push(fetch('{origin}' + path, {{credentials: 'include', ...options}}));
        }}
        navigator.sendBeacon('{origin}' + path, '{{}}');
    }}
    for (const path of ['/api/live?run=job', '/live/frames?run=job', '/agent']) {{
        answers.push(new Promise((opened, failed) => {{
            const socket = new WebSocket('{origin.replace("http", "ws")}' + path);
            socket.onopen = () => opened('opened');
            socket.onerror = () => failed('refused');
        }}));
    }}
    window.ended = Promise.allSettled(answers).then((all) => all.map((one) =>
        one.status === 'fulfilled' ? one.value.type ?? one.value : 'refused'));
    """
    return f"<!DOCTYPE html><body>{''.join(parts)}<script>{script}</script></body>"


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"], ids=["cross-site", "same-site"])
def test_nothing_that_another_page_embeds_or_fetches_is_answered(
    server: Served, visitor: BrowserContext, attacker: OtherSite, host: str
) -> None:
    before, sockets = settled(), METRICS.sockets
    attacker.pages["/embedding"] = embedding(f"http://{server.address}")
    page = visitor.new_page()
    page.goto(f"http://{host}:{attacker.port}/embedding")
    page.wait_for_load_state("networkidle")
    results = page.evaluate("window.ended")
    assert set(results) <= {"refused", "opaque"}  # opaque: sent, and not readable
    assert settled() == before
    assert METRICS.sockets <= sockets


def navigate(page: Page, attacker: OtherSite, kind: str, url: str) -> None:
    """Leave the attacker's page for the address, in one of the ways there are."""
    path, _, query = url.partition("?")
    name = query.partition("=")[0]
    field = f'<input name="{name}" value="x">' if name else ""
    attacker.pages["/leaving"] = {
        "link": f'<a id="go" href="{html.escape(url)}">look</a>',
        "window": f'<a id="go" onclick="location = \'{url}\'">look</a>',
        "get form": f'<form action="{path}">{field}<button id="go">look</button></form>',
        "post form": f'<form method="post" action="{html.escape(url)}"><button id="go"></form>',
        "refresh": f'<meta http-equiv="refresh" content="0;url={html.escape(url)}">',
    }[kind]
    with page.expect_navigation(url=f"{path}*"):
        page.goto(page.url.rpartition("/")[0] + "/leaving")
        if kind != "refresh":
            page.evaluate("document.getElementById('go').click()")


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"], ids=["cross-site", "same-site"])
def test_nothing_that_another_page_leads_to_runs(
    server: Served, visitor: BrowserContext, attacker: OtherSite, host: str
) -> None:
    before = settled()
    page = visitor.new_page()
    for kind in ("link", "window", "get form", "post form", "refresh"):
        for path in PATHS[:2]:
            page.goto(f"http://{host}:{attacker.port}/")
            navigate(page, attacker, kind, f"http://{server.address}{path}")
            assert "from a page of another site" in page.content()
    assert settled() == before


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"], ids=["cross-site", "same-site"])
def test_a_link_to_a_page_opens_it_with_the_session_and_without_the_parameter(
    server: Served, visitor: BrowserContext, attacker: OtherSite, host: str
) -> None:
    page = visitor.new_page()
    page.goto(f"http://{host}:{attacker.port}/")
    navigate(page, attacker, "link", f"http://{server.address}/run/job/overview?rank=1")
    page.wait_for_selector("#page:not(.loading)")
    assert page.url == f"http://{server.address}/run/job/overview?rank=1"
