"""Frames of the page Model, in process: what there is, thumbnails, one in full; for operators."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.server import make_app
from app.settings import Role, Settings, Token
from app.views.model.frames import tile
from tests.app.in_process import Client
from tests.app.ranks_helpers import unpacked
from tests.app.runs_site import RunsSite
from tests.frame_runs import (
    NUM_FEATURES,
    NUM_HEADS,
    NUM_LAYERS,
    NUM_TOKENS,
    STEPS,
    attention,
    frame_run,
    mlp,
)
from trace_hooks.protocol.frames import Frame, decode, stored


class Site(RunsSite):
    """A server in process and one run that was watched."""

    def __init__(self, folder: Path) -> None:
        frame_run(folder / "runs" / "watched")
        super().__init__(folder / "runs")

    def get(self, path: str, **params: Any) -> Any:
        """An answer that must be there."""
        return self.answer(f"watched/model/{path}", **params)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with closing(Site(tmp_path_factory.mktemp("frames"))) as made:
        yield made


def test_the_index_lists_what_was_kept(site: Site) -> None:
    kinds = {kind["what"]: kind for kind in site.get("frames").json()["whats"]}
    assert list(kinds) == ["attention", "mlp", "residual"]
    assert kinds["attention"]["steps"] == list(STEPS)
    assert kinds["attention"]["layers"] == list(range(NUM_LAYERS))
    assert kinds["attention"]["heads"] == list(range(NUM_HEADS))
    assert kinds["attention"]["num_frames"] == len(STEPS) * NUM_LAYERS * NUM_HEADS
    assert kinds["mlp"]["heads"] == [-1]
    assert site.get("frames").json()["attempts"] == [0]
    answer = site.client.get("/api/run/watched/model/recorded").json()
    assert answer == {"tensors": [], "has_frames": True, "can_record": False}


def test_one_frame_is_what_was_stored(site: Site) -> None:
    where = {"what": "attention", "step": 20, "layer": 2, "head": 5, "sample": 0}
    answer = decode(site.get("frame", **where).content)
    assert (answer.rank, answer.layer, answer.head, answer.attempt) == (1, 2, 5, 0)
    assert answer.values() == pytest.approx(attention(20, 2, 5), abs=1 / 255)
    part = {"what": "mlp", "step": 30, "layer": 1, "name": "layers.1.mlp", "shard": "tp=1"}
    answer = decode(site.get("frame", **part).content)
    assert answer.values() == pytest.approx(mlp(30, 1, 1), rel=2**-10, abs=1e-6)


def test_thumbnails_are_of_every_head_and_every_shard(site: Site) -> None:
    arrays, meta = unpacked(site.get("tiles", what="attention", step=10, width=8, height=8).content)
    places = {(one["layer"], one["head"]) for one in meta["frames"]}
    assert places == {(layer, head) for layer in range(NUM_LAYERS) for head in range(NUM_HEADS)}
    code_NYX = arrays["code"].reshape(-1, 8, 8)
    assert len(code_NYX) == NUM_LAYERS * NUM_HEADS
    assert (code_NYX.max(axis=(1, 2)) == 255).all()
    assert (code_NYX[:, 0, 7] == 1).all(), "what comes later is masked"
    arrays, meta = unpacked(site.get("tiles", what="mlp", step=10, width=48, height=6).content)
    assert len(meta["frames"]) == 2 * NUM_LAYERS
    assert arrays["code"].reshape(-1, 6, 48).shape[0] == 2 * NUM_LAYERS
    _, meta = unpacked(site.get("tiles", what="attention", step=11).content)
    assert meta["frames"] == []


def test_a_thumbnail_is_the_mean_of_blocks_and_enlarges_what_is_small() -> None:
    def frame(values: np.ndarray, what: str) -> Frame:
        numbers = stored(values.astype(np.float32)).columns()
        return Frame(0, 0, "w", what, 0, "m", values.shape, **numbers)

    signed = frame(np.array([[1.0, 3.0, -2.0, -2.0]]), "mlp")
    assert tile(signed, 1, 2).tolist() == [[255, 1]]
    share = frame(np.array([[0.25, 1.0]]), "attention")
    assert tile(share, 2, 4).tolist() == [[128, 128, 255, 255]] * 2
    broken = frame(np.array([[np.nan, 1.0]]), "mlp")
    assert tile(broken, 1, 2).tolist() == [[0, 255]]
    assert NUM_FEATURES > NUM_TOKENS


@pytest.mark.parametrize(
    ("path", "params", "sentence"),
    [
        ("tiles", {"what": "attention"}, "step is missing"),
        ("tiles", {"what": "<b>", "step": "10"}, "give one of attention"),
        ("tiles", {"what": "mlp", "step": "10", "width": "9999", "height": "9999"}, "smaller ones"),
        ("frame", {"what": "mlp", "step": "10"}, "layer is missing"),
        ("frame", {"what": "mlp", "step": "11", "layer": "0"}, "no mlp of layer 0 was recorded"),
        ("frame", {"what": "mlp", "step": "10", "layer": "0", "head": "-2"}, "whole number"),
        ("frame", {"what": "mlp", "step": "1e3", "layer": "0"}, "whole number"),
    ],
)
def test_damaged_requests_are_explained(
    site: Site, path: str, params: dict[str, str], sentence: str
) -> None:
    answer = site.client.get(f"/api/run/watched/model/{path}", params=params)
    assert answer.status_code == 400
    assert sentence in answer.json()["error"]


def test_content_is_for_operators_statistics_for_everybody(site: Site) -> None:
    secrets = {role: f"{role.name}-{'s' * 24}" for role in (Role.viewer, Role.operator)}
    tokens = tuple(Token(secret, role) for role, secret in secrets.items())
    client = Client(make_app(site.hub, settings=Settings(tokens=tokens)))
    try:
        for role, wanted in ((Role.viewer, 403), (Role.operator, 200)):
            headers = {"Authorization": f"Bearer {secrets[role]}"}
            for path in ("frames", "tiles?what=mlp&step=10", "frame?what=mlp&step=10&layer=0"):
                answer = client.get(f"/api/run/watched/model/{path}", headers=headers)
                assert answer.status_code == wanted, (role, path, answer.text)
            answer = client.get("/api/run/watched/model/recorded", headers=headers)
            assert answer.status_code == 200
    finally:
        client.close()
