"""One object per hub, closed with it."""

from __future__ import annotations

import gc
from pathlib import Path

from app.runs.hub import Hub
from app.runs.per_hub import PerHub


class Counted:
    """Counts in `closed` once it is closed."""

    def __init__(self, closed: list[Path], folder: Path) -> None:
        self._closed, self.folder = closed, folder

    def close(self) -> None:
        self._closed.append(self.folder)


def test_each_hub_has_its_own_and_always_the_same(hub: Hub, tmp_path: Path) -> None:
    made = PerHub(lambda hub: Counted([], hub.store.folder))
    (tmp_path / "other").mkdir()
    other = Hub(tmp_path / "other")
    assert made[hub] is made[hub]
    assert made[other] is not made[hub]
    assert made[other].folder == tmp_path / "other"
    other.close()


def test_it_is_closed_once_the_hub_is_gone(tmp_path: Path) -> None:
    closed: list[Path] = []
    made = PerHub(lambda hub: Counted(closed, hub.store.folder))
    hub = Hub(tmp_path)
    assert made[hub].folder == tmp_path
    hub.close()
    assert closed == []
    del hub
    gc.collect()
    assert closed == [tmp_path]
