"""/healthz and /metrics."""

from __future__ import annotations

import re

import pytest

from app.runs.hub import Hub
from app.server import make_app
from app.settings import Settings, Token
from tests.app.server.asgi import Client
from tests.app.server.guarded import SECRET


@pytest.fixture(scope="module")
def guarded(hub: Hub) -> Client:
    return Client(make_app(hub, settings=Settings(host="0.0.0.0", tokens=(Token(SECRET),))))


def test_health_names_no_runs_to_strangers(
    hub: Hub, client: Client, guarded: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = client.get("/healthz").json()
    assert content["status"] == "ok"
    assert content["num_runs_open"] == 1
    monkeypatch.setattr(hub, "problems", lambda: ["job: the disk is full"])
    content = guarded.get("/healthz").json()
    assert content["status"] == "degraded"
    assert content["num_problems"] == 1
    assert "problems" not in content
    known = guarded.get("/healthz", authorization=f"Bearer {SECRET}").json()
    assert known["problems"] == ["job: the disk is full"]


LINE = re.compile(r'rankscope_\w+(\{\w+="[^"]*"(,\w+="[^"]*")*\})? -?[\d.e+-]+')


def test_metrics_are_prometheus_text(client: Client) -> None:
    def count(text: str, series: str) -> float:
        match = re.search(rf"^{re.escape(series)} (.*)$", text, re.MULTILINE)
        return float(match[1]) if match else 0.0

    before = client.get("/metrics").text
    client.get("/healthz")
    client.get("/healthz", host="evil.example")
    client.get("/run/job/overview")
    after = client.get("/metrics").text
    for line in after.splitlines():
        assert line.startswith(("# HELP rankscope_", "# TYPE rankscope_")) or LINE.fullmatch(line)
    series = [line.split("{")[0].split(" ")[0] for line in after.splitlines() if line[0] != "#"]
    typed = {line.split()[2] for line in after.splitlines() if line.startswith("# TYPE")}
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in series} == typed

    for series_name, more in (
        ('rankscope_requests_total{route="/healthz",status="200"}', 1),
        ('rankscope_requests_total{route="refused",status="403"}', 1),
        ('rankscope_requests_total{route="pages",status="200"}', 1),
        ('rankscope_request_seconds_count{route="/healthz"}', 1),
        ('rankscope_request_seconds_bucket{route="/healthz",le="+Inf"}', 1),
        ("rankscope_runs_open", 0),
    ):
        assert count(after, series_name) == count(before, series_name) + more, series_name
    assert count(after, "rankscope_index_passes_total") >= 1
    assert count(after, "rankscope_resident_bytes") > 10e6
