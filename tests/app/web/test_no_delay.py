"""Answers leave at once: no body waits on a kept connection for the header's acknowledgement."""

from __future__ import annotations

import http.client
import statistics
import time
from pathlib import Path

from app.serving import take_port
from app.settings import Settings
from tests.app.server.served import served
from tests.runs_builder import two_rank_run

DELAYED_ACK_S = 0.04


def test_small_answers_on_one_connection(tmp_path: Path) -> None:
    two_rank_run(tmp_path / "job")
    with served(tmp_path, Settings(port=0)) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        times_s = []
        for _ in range(30):
            begun_s = time.perf_counter()
            connection.request("GET", "/healthz")
            connection.getresponse().read()
            times_s.append(time.perf_counter() - begun_s)
        connection.close()
    assert statistics.quantiles(times_s, n=10)[0] < DELAYED_ACK_S / 2


def test_the_listener_names_its_protocol() -> None:
    with take_port(Settings(port=0)) as listener:
        assert listener.proto != 0
