"""The questions about collectives and who is waited for: rows in, table out."""

from __future__ import annotations

import pytest

from ingest.run import open_run
from tests.ingest.query.late_rank import NUM_STEPS, SLOW, by_rank, one
from tests.runs_builder import T0, US, RunBuilder
from trace_hooks.layout import ParallelLayout


def test_collective_members(run):
    rows = {
        row["rank"]: row for row in run.ask("collective_members", group_id=7, seq=1).to_pylist()
    }
    assert rows[SLOW]["is_last"]
    assert rows[SLOW]["wait_caused_us"] == pytest.approx(20 * 7)
    assert rows[0]["wait_us"] == pytest.approx(21)
    assert {row["transfer_us"] for row in rows.values()} == {10.0}
    assert sum(row["wait_caused_us"] for row in rows.values()) == pytest.approx(140)


def two_hosts(folder, offset_ns=None, members=(0, 1)):
    builder = RunBuilder(folder, 2, hosts=["a", "b"])
    builder.rank_files()
    builder.group(7, [0, 1], "dp")
    for rank in members:
        builder.step(rank, 0, 0, 100)
        builder.collective(rank, 0, 7, 0, 10 + rank, 50)
    if offset_ns is not None:
        builder.add("clocks", 1, 0, ts_ns=T0, offset_ns=offset_ns, err_ns=10, drift_ppb=0)
    builder.publish()
    return open_run(builder.folder)


def test_nobody_is_named_without_aligned_clocks(tmp_path):
    with two_hosts(tmp_path / "run") as run:
        rows = run.ask("collective_members", group_id=7, seq=0).to_pylist()
        assert {row["reason"] for row in rows} == {"a member's clock is not aligned"}
        assert {row["wait_us"] for row in rows} == {None}
        assert not any(row["is_last"] for row in rows)
        assert run.ask("late_ranks").num_rows == 0
        assert by_rank(run, "clock_error")[1]["method"] is None


def test_alignment_can_turn_the_verdict(tmp_path):
    with two_hosts(tmp_path / "run", offset_ns=-5_000) as run:
        rows = by_rank(run, "collective_members", group_id=7, seq=0)
        assert rows[0]["is_last"]
        assert rows[1]["wait_us"] == pytest.approx(4)
        assert rows[1]["aligned_start_ns"] == T0 + 6 * US
        assert [row["rank"] for row in run.ask("late_ranks").to_pylist()] == [0]
        assert by_rank(run, "clock_error")[1]["err_us"] == pytest.approx(0.01)


def test_drift_moves_the_offset(tmp_path):
    builder = RunBuilder(tmp_path / "run", 2, hosts=["a", "b"])
    builder.rank_files()
    for rank in range(2):
        builder.collective(rank, 0, 7, 0, 2_000_000, 2_000_050)
    # 2 s after the estimate a drift of 1000 ppb has made 2 us
    builder.add("clocks", 1, 0, ts_ns=T0, offset_ns=0, drift_ppb=1000)
    builder.publish()
    with open_run(builder.folder) as run:
        rows = by_rank(run, "collective_members", group_id=7, seq=0)
        assert rows[1]["aligned_start_ns"] - rows[0]["aligned_start_ns"] == 2000


def test_nobody_is_named_while_a_member_is_missing(tmp_path):
    with two_hosts(tmp_path / "run", offset_ns=0, members=(1,)) as run:
        row = one(run, "collective_members", group_id=7, seq=0)
        assert row["reason"] == "members are missing: 1 of 2"
        assert row["wait_us"] is None
        assert one(run, "collectives_by_group")["num_open"] == 1


def test_sends_and_receives_pair_by_source_destination_tag_and_number(tmp_path):
    builder = RunBuilder(tmp_path / "run", 3)
    builder.rank_files()
    builder.group(9, [0, 1, 2], "pp")
    for seq in range(2):  # 0 -> 1 and 1 -> 2, both with numbers 0 and 1
        t = seq * 100
        p2p = {"group_id": 9, "seq": seq, "tag": 0}
        builder.collective(0, 0, start_us=t + 10, end_us=t + 20, op="send", peer=1, **p2p)
        builder.collective(1, 0, start_us=t, end_us=t + 21, op="recv", peer=0, **p2p)
        builder.collective(1, 0, start_us=t + 30, end_us=t + 50, op="send", peer=2, **p2p)
        builder.collective(2, 0, start_us=t + 44, end_us=t + 51, op="recv", peer=1, **p2p)
    builder.publish()
    with open_run(builder.folder) as run:
        rows = run.ask("collective_members", group_id=9, seq=1).to_pylist()
        assert [(row["src"], row["dst"], row["rank"], row["wait_us"]) for row in rows] == [
            (0, 1, 1, 10.0),
            (0, 1, 0, 0.0),
            (1, 2, 1, 14.0),
            (1, 2, 2, 0.0),
        ]
        assert run.ask("collective_members", group_id=9, seq=1, src=1).num_rows == 2
        assert run.ask("late_ranks").num_rows == 0
        caused = {
            r["rank"]: r["wait_caused_ms"] for r in run.ask("late_ranks", axis="pp").to_pylist()
        }
        assert caused == pytest.approx({0: 0.020, 2: 0.028})


def test_late_ranks(run):
    row = one(run, "late_ranks")
    assert row["rank"] == SLOW
    assert row["wait_caused_ms"] == pytest.approx(0.020 * 7 * NUM_STEPS)
    assert row["lost_ratio"] == pytest.approx(0.020 * 7 / (8 * 0.1))
    assert row["share"] == 1
    assert run.ask("late_ranks", axis="tp").num_rows == 0
    assert run.ask("late_ranks", axis="dp").num_rows == 1


def test_waits_for_the_schedule_name_no_rank_unless_requested(tmp_path):
    """pp 2 x tp 2. Rank 3 comes late to its own stage; both of stage 1 always come last across."""
    builder = RunBuilder(tmp_path / "run", 4, ParallelLayout.from_sizes(pp=2, tp=2))
    builder.rank_files()
    groups = {7: ([0, 1], "tp"), 8: ([2, 3], "tp"), 9: ([0, 2], "pp"), 10: ([0, 1, 2, 3], "world")}
    for group_id, (ranks, axis) in groups.items():
        builder.group(group_id, ranks, axis)
        for rank in ranks:
            late = 5 if (group_id, rank) == (8, 3) else 30 if group_id > 8 and rank == 2 else 0
            builder.collective(rank, 0, group_id, 0, late, 50)
    for rank in range(4):
        builder.step(rank, 0, 0, 100)
    builder.publish()
    with open_run(builder.folder) as run:
        assert list(by_rank(run, "late_ranks")) == [3]
        assert by_rank(run, "late_ranks", axis="all")[2]["wait_caused_ms"] == pytest.approx(0.12)
        assert list(by_rank(run, "late_ranks", axis="world")) == [2]
        assert one(run, "time_lost")["wait_caused_ms"] == pytest.approx(0.005)
        assert one(run, "time_lost", axis="all")["worst_rank"] == 2
        assert by_rank(run, "grid")[2]["wait_caused_ms"] == pytest.approx(0.12)


def test_time_lost(run):
    row = run.ask("time_lost").to_pylist()[1]
    assert row["worst_rank"] == SLOW
    assert row["lost_ratio"] == pytest.approx(0.020 * 7 / (8 * 0.1))


def test_comm_by_axis(run):
    row = one(run, "comm_by_axis", rank=SLOW)
    assert (row["axis"], row["num_spans"], row["exposed_ratio"]) == ("dp", NUM_STEPS, 1.0)
    assert row["comm_ms"] == pytest.approx(0.01)


def test_collectives_by_group(run):
    row = one(run, "collectives_by_group", step_min=0, step_max=0)
    assert (row["name"], row["axis"], row["num_members"], row["num_open"]) == ("g7", "dp", 8, 0)
    assert row["wait_ms"] == pytest.approx(0.020 * 6 + 0.021)
    assert row["transfer_ms"] == pytest.approx(0.01)
    assert row["bandwidth_gb_s"] == pytest.approx(1000 * 2 * 7 / 8 / 10_000)


@pytest.mark.parametrize(
    ("op", "factor"),
    [
        ("all_reduce", 2 * 3 / 4),
        ("all_gather", 3),
        ("reduce_scatter", 3 / 4),
        ("all_to_all", 3 / 4),
        ("broadcast", 1),
        ("reduce", 1),
        ("barrier", None),
        ("scatter", None),
    ],
)
def test_bytes_moved_follow_the_algorithm(run, op, factor):
    """num_bytes is a member's input: a quarter of all_gather's total, all of reduce_scatter's."""
    moved = run.execute("SELECT bus_bytes($op, 1000, 4) AS b", {"op": op}).to_pylist()[0]["b"]
    assert moved == (None if factor is None else pytest.approx(1000 * factor))


@pytest.mark.parametrize(("num_bytes", "members"), [(-1, 4), (0, 4), (10, 1), (10, None)])
def test_unknown_sizes_give_no_bandwidth(run, num_bytes, members):
    values = {"b": num_bytes, "n": members}
    assert run.execute("SELECT bus_bytes('all_reduce', $b, $n::INT) AS b", values).to_pylist() == [
        {"b": None}
    ]


def test_instances_without_a_size_do_not_dilute_the_bandwidth(tmp_path):
    builder = RunBuilder(tmp_path / "run", 2)
    builder.rank_files()
    builder.group(7, [0, 1], "dp")
    for rank in range(2):
        builder.collective(rank, 0, 7, 0, 0, 10, num_bytes=10_000)
        builder.collective(rank, 0, 7, 1, 20, 90, num_bytes=-1)
        builder.collective(rank, 0, 7, 2, 100, 150, op="barrier", num_bytes=0)
    builder.publish()
    with open_run(builder.folder) as run:
        assert one(run, "collectives_by_group")["bandwidth_gb_s"] == pytest.approx(1)
        rows = run.ask("collective_members", group_id=7, seq=0).to_pylist()
        assert [row["bandwidth_gb_s"] for row in rows] == [pytest.approx(1)] * 2


def spread_over_files(folder):
    """Four ranks with files of their own; group 7 of ranks 1 and 2, with numbers 0 to 5."""
    builder = RunBuilder(folder, 4)
    builder.rank_files()
    builder.group(7, [1, 2], "dp")
    builder.group(8, [0, 3], "dp")
    for step in range(3):
        for rank in range(4):
            builder.step(rank, step, 100 * step, 100 * step + 100)
            for number in range(2):
                begin = 100 * step + 40 * number + rank
                builder.collective(
                    rank, step, 7 if rank in (1, 2) else 8, 2 * step + number, begin, begin + 10
                )
        builder.publish()
    return builder


def files_of(run, **values):
    return run.prepared("collective_members", **values)[1]["collectives"]


def test_only_files_of_the_ranks_and_steps_of_a_collective_are_opened(tmp_path):
    builder = spread_over_files(tmp_path / "run")
    with open_run(builder.folder) as run:
        assert len(files_of(run, group_id=7, seq=3)) == 2
        assert len(run.ask("collective_members", group_id=7, seq=3)) == 2
        assert run.ask("collective_members", group_id=7, seq=99).num_rows == 0


def test_a_collective_of_an_evaluation_is_found(tmp_path):
    builder = spread_over_files(tmp_path / "run")
    for rank in (1, 2):
        builder.span(rank, 2, "evaluation", 290, 299)
        builder.collective(rank, 2, 7, 3, 292, 294)  # the number of one of step 1, too
    builder.publish()
    with open_run(builder.folder) as run:
        found = run.ask("collective_members", group_id=7, seq=3).to_pylist()
        assert sorted((row["rank"], row["step"]) for row in found) == [
            (1, 1),
            (1, 2),
            (2, 1),
            (2, 2),
        ]
