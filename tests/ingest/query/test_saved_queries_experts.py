"""Loads of experts, where these lie, and how long they take: rows in, tables out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ingest.run import open_run
from tests.expert_runs import (
    ATTENTION_US,
    EXPERTS,
    EXPERTS_US,
    HOT_EXPERT,
    HOT_FROM,
    HOT_LAYER,
    LAYERS,
    RANKS,
    STEPS,
    TOKENS,
    TOP_K,
    TRANSFER_US,
    expert_run,
)
from tests.runs_builder import T0, RunBuilder
from trace_hooks.layout import ParallelLayout


@pytest.fixture(scope="module")
def hot(tmp_path_factory):
    with open_run(expert_run(tmp_path_factory.mktemp("experts") / "run")) as opened:
        yield opened


def built(
    folder: Path, ranks: int, layout: ParallelLayout | None = None, **more: Any
) -> RunBuilder:
    run = RunBuilder(folder / "run", ranks, layout, **more)
    run.rank_files()
    return run


def routed(
    run: RunBuilder, rank: int, step: int, layer: int, tokens: list[int], **more: Any
) -> None:
    own = {"chunk": -1, "name": f"layers.{layer}.mlp", "top_k": 1, "batch_tokens": sum(tokens)}
    where = {"dropped": 0, "first_expert": -1, "local_experts": -1}
    run.add("expert_load", rank, step, ts_ns=T0, layer=layer, tokens=tokens, **own | where | more)


def asked(run: RunBuilder, question: str, **params: Any) -> list[dict[str, Any]]:
    run.publish()
    with open_run(run.folder) as opened:
        return opened.ask(question, **params).to_pylist()


def test_loads_are_summed_over_ranks(hot) -> None:
    rows = hot.ask("expert_load").to_pylist()
    assert [(row["step"], row["layer"]) for row in rows] == [
        (step, layer) for step in range(STEPS) for layer in range(LAYERS)
    ]
    for row in rows:
        assert sum(row["tokens"]) == RANKS * TOKENS * TOP_K
        assert (row["batch_tokens"], row["ranks"], row["stride"]) == (RANKS * TOKENS, RANKS, 1)
        is_hot = row["layer"] == HOT_LAYER and row["step"] >= HOT_FROM
        assert (max(row["tokens"]) > 3 * sum(row["tokens"]) / EXPERTS) == is_hot
        assert not is_hot or row["tokens"][HOT_EXPERT] == max(row["tokens"])
    assert rows[0]["bias"] == [0.0] * EXPERTS
    assert rows[0]["aux_loss"] == pytest.approx(0.01)
    only = hot.ask("expert_load", layer=1, step_min=7, step_max=8).to_pylist()
    assert only == [row for row in rows if row["layer"] == 1 and row["step"] in (7, 8)]


def test_where_experts_lie(hot) -> None:
    rows = hot.ask("expert_places").to_pylist()
    assert len(rows) == 2 * LAYERS
    assert rows[3] == {"layer": 1, "name": "layers.1.mlp.router", "ep": 1, "first_expert": 4,
                       "local_experts": 4, "ranks": [1, 3], "num_ranks": 2}  # fmt: skip


def test_every_rank_that_holds_experts_is_listed(tmp_path: Path) -> None:
    run = built(tmp_path, 140)
    for rank in range(140):
        routed(run, rank, 0, 0, [1, 1], first_expert=rank % 2, local_experts=1)
    rows = asked(run, "expert_places")
    assert [(row["ranks"], row["num_ranks"]) for row in rows] == [
        (list(range(0, 140, 2)), 70),
        (list(range(1, 140, 2)), 70),
    ]


def test_routers_with_the_same_layer_number_are_not_added_up(tmp_path: Path) -> None:
    run = built(tmp_path, 2, ParallelLayout.from_sizes(dp=2))
    for rank in range(2):
        for name, tokens in (("encoder.3", [90, 10]), ("decoder.3", [10, 90])):
            routed(run, rank, 0, 3, tokens, name=name, first_expert=rank, local_experts=1)
    loads = asked(run, "expert_load")
    assert [(row["layer"], row["name"], row["tokens"], row["batch_tokens"]) for row in loads] == [
        (3, "decoder.3", [20, 180], 200),
        (3, "encoder.3", [180, 20], 200),
    ]
    places = asked(run, "expert_places")
    assert [(row["name"], row["ep"], row["ranks"]) for row in places] == [
        (name, ep, [ep]) for name in ("decoder.3", "encoder.3") for ep in range(2)
    ]


def test_routers_without_a_layer_number_are_told_apart_by_name_and_stage(tmp_path: Path) -> None:
    run = built(tmp_path, 2, ParallelLayout.from_sizes(pp=2))
    for rank in range(2):
        for name in ("gate", "second"):
            routed(run, rank, 0, -1, [9, 1], name=name, first_expert=0, local_experts=2)
    loads = asked(run, "expert_load")
    names = ["gate", "gate of stage 1", "second", "second of stage 1"]
    assert [(row["layer"], row["name"], row["tokens"]) for row in loads] == [
        (-1, name, [9, 1]) for name in names
    ]
    assert asked(run, "expert_load", layer=-1) == loads
    assert [row["name"] for row in asked(run, "expert_places")] == names


def test_copies_of_tp_peers_count_once(tmp_path: Path) -> None:
    run = built(tmp_path, 4, ParallelLayout.from_sizes(dp=2, tp=2))
    for rank, tokens in enumerate(
        [[3, 1], [3, 1], [3, 1], [2, 2]]
    ):  # the last two: sequence parallel
        routed(run, rank, 0, 0, tokens)
    (row,) = asked(run, "expert_load")
    assert (row["tokens"], row["batch_tokens"], row["ranks"]) == ([8, 4], 12, 3)


def test_without_a_layout_every_rank_counts(tmp_path: Path) -> None:
    run = built(tmp_path, 2)
    for rank in range(2):
        routed(run, rank, 0, 0, [3, 1], dropped=-1 if rank else 4)
    (row,) = asked(run, "expert_load")
    assert (row["tokens"], row["batch_tokens"], row["dropped"]) == ([6, 2], 8, -1)


def test_stages_that_count_layers_from_0_are_numbered_on(tmp_path: Path) -> None:
    run = built(tmp_path, 2, ParallelLayout.from_sizes(pp=2))
    for rank in range(2):
        for layer in range(2):
            routed(run, rank, 0, layer, [rank, layer], first_expert=0, local_experts=2)
    loads = asked(run, "expert_load")
    assert [(row["layer"], row["tokens"]) for row in loads] == [
        (0, [0, 0]), (1, [0, 1]), (2, [1, 0]), (3, [1, 1])
    ]  # fmt: skip
    places = asked(run, "expert_places")
    assert [(row["layer"], row["ranks"]) for row in places] == [
        (0, [0]),
        (1, [0]),
        (2, [1]),
        (3, [1]),
    ]


def test_of_many_ranks_some_of_every_stage_are_read(tmp_path: Path) -> None:
    run = built(tmp_path, 12, ParallelLayout.from_sizes(pp=2, dp=6))
    for rank in range(12):
        routed(run, rank, 0, rank // 6, [1 << rank % 6, 0])
    rows = asked(run, "expert_load", most_ranks=4)
    assert [(row["layer"], row["tokens"], row["ranks"], row["stride"]) for row in rows] == [
        (0, [0b1001, 0], 2, 3), (1, [0b1001, 0], 2, 3)
    ]  # fmt: skip


def test_of_many_rows_the_newest_steps_of_some_ranks_are_read(tmp_path: Path) -> None:
    run = built(tmp_path, 4, ParallelLayout.from_sizes(dp=4))
    for step in range(200):
        for rank in range(4):
            for layer in range(2):
                routed(run, rank, step, layer, [1 << rank, step])
    rows = asked(run, "expert_load", most_rows=600)
    assert [row["step"] for row in rows] == [step for step in range(50, 200) for _ in range(2)]
    assert {(row["tokens"][0], row["ranks"], row["stride"]) for row in rows} == {(0b0101, 2, 2)}
    one = asked(run, "expert_load", most_rows=600, layer=1)
    assert [row["step"] for row in one] == list(range(50, 200))
    assert {(row["tokens"][0], row["stride"]) for row in one} == {(0b1111, 1)}
    every = asked(run, "expert_load", most_rows=1_600)
    assert len(every) == 400
    assert {row["stride"] for row in every} == {1}


def test_times_of_attention_experts_and_all_to_alls(hot) -> None:
    before = hot.ask("expert_times", step_max=HOT_FROM - 1).to_pylist()
    assert [row["rank"] for row in before] == list(range(RANKS))
    for row in before:
        assert (row["ep"], row["group_id"]) == (row["rank"] % 2, 21 + row["rank"] // 2)
        assert row["attention_ms"] == pytest.approx(ATTENTION_US / 1e3)
        assert row["expert_ms"] == pytest.approx(EXPERTS_US / 1e3, rel=0.05)
        assert row["transfer_ms"] == pytest.approx(TRANSFER_US / 1e3)
        assert row["all_to_all_p50_ms"] >= row["transfer_ms"]
        assert (row["micro_batches"], row["layers"]) == (1, LAYERS)
        assert (row["first_step"], row["last_step"]) == (0, HOT_FROM - 1)
    after = hot.ask("expert_times", step_min=HOT_FROM).to_pylist()
    busy, idle = after[1], after[0]
    assert busy["expert_step_ms"] > 1.3 * idle["expert_step_ms"]
    assert idle["all_to_all_p99_ms"] > 2 * busy["all_to_all_p99_ms"]  # it waits for the other
    assert (busy["first_step"], busy["last_step"]) == (STEPS - 20, STEPS - 1)


def test_micro_batches_in_turn_and_exchanges_of_sizes(tmp_path: Path) -> None:
    run = built(tmp_path, 2, ParallelLayout.from_sizes(dp=2, ep=2))
    run.group(21, [0, 1], "ep")
    for rank in range(2):
        run.step(rank, 0, 0, 1_000)
        routed(run, rank, 0, 0, [4, 4])
        for layer in range(2):
            t = 400.0 * layer
            for batch in range(3):
                run.span(rank, 0, "forward", t + 20 * batch, t + 20 * batch + 10, depth=1,
                         name=f"layers.{layer}.self_attn", microbatch=batch)  # fmt: skip
                run.span(rank, 0, "forward", t + 200 + 20 * batch, t + 200 + 20 * batch + 16,
                         depth=1, name=f"layers.{layer}.mlp", microbatch=batch)  # fmt: skip
                run.span(rank, 0, "ep_comm", t + 202 + 20 * batch, t + 206 + 20 * batch, depth=2,
                         name="all_to_all", group_id=21)  # fmt: skip
        run.span(rank, 0, "forward", 900, 990, depth=1, name="layers.0.post_attention_norm")
        for seq, num_bytes in enumerate([64, 1 << 20]):
            run.collective(rank, 0, 21, seq, 100 * seq + rank, 100 * seq + 50, op="all_to_all",
                           num_bytes=num_bytes)  # fmt: skip
    first, _ = asked(run, "expert_times")
    assert (first["micro_batches"], first["all_to_alls"], first["layers"]) == (3, 1, 1)
    assert (first["attention_ms"], first["expert_ms"]) == (0.010, 0.012)
    assert first["expert_step_ms"] == pytest.approx(0.036)  # layer 1 is dense
    assert (first["all_to_all_p50_ms"], first["transfer_ms"]) == (0.050, 0.049)


def test_communication_at_once_within_experts_counts_once(tmp_path: Path) -> None:
    run = built(tmp_path, 1)
    run.step(0, 0, 0, 1_000)
    routed(run, 0, 0, 0, [4, 4])
    run.span(0, 0, "forward", 100, 200, depth=1, name="layers.0.mlp")
    for begin, end in ((110, 140), (115, 120), (130, 150), (190, 260)):
        run.span(0, 0, "ep_comm", begin, end, depth=2, name="all_to_all")
    run.span(0, 0, "forward", 300, 340, depth=1, name="layers.0.mlp")
    for _ in range(3):
        run.span(0, 0, "dp_comm", 300, 400, depth=2, name="all_gather")
    (row,) = asked(run, "expert_times")
    assert row["expert_step_ms"] == pytest.approx(0.050)
    assert row["expert_ms"] == pytest.approx(0.025)


@pytest.mark.parametrize(("axis", "ep"), [("dp", 4), ("unknown", 4), ("dp", 2)])
def test_groups_with_the_members_of_an_ep_group_are_ep_groups_where_none_is_named(
    tmp_path: Path, axis: str, ep: int
) -> None:
    run = built(tmp_path, 4, ParallelLayout.from_sizes(dp=4, ep=ep))
    run.group(21, [0, 1, 2, 3], axis)
    for rank in range(4):
        run.step(rank, 0, 0, 1_000)
        routed(run, rank, 0, 0, [4, 4])
        run.collective(rank, 0, 21, 0, 100, 900, op="all_reduce", num_bytes=1 << 20)
        run.collective(rank, 0, 21, 1, 100 + rank, 150, op="all_to_all", num_bytes=1 << 20)
    rows = asked(run, "expert_times")
    found = [(row["ep"], row["group_id"], row["all_to_alls"]) for row in rows]
    assert found == [(rank, 21, 1) if ep == 4 else (None, None, 0) for rank in range(4)]


def test_a_group_that_is_named_ep_is_the_only_one(tmp_path: Path) -> None:
    run = built(tmp_path, 2, ParallelLayout.from_sizes(dp=2, ep=2))
    run.group(21, [0, 1], "ep")
    run.group(22, [0, 1], "dp")
    for rank in range(2):
        run.step(rank, 0, 0, 1_000)
        for seq, group_id in enumerate((21, 22)):
            run.collective(rank, 0, group_id, seq, 100, 150, op="all_to_all", num_bytes=1 << 20)
    rows = asked(run, "expert_times")
    assert [(row["group_id"], row["all_to_alls"]) for row in rows] == [(21, 1), (21, 1)]


def test_no_transfer_without_aligned_clocks(tmp_path: Path) -> None:
    run = built(tmp_path, 2, hosts=["h0", "h1"])
    run.group(21, [0, 1], "ep")
    for rank in range(2):
        run.step(rank, 0, 0, 1_000)
        run.collective(rank, 0, 21, 0, 100, 150, op="all_to_all")
    first, _ = asked(run, "expert_times")
    assert (first["all_to_all_p50_ms"], first["transfer_ms"]) == (0.050, None)
    assert (first["attention_ms"], first["expert_ms"], first["micro_batches"]) == (None,) * 3


@pytest.mark.parametrize(
    ("router", "experts"),
    [
        ("blocks.0.router", "blocks.0.experts"),
        ("blocks.0.moe.router", "blocks.0.moe"),
        ("blocks.0.mlp.experts", "blocks.0.mlp"),
        ("blocks.0.moe", "blocks.0.moe.experts"),
    ],
)
def test_experts_beside_their_router_or_around_it(
    tmp_path: Path, router: str, experts: str
) -> None:
    run = built(tmp_path, 1)
    run.step(0, 0, 0, 1_000)
    routed(run, 0, 0, 0, [4, 4], name=router)
    run.span(0, 0, "forward", 100, 130, depth=1, name=experts)
    run.span(0, 0, "forward", 200, 290, depth=1, name="blocks.1.mlp")  # a dense layer
    (row,) = asked(run, "expert_times")
    assert (row["expert_ms"], row["layers"]) == (0.030, 1)
