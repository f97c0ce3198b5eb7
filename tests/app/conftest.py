"""Fixtures for all tests of the app; a module may define its own of the same name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.analysis import run_board
from app.runs.hub import Hub
from app.server import make_app
from app.settings import Settings
from ingest.imports.worker_command import HERE_VARIABLE
from tests.app.one_run import hub_of_one_run
from tests.app.server.asgi import Client
from tests.app.server.served import Served, served
from tests.runs_builder import RunBuilder, two_rank_run


@pytest.fixture(autouse=True, scope="module")
def _read_here() -> Iterator[None]:
    """Imports start no process: those have tests of their own, and take a second each to start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(HERE_VARIABLE, "1")
        yield


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A folder with one small run, `job`."""
    with hub_of_one_run(tmp_path_factory.mktemp("runs")) as hub:
        yield hub


@pytest.fixture(scope="module")
def client(hub: Hub) -> Client:
    """The whole app in process, without tokens."""
    return Client(make_app(hub, settings=Settings()))


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> RunBuilder:
    """A small run that a test may continue."""
    return two_rank_run(tmp_path_factory.mktemp("served") / "job")


@pytest.fixture(scope="module")
def server(job: RunBuilder) -> Iterator[Served]:
    """A server on a free port of this machine for that run."""
    with served(job.folder.parent, Settings(port=0)) as running:
        yield running


@pytest.fixture
def quick_board(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boards look often and judge nothing, which takes most of their time."""
    monkeypatch.setattr(run_board, "LOOK_EVERY_S", 0.05)
    monkeypatch.setattr(run_board.RunBoard, "_judge", lambda self, folder: None)
