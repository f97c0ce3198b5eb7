"""What the job logged of its steps."""

from __future__ import annotations

import json
import math
from contextlib import closing
from pathlib import Path

import pytest

from app.runs.hub import Hub
from app.server import make_app
from app.settings import Settings
from app.views.run.logged import logged, pooled
from ingest.run import open_run
from tests.app.server.asgi import Client
from tests.runs_builder import RunBuilder

LOSSES = [4.0, 3.0, 90.0, math.nan, 2.0]


def job(folder: Path, losses: list[float] = LOSSES) -> Path:
    """Two ranks that log the loss and one the learning rate."""
    builder = RunBuilder(folder, 2)
    for step, loss in enumerate(losses):
        for rank in range(2):
            values = {"loss": loss + rank} | ({"lr": 0.1 / (step + 1)} if rank == 0 else {})
            builder.step(rank, step, 100 * step, 100 * step + 90, **values)
    for rank in range(2):
        builder.step(rank, len(losses), 900, 990)
    builder.publish()
    return builder.folder


def test_a_spike_and_a_loss_that_is_no_number_are_said_and_drawn(tmp_path: Path) -> None:
    with open_run(job(tmp_path / "run")) as run:
        arrays, meta = pooled(logged(run, None), 2)
    said = meta["numbers"]["loss"]
    assert (said["step"], said["value"]) == (4, 2.5)
    assert (said["highest"], said["highest_step"]) == (90.5, 2)
    assert (said["num_bad"], said["first_bad"]) == (1, 3)
    assert arrays["loss_greatest"].tolist() == [90.5, 2.5]
    assert arrays["loss_bad"].tolist() == [0, 1]
    assert meta["numbers"]["lr"]["value"] == pytest.approx(0.02)
    assert "grad_norm" not in meta["numbers"]
    json.dumps(meta, allow_nan=False)


def test_a_loss_that_is_never_a_number(tmp_path: Path) -> None:
    with open_run(job(tmp_path / "run", [math.nan, math.inf])) as run:
        _, meta = pooled(logged(run, None), 400)
    assert meta["numbers"]["loss"] == {
        "step": 1,
        "value": None,
        "highest": None,
        "highest_step": None,
        "num_bad": 2,
        "first_bad": 0,
    }


def test_the_route_says_whether_a_job_that_logged_nothing_could(tmp_path: Path) -> None:
    job(tmp_path / "logs")
    RunBuilder(tmp_path / "silent", 1).rank_files()
    with closing(Hub(tmp_path)) as hub:
        client = Client(make_app(hub, settings=Settings()))
        found = client.get("/api/run/logs/logged?width=2")
        assert found.status == 200
        assert b'"num_bad":1' in found.body.replace(b" ", b"")
        silent = client.get("/api/run/silent/logged")
        assert b'"numbers":{}' in silent.body.replace(b" ", b"")
        assert b'"is_live":true' in silent.body.replace(b" ", b"")
        assert client.get("/api/run/logs/logged?attempt=x").status == 400
