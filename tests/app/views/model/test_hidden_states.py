"""Hidden states in two dimensions: axes that stay, their signs, paths over layers, refusals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from app.runs.hub import Hub
from app.server import make_app
from app.views.model.hidden_states import principal_directions, random_directions
from tests.app.in_process import Client
from tests.app.ranks_helpers import unpacked
from tests.frame_runs import NUM_FEATURES, NUM_LAYERS, NUM_TOKENS, frame_run, residual


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("states")
    frame_run(folder / "runs" / "watched")
    hub = Hub(folder / "runs")
    made = Client(make_app(hub))
    yield made
    made.close()
    hub.close()


def states(client: Client, **params: Any) -> tuple[np.ndarray, dict[str, Any]]:
    """Points, LTA, and their description by the server."""
    parameters = {"what": "residual", **params}
    answer = client.get("/api/run/watched/model/states", params=parameters)
    assert answer.status_code == 200, answer.text
    arrays, meta = unpacked(answer.content)
    return arrays["point"].reshape(len(meta["layers"]), -1, 2), meta


def all_states(step: int) -> np.ndarray:
    return np.concatenate([residual(step, layer) for layer in range(NUM_LAYERS)])


def test_axes_are_those_of_the_first_step_in_every_step(client: Client) -> None:
    first = all_states(10)
    directions = principal_directions(first)
    for step in (10, 30):
        points, meta = states(client, step=step)
        assert meta["layers"] == list(range(NUM_LAYERS))
        assert meta["tokens"] == list(range(NUM_TOKENS))  # the halves of two ranks
        exact = (all_states(step) - first.mean(0)) @ directions
        np.testing.assert_allclose(points.reshape(-1, 2), exact, atol=0.05)
        assert meta["axes"] == {"kind": "first", "step": 10, "num_fitted": NUM_LAYERS * NUM_TOKENS}
    own, meta = states(client, step=30, axes="own")
    assert meta["axes"]["step"] == 30
    assert meta["shares"][0] > meta["shares"][1] > 0
    assert sum(meta["shares"]) <= 1
    assert not np.allclose(own, points, atol=0.5)
    kept, meta = states(client, step=20, axes=30)
    exact = (all_states(20) - all_states(30).mean(0)) @ principal_directions(all_states(30))
    np.testing.assert_allclose(kept.reshape(-1, 2), exact, atol=0.05)


def test_random_axes_are_the_same_everywhere_and_keep_lengths_in_order(client: Client) -> None:
    points, meta = states(client, step=20, axes="random")
    assert meta["axes"] == {"kind": "random", "step": 10, "num_fitted": NUM_LAYERS * NUM_TOKENS}
    exact = (all_states(20) - all_states(10).mean(0)) @ random_directions(NUM_FEATURES)
    np.testing.assert_allclose(points.reshape(-1, 2), exact, atol=0.05)
    directions = random_directions(NUM_FEATURES)
    np.testing.assert_allclose(directions.T @ directions, np.eye(2), atol=1e-6)


def test_states_of_one_length_forget_how_they_grow(client: Client) -> None:
    points, _ = states(client, step=20, unit=1)
    at = all_states(10)
    at = at / np.sqrt(np.square(at).mean(1, keepdims=True))
    exact = all_states(20)
    exact = exact / np.sqrt(np.square(exact).mean(1, keepdims=True))
    np.testing.assert_allclose(
        points.reshape(-1, 2), (exact - at.mean(0)) @ principal_directions(at), atol=0.02
    )


def test_directions_have_a_sign_and_are_there_for_few_states() -> None:
    state_NC = np.random.default_rng(1).normal(0, 1, (40, 7)).astype(np.float32)
    result = principal_directions(state_NC)
    np.testing.assert_allclose(principal_directions(-state_NC), result, atol=1e-5)
    assert (result[np.abs(result).argmax(0), [0, 1]] > 0).all()
    spread = ((state_NC - state_NC.mean(0)) @ result).var(0)
    exact = np.linalg.eigvalsh(np.cov(state_NC.T, bias=True))[::-1]
    np.testing.assert_allclose(spread, exact[:2], rtol=1e-4)
    wide_NC = np.random.default_rng(2).normal(0, 1, (7, 40)).astype(np.float32)
    exact = np.linalg.svd(wide_NC - wide_NC.mean(0))[2][:2].T
    along = (principal_directions(wide_NC) * exact).sum(0)
    np.testing.assert_allclose(np.abs(along), 1, atol=1e-5)
    for shape in ((1, 5), (3, 1)):
        few = principal_directions(np.ones(shape, np.float32))
        assert few.shape == (shape[1], 2)
        assert np.isfinite(few).all()
    assert random_directions(1).shape == (1, 2)


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"what": "mlp", "step": 10}, "request what=residual"),
        ({"what": "residual"}, "step is missing"),
        ({"what": "residual", "step": 11}, "no hidden states recorded in step 11"),
        ({"what": "residual", "step": 11, "axes": "own"}, "no hidden states of finite values"),
        ({"what": "residual", "step": 10, "axes": "<b>"}, "axes is '<b>'; give one of first"),
        ({"what": "residual", "step": 10, "sample": 9}, "no residual was recorded"),
    ],
)
def test_damaged_requests_are_explained(
    client: Client, params: dict[str, Any], sentence: str
) -> None:
    answer = client.get("/api/run/watched/model/states", params=params)
    assert answer.status_code == 400
    assert sentence in answer.json()["error"]
