"""From a watch of an operator to the frames of a model that trains, and what a job keeps back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection

from app.settings import Settings
from tests.app.live.test_frame_cache import next_frame
from tests.app.server.ranks import JOB_TOKEN, post, state
from tests.app.server.served import Served, served
from tests.forks import fork
from tests.trace_hooks.processes import environment
from tests.waiting import wait_until
from trace_hooks.protocol.frames import Frame

pytestmark = pytest.mark.torch
START_S = 60.0
TRAIN = """
import torch
import trace_hooks as th
from tests.trace_hooks.tiny_models import VOCABULARY, TinyGPT

torch.manual_seed(0)
model = TinyGPT(blocks=2)
tracer = th.start(run="job", model=model)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
while True:
    with tracer.step():
        tokens = torch.randint(VOCABULARY, (2, 12))
        model(tokens).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""
WATCHES = [
    {"id": "in", "what": "residual", "layers": [1], "bytes_per_s": 1 << 20},
    {"id": "w", "what": "weights", "layers": [0], "every": 50},
]


@contextmanager
def training(folder: Path, server: Served, **environ: str) -> Iterator[None]:
    script = folder / "train.py"
    script.write_text(TRAIN)
    given = environment(
        folder,
        TRACE_HOOKS_SERVER=f"ws://{server.address}",
        TRACE_HOOKS_TOKEN=JOB_TOKEN,
        TRACE_HOOKS_SOURCES="modules,optimizer,inspection",
        **environ,
    )
    job = fork(folder / "job", [str(script)], given, folder)
    try:
        wait_until(lambda: (state(server, "job").get("step") or 0) > 0, START_S)
        yield
    finally:
        job.process.kill()
        job.process.join()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    runs = tmp_path / "runs"
    runs.mkdir()
    with served(runs, Settings(port=0, job_token=JOB_TOKEN)) as running_one:
        yield running_one


def test_what_is_watched_is_seen(tmp_path: Path, server: Served) -> None:
    with training(tmp_path, server, TRACE_HOOKS_ALLOW_CONTENT="1"):
        status, answer = post(server, "job", {"watches": WATCHES})
        assert (status, answer["silent"]) == (200, [])
        assert [ack["ok"] for ack in answer["acks"]] == [True]
        with server.socket("/live/frames?run=job&watch=in") as opened:
            first, second = _next(opened, "residual"), _next(opened, "residual")
            assert _next(opened, "tokens").shape == (12, 1)
        assert (first.what, first.layer, first.attempt, first.rank) == ("residual", 1, 0, 0)
        assert first.values().shape == (12, 8)
        assert second.step > first.step
        with server.socket("/live/frames?run=job&what=weights") as opened:
            assert next_frame(opened).layer == 0
        wait_until(lambda: costs(server).get("in", {}).get("cost_ms_per_step", 0) > 0)

        status, answer = post(server, "job", {"watches": [{"what": "mlp", "layers": [99]}]})
        assert status == 200
        assert [ack["ok"] for ack in answer["acks"]] == [False]
        assert "layer" in answer["acks"][0]["text"]
        assert [watch["id"] for watch in answer["watches"]] == ["in", "w"]


def _next(opened: ClientConnection, what: str) -> Frame:
    while (frame := next_frame(opened)).what != what:
        pass
    return frame


def costs(server: Served) -> dict[str, Any]:
    answer: dict[str, Any] = state(server, "job")["costs"]
    return answer


def test_a_job_that_keeps_its_content_refuses_watches(tmp_path: Path, server: Served) -> None:
    with training(tmp_path, server):
        (rank,) = state(server, "job")["ranks"]
        assert rank["allow_content"] is False
        assert rank["what"]["layers"] == [0, 1]
        _, answer = post(server, "job", {"watches": WATCHES[:1]})
        assert [ack["ok"] for ack in answer["acks"]] == [False]
        assert "allow_content" in json.dumps(answer["acks"])
        assert answer["watches"] == []
