"""What takes long rests between two makings, and nobody is left with an old answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.runs import refresh_policy
from app.runs.hub import Hub
from ingest.errors import UserError
from ingest.run import Run
from ingest.stopping import Stop
from tests.runs_builder import RunBuilder, two_rank_run

WAIT_S = 60.0


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    opened = Hub(tmp_path)
    yield opened
    opened.close()


def more(run: RunBuilder, hub: Hub, step: int) -> None:
    run.step(0, step, step * 100, step * 100 + 100)
    run.publish()
    assert hub.catch_up("job", WAIT_S)


def newest_step(run: Run, _stop: Stop | None) -> int:
    return int(run.index_rows("SELECT max(step) AS step FROM step_rollup")[0]["step"])


def test_an_old_answer_is_given_until_it_has_rested_then_there_is_news(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresh_policy, "LEAST_S", 3.0)
    run = two_rank_run(tmp_path / "job")
    hub.run("job")
    assert hub.catch_up("job", WAIT_S)
    assert hub.paced("job", "newest", newest_step) == 2
    version = hub.version("job")
    more(run, hub, 3)
    assert hub.version("job") > version
    assert hub.paced("job", "newest", newest_step) == 2
    news = threading.Event()
    end = hub.listen(
        lambda _name, _version: news.set() if hub.paced("job", "newest", newest_step) == 3 else None
    )
    assert news.wait(WAIT_S), "nothing was written, and the newer answer could be had"
    end()


def test_what_fails_is_tried_again_at_once(hub: Hub, tmp_path: Path) -> None:
    two_rank_run(tmp_path / "job")
    tried: list[int] = []

    def fails_first(run: Run, stop: Stop | None) -> int:
        tried.append(1)
        if len(tried) == 1:
            raise UserError("no")
        return newest_step(run, stop)

    with pytest.raises(UserError, match="no"):
        hub.paced("job", "newest", fails_first)
    assert hub.paced("job", "newest", fails_first) == 2
    assert len(tried) == 2
