"""What the page Experts shows, on runs built by hand."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from app.views.experts import answers, loads
from app.views.experts.answers import steps_answer
from app.views.experts.holders import balance_of, ep_ranks_of, holders_of
from app.views.experts.loads import fair_violation, load_map, loads_of, over_steps
from app.views.experts.ranks import expert_ranks_of
from diagnosis.experts.fair_router import p99_max_violation
from ingest.errors import UserError
from ingest.run import Run, open_run
from tests.expert_runs import (
    ATTENTION_US,
    EXPERTS,
    EXPERTS_US,
    HOT_EXPERT,
    HOT_FROM,
    HOT_LAYER,
    LAYERS,
    LOCAL,
    RANKS,
    STEPS,
    TOKENS,
    TOP_K,
    TRANSFER_US,
    expert_run,
)
from tests.runs_builder import T0, RunBuilder

HOT_STEPS = HOT_FROM, STEPS - 1


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    with open_run(expert_run(tmp_path_factory.mktemp("experts") / "run")) as opened:
        yield opened


def test_the_map_has_the_hot_expert_and_nothing_else_where_routers_are_fair(run: Run) -> None:
    found = load_map(loads_of(run, 0, HOT_STEPS))
    assert [layer.layer for layer in found.layers] == [0, 1]
    steps = STEPS - HOT_FROM
    assert [layer.choices for layer in found.layers] == [RANKS * TOKENS * TOP_K * steps] * LAYERS
    assert [layer.dropped for layer in found.layers] == [0, 0]
    np.testing.assert_allclose(found.load_LE.mean(axis=1), 1.0)
    assert found.load_LE[HOT_LAYER, HOT_EXPERT] == pytest.approx(0.45 * EXPERTS, rel=0.01)
    assert set(found.code_LE[0].tolist()) == {1}
    assert found.code_LE[HOT_LAYER, HOT_EXPERT] % 2 == 1  # more than the mean
    others = np.delete(found.code_LE[HOT_LAYER], HOT_EXPERT)
    assert (others % 2 == 0).all()
    assert (others > 0).all()


def test_a_layer_with_fewer_experts_ends_before_the_others(tmp_path: Path) -> None:
    made = RunBuilder(tmp_path / "run", 1)
    own = {"ts_ns": T0, "chunk": -1, "name": "gate", "top_k": 1, "first_expert": -1,
           "local_experts": -1}  # fmt: skip
    tokens = {0: [900, 100], 2: [0, 500, 500], 5: [0, 0, 0]}
    for layer, counts in tokens.items():
        more = {} if layer else {"bias": [0.25, -0.25], "aux_loss": 0.5}
        made.add("expert_load", 0, 0, layer=layer, tokens=counts, batch_tokens=sum(counts),
                 dropped=-1 if layer else 7, **own, **more)  # fmt: skip
    made.rank_files()
    made.publish()
    with open_run(made.folder) as opened:
        recorded = loads_of(opened, 0, (0, 9))
        ep_ranks = ep_ranks_of(opened, 0, recorded.layers)
    found = load_map(recorded)
    assert [(one.layer, one.experts, one.dropped) for one in found.layers] == [
        (0, 2, 7),
        (2, 3, -1),
    ]
    np.testing.assert_allclose(found.load_LE, [[1.8, 0.2, math.nan], [0, 1.5, 1.5]])
    assert found.code_LE[0, 2] == 0
    assert found.code_LE[1, 0] == 254  # an expert without tokens has the strongest colour
    assert [one.aux_loss for one in found.layers] == [0.5, None]
    np.testing.assert_allclose(found.bias_LE, [[0.25, -0.25, math.nan], [math.nan] * 3])
    assert (holders_of(recorded.layers, ep_ranks).rank_LE == -1).all()
    assert balance_of(recorded.layers, ep_ranks) == []


def test_routers_of_one_layer_are_told_apart_by_name(tmp_path: Path) -> None:
    made = RunBuilder(tmp_path / "run", 2)
    own = {"ts_ns": T0, "chunk": -1, "top_k": 1, "batch_tokens": 1_000}
    for rank in range(2):
        for name, tokens in (("encoder.3", [900, 100]), ("decoder.3", [100, 900])):
            made.add("expert_load", rank, 0, layer=3, name=name, tokens=tokens,
                     dropped=7 if name == "encoder.3" else 0, first_expert=rank, local_experts=1,
                     bias=[0.0, float(name == "encoder.3")], **own)  # fmt: skip
    made.rank_files()
    made.publish()
    with open_run(made.folder) as opened:
        recorded = loads_of(opened, 0, (0, 0))
        balance = balance_of(recorded.layers, ep_ranks_of(opened, 0, recorded.layers))
        first, second = (
            answers.expert_answer(opened, 0, (0, 0), where) for where in ((3, 0), (3, 0, 1))
        )
        with pytest.raises(UserError, match="layer 3 has no router 2; it has routers 0 to 1"):
            answers.expert_answer(opened, 0, (0, 0), (3, 0, 2))
    found = load_map(recorded)
    assert [(one.name, one.router, one.num_routers) for one in found.layers] == [
        ("decoder.3", 0, 2),
        ("encoder.3", 1, 2),
    ]
    np.testing.assert_allclose(found.load_LE, [[0.2, 1.8], [1.8, 0.2]])
    assert [one.dropped for one in found.layers] == [0, 14]
    np.testing.assert_allclose(found.bias_LE, [[0.0, 0.0], [0.0, 1.0]])
    assert [(one.router, one.most.rank) for one in balance] == [(0, 1), (1, 0)]
    assert [one.arrays["load"].tolist() for one in (first, second)] == [
        [pytest.approx(0.2)],
        [pytest.approx(1.8)],
    ]


def test_imbalance_by_step(run: Run) -> None:
    found = over_steps(loads_of(run, 0, (0, STEPS)).layers)
    assert found.steps_S.tolist() == list(range(STEPS))
    fair = p99_max_violation(EXPERTS, TOP_K, RANKS * TOKENS)
    np.testing.assert_allclose(found.fair_S, fair)
    assert (found.worst_S[:HOT_FROM] < 2 * fair).all()
    assert (found.worst_row_S[HOT_FROM:] == HOT_LAYER).all()
    np.testing.assert_allclose(found.worst_S[HOT_FROM:], 0.45 * EXPERTS - 1, rtol=0.05)
    assert (found.middle_S <= found.worst_S).all()


def test_nothing_was_chosen() -> None:
    assert fair_violation(8, 0) == 0
    assert len(over_steps([]).steps_S) == 0


def test_lines_have_a_limited_number_of_steps(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST_STEPS", 10)
    for steps, window in (((35, 39), [30, 39]), ((2, 3), [2, 11]), ((3, 22), [13, 22])):
        arrays, meta = steps_answer(run, 0, steps)
        assert meta["window"] == window
        assert arrays["step"].tolist() == list(range(window[0], window[1] + 1))


def test_who_holds_which_experts_and_who_gets_more_tokens(run: Run) -> None:
    layers = loads_of(run, 0, HOT_STEPS).layers
    ep_ranks = ep_ranks_of(run, 0, layers)
    holders = holders_of(layers, ep_ranks)
    assert holders.rank_LE[HOT_LAYER].tolist() == [0] * LOCAL + [1] * LOCAL
    assert holders.count_LE[HOT_LAYER].tolist() == [2] * EXPERTS
    even, uneven = balance_of(layers, ep_ranks)
    assert even.ratio == pytest.approx(1.0, abs=0.05)
    share = 0.45 + (LOCAL - 1) * 0.55 / (EXPERTS - 1)
    assert uneven.ratio == pytest.approx(2 * share, rel=0.01)
    assert uneven.share == pytest.approx(share, rel=0.01)
    assert (uneven.most.rank, uneven.most.first, uneven.most.last) == (1, LOCAL, EXPERTS - 1)
    assert uneven.even == 0.5


def test_times_of_ranks_and_ping_pong(run: Run) -> None:
    found = expert_ranks_of(run, 0, (0, HOT_FROM - 1))
    assert (found.num_ranks, found.read_steps) == (RANKS, (0, HOT_FROM - 1))
    (one,) = found.ping_pong
    assert one.on_same_ranks
    assert one.attention_ms == pytest.approx(ATTENTION_US / 1e3)
    assert one.expert_ms == pytest.approx(EXPERTS_US / 1e3, rel=0.05)
    assert one.transfer_ms == pytest.approx(TRANSFER_US / 1e3, rel=0.05)
    assert (one.micro_batches, one.least, one.are_enough) == (1, 2, False)
    assert one.attention_idle > 0.2


def test_what_balance_would_save(run: Run) -> None:
    """Of two layers one has an uneven rank: it takes 2 x share as long, and all wait for it."""
    uneven = expert_ranks_of(run, 0, HOT_STEPS).saving
    even = expert_ranks_of(run, 0, (0, HOT_FROM - 1)).saving
    assert uneven is not None
    assert even is not None
    share = 0.45 + (LOCAL - 1) * 0.55 / (EXPERTS - 1)
    micro_batches = 2
    assert uneven.ms == pytest.approx(micro_batches * EXPERTS_US / 1e3 * (2 * share - 1), rel=0.05)
    assert even.ms < uneven.ms / 5
    assert uneven.longer_ms == pytest.approx(uneven.ms, rel=0.05)


def test_a_run_without_experts(tmp_path: Path) -> None:
    bare = RunBuilder(tmp_path / "run", 2)
    bare.rank_files()
    bare.publish()
    with open_run(bare.folder) as opened:
        assert loads_of(opened, 0, (0, 9)).layers == []
        assert load_map(loads_of(opened, 0, (0, 9))).load_LE.shape == (0, 0)
        found = expert_ranks_of(opened, 0, (0, 9))
    assert (found.times, found.ping_pong, found.saving, found.read_steps) == ((), (), None, None)


def test_of_many_steps_fewer_ranks_are_read(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert loads_of(run, 0, (0, STEPS - 1)).stride == 1
    monkeypatch.setattr(loads, "LEAST_RANKS", 1)
    monkeypatch.setattr(loads, "MOST_ROWS", RANKS * STEPS * LAYERS // 2)
    few = loads_of(run, 0, (0, STEPS - 1))
    assert few.stride == 2
    assert len(few.layers[0].step_S) == STEPS
    assert few.layers[0].choices_S[0] == RANKS * TOKENS * TOP_K / 2
    assert loads_of(run, 0, (0, STEPS // 2 - 1)).stride == 1
