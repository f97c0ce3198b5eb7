"""A server without a run, whose imports run as they do for users."""

from __future__ import annotations

import pytest

from app.runs.hub import Hub
from app.server import make_app
from tests.app.in_process import Client


@pytest.fixture(autouse=True, scope="module")
def _read_here():
    """Other tests of the app read in the process of the test: these start processes."""


@pytest.fixture
def runs(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


@pytest.fixture
def hub(runs):
    hub = Hub(runs)
    yield hub
    hub.close()


@pytest.fixture
def client(hub):
    client = Client(make_app(hub))
    yield client
    client.close()
