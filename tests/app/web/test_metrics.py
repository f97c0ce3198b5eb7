"""The server's own metrics as Prometheus text."""

from __future__ import annotations

from app.web.metrics import Metrics, gauge, resident_bytes


def test_requests_are_counted_by_route_and_status() -> None:
    metrics = Metrics()
    for duration_s in (0.001, 0.02, 30.0):
        metrics.note("/api/runs", 200, duration_s)
    metrics.note("/api/runs", 400, 0.001)
    lines = metrics.lines()
    assert 'rankscope_requests_total{route="/api/runs",status="200"} 3' in lines
    assert 'rankscope_requests_total{route="/api/runs",status="400"} 1' in lines
    assert 'rankscope_request_seconds_bucket{route="/api/runs",le="0.005"} 2' in lines
    assert 'rankscope_request_seconds_bucket{route="/api/runs",le="+Inf"} 4' in lines
    assert 'rankscope_request_seconds_count{route="/api/runs"} 4' in lines


def test_sockets_are_counted_while_they_are_open() -> None:
    metrics = Metrics()
    with metrics.open_socket(), metrics.open_socket():
        assert metrics.sockets == 2
    assert metrics.sockets == 0


def test_a_gauge_is_described() -> None:
    assert gauge("runs_open", "Runs open", 3) == [
        "# HELP rankscope_runs_open Runs open",
        "# TYPE rankscope_runs_open gauge",
        "rankscope_runs_open 3",
    ]
    assert resident_bytes() > 1 << 20
