"""The layout of an import corrected by hand: what holds afterwards, and how it is undone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.analysis.diagnosis import diagnose_run
from app.cli import EXIT_USER_ERROR, main
from app.views.ranks.layout_preview import layout_preview
from ingest import layout_correction
from ingest.errors import UserError
from ingest.layout_correction import layout_of
from ingest.run import Run, open_run
from ingest.summary import info
from tests.runs_builder import RunBuilder
from trace_hooks.layout import ParallelLayout

TP, DP = [[0, 1], [2, 3]], [[0, 2], [1, 3]]


def imported(folder: Path, layout: ParallelLayout | None = None, **more: Any) -> Path:
    """Four ranks as a reader leaves them: groups in pairs, no axis known, kinds other_comm."""
    run = RunBuilder(folder, 4, layout, source="kineto", **more)
    for number, ranks in enumerate([*TP, *DP], 1):
        run.group(number, ranks, "unknown")
    for step in range(6):
        begin = step * 1000.0
        for rank in range(4):
            tp, dp = 1 + rank // 2, 3 + rank % 2
            run.step(rank, step, begin, begin + 1000)
            run.span(rank, step, "forward", begin, begin + 500)
            run.span(rank, step, "other_comm", begin + 500, begin + 600, group_id=tp)
            run.span(rank, step, "other_comm", begin + 700, begin + 900, group_id=dp)
    run.rank_files(end={"ts_ns": 0, "status": "finished", "error": None})
    for path in (folder / "ranks").iterdir():
        rank_info = json.loads(path.read_text())
        path.write_text(json.dumps({**rank_info, "hooks": {}}))
    run.publish()
    return folder


def kinds(run: Run) -> dict[str, int]:
    rows = run.index_rows("SELECT kind, sum(time_ns) AS ns FROM kind_rollup GROUP BY kind")
    return {row["kind"]: int(row["ns"]) for row in rows}


def content(folder: Path) -> dict[str, bytes]:
    """Files of a run that nobody may change."""
    paths = [*folder.glob("ranks/*"), *folder.glob("segments/*"), folder / "run.json"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_ranks_groups_and_kinds_follow_and_undo_brings_all_back(tmp_path: Path) -> None:
    folder = imported(tmp_path / "run")
    before = content(folder)
    with open_run(folder) as run:
        as_imported = kinds(run), info(run)
        assert as_imported[1]["layout"] is None
        layout_correction.correct(run, layout_of({"tp": 2, "dp": 2}))
        run.refresh()
        assert info(run)["layout"] == {"dp": 2, "tp": 2}
        assert info(run)["layout_from"] == "hand"
        rows = run.ask("rank_places").to_pylist()
        assert [(row["dp"], row["tp"]) for row in rows] == [(0, 0), (0, 1), (1, 0), (1, 1)]
        axes = run.index_rows("SELECT axis FROM group_members ORDER BY group_id")
        assert [row["axis"] for row in axes] == ["tp", "tp", "dp", "dp"]
        other = as_imported[0].pop("other_comm")
        assert kinds(run) == as_imported[0] | {"tp_comm": other // 3, "dp_comm": other // 3 * 2}
        spans = run.ask("rank_timeline", rank=1, step=2).to_pylist()
        assert [row["kind"] for row in spans] == ["forward", "tp_comm", "dp_comm"]
        by_hand = run.sql("SELECT DISTINCT kind FROM spans ORDER BY 1").to_pylist()
        assert [row["kind"] for row in by_hand] == ["dp_comm", "forward", "tp_comm"]
        assert layout_correction.undo(run)
        run.refresh()
        assert (kinds(run), info(run)) == (as_imported[0] | {"other_comm": other}, as_imported[1])
        assert not layout_correction.undo(run)
    assert content(folder) == before


def test_it_survives_a_rebuilt_index_and_another_correction(tmp_path: Path) -> None:
    folder = imported(tmp_path / "run")
    with open_run(folder) as run:
        layout_correction.correct(run, layout_of({"tp": 2, "dp": 2}))
    for path in (folder / "index").glob("*"):
        path.unlink() if path.is_file() else None
    with open_run(folder) as run:
        assert "tp_comm" in kinds(run)
        layout_correction.correct(run, layout_of({"tp": 2, "dp": 2}, "tp-dp"))
        run.refresh()
        rows = run.index_rows("SELECT axis FROM group_members ORDER BY group_id")
        assert [row["axis"] for row in rows] == ["dp", "dp", "tp", "tp"]
        assert run.ask("rank_places").column("dp").to_pylist() == [0, 1, 0, 1]


def test_a_group_along_no_axis_keeps_the_axis_of_the_files(tmp_path: Path) -> None:
    folder = imported(tmp_path / "run")
    with open_run(folder) as run:
        layout_correction.correct(run, layout_of({"tp": 4}))
        run.refresh()
        assert "other_comm" in kinds(run)
        assert "Of 4 recorded process groups, 4 run along no axis" in (
            layout_preview(run, layout_of({"tp": 4})).groups_note
        )
        fits = layout_preview(run, layout_of({"tp": 2, "dp": 2}))
        assert fits.groups_note == "The recorded process groups fit: 2 along dp, 2 along tp."
        assert fits.places[2] == (2, {"dp": 1, "tp": 0})


def test_an_inferred_layout_can_be_corrected_too(tmp_path: Path) -> None:
    folder = imported(tmp_path / "run", ParallelLayout.from_sizes(tp=4))
    with open_run(folder) as run:
        assert info(run)["layout_from"] == "process groups"
        layout_correction.correct(run, layout_of({"pp": 2, "tp": 2}))
        run.refresh()
        assert info(run)["layout"] == {"pp": 2, "tp": 2}
        assert run.ask("rank_places").column("pp").to_pylist() == [0, 0, 1, 1]


def test_peers_are_those_of_the_corrected_layout(tmp_path: Path) -> None:
    too_few = "All 4 ranks have fewer than 3 peers"
    with open_run(imported(tmp_path / "run")) as run:
        assert too_few not in str(diagnose_run(run).not_enough)
        layout_correction.correct(run, layout_of({"pp": 4}))  # one rank a stage
        run.refresh()
        assert too_few in str(diagnose_run(run).not_enough)


@pytest.mark.parametrize(
    ("sizes", "order", "sentence"),
    [
        ({"tp": 3}, "pp-dp-cp-tp", "tp 3 makes 3 ranks, the job had 4"),
        ({"tp": 8}, "pp-dp-cp-tp", "the sizes must multiply to 4"),
        ({"tp": 0}, "pp-dp-cp-tp", "axis tp has size 0"),
        ({"tp": -4}, "pp-dp-cp-tp", "axis tp has size -4"),
        ({"tp": 1 << 40}, "pp-dp-cp-tp", "give a whole number"),
        ({"xp": 4}, "pp-dp-cp-tp", "xp is not a parallel axis"),
        ({"tp": 4}, "pp-dp", "no place in the order"),
        ({"tp": 2, "dp": 2}, "tp-dp-tp", "named twice"),
        ({"tp": 2, "dp": 2}, "tp-dp-zz", "is not an axis"),
        ({"dp": 4, "ep": 3}, "pp-dp-cp-tp", "does not divide"),
        ({"dp": 2, "dp_shard": 2}, "dp-dp_shard", "not both"),
    ],
)
def test_what_fits_no_run_is_refused_in_a_sentence(
    tmp_path: Path, sizes: dict[str, int], order: str, sentence: str
) -> None:
    folder = imported(tmp_path / "run")
    with open_run(folder) as run:
        with pytest.raises(UserError, match=sentence):
            layout_correction.correct(run, layout_of(sizes, order))
        assert not (folder / "layout.json").exists()


def test_replicas_may_be_split_and_experts_have_their_own_axis(tmp_path: Path) -> None:
    layout = layout_of({"dp_replicate": 2, "dp_shard": 2, "ep": 2})
    assert str(layout) == "dp_replicate 2 x dp_shard 2, ep 2"
    assert layout.size("ep") == 2
    with open_run(imported(tmp_path / "run")) as run:
        layout_correction.correct(run, layout)
        run.refresh()
        assert run.ask("rank_places").column("dp").to_pylist() == [0, 1, 2, 3]


def test_a_world_size_missing_from_all_files_is_given_by_hand(tmp_path: Path) -> None:
    folder = imported(tmp_path / "run")
    for path in (folder / "ranks").iterdir():
        rank_info = json.loads(path.read_text())
        path.write_text(json.dumps({**rank_info, "world_size": -1}))
    with open_run(folder) as run:
        assert info(run)["world_size"] is None
        with pytest.raises(UserError, match="there is a rank 3"):
            layout_correction.correct(run, layout_of({"tp": 2}))
        layout_correction.correct(run, layout_of({"tp": 2, "dp": 4}))
        run.refresh()
        assert info(run)["world_size"] == 8


def test_a_layout_that_the_job_recorded_is_not_corrected(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run", 4, ParallelLayout.from_sizes(tp=4))
    builder.rank_files()
    folder = tmp_path / "run"
    for path in (folder / "ranks").iterdir():
        rank_info = json.loads(path.read_text())
        path.write_text(json.dumps({**rank_info, "hooks": {"level": 1}}))
    builder.publish()
    with open_run(folder) as run:
        with pytest.raises(UserError, match="nothing to correct"):
            layout_correction.correct(run, layout_of({"dp": 4}))
        other = {"axes": {"dp": 4}, "experts": {}, "mesh": None}
        text = json.dumps({"schema": "1.0", "layout": other, "corrected_ns": 1})
        (folder / "layout.json").write_text(text)  # put there by hand: it changes nothing
        run.refresh()
        assert (info(run)["layout"], info(run)["layout_from"]) == ({"tp": 4}, "job")


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"schema": "1.0"}',
        '{"schema": "9.0", "layout": {"axes": {"tp": 4}}}',
        '{"schema": "1.0", "layout": {"axes": {"zz": 4}}, "corrected_ns": 1}',
        '{"schema": "1.0", "layout": {"axes": {"tp": 4096, "pp": 16777216}}, "corrected_ns": 1}',
        '{"schema": "1.0", "layout": {"axes": {"tp": 4}, "mesh": [0, 0, 1, 2]}, "corrected_ns": 1}',
    ],
)
def test_a_damaged_record_is_a_problem_of_the_run_and_changes_nothing(
    tmp_path: Path, text: str
) -> None:
    folder = imported(tmp_path / "run")
    (folder / "layout.json").write_text(text)
    with open_run(folder) as run:
        assert info(run)["layout"] is None
        (problem,) = run.problems
        assert "layout.json" in problem
        layout_correction.correct(run, layout_of({"tp": 4}))
        run.refresh()
        assert (info(run)["layout"], run.problems) == ({"tp": 4}, [])


def test_the_verb_corrects_shows_and_takes_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(imported(tmp_path / "run"))
    assert main(["layout", folder, "--tp", "2", "--dp", "2"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "layout    dp 2 x tp 2 (corrected by hand)"
    assert out[4].split() == ["rank", "3", "dp", "1", "tp", "1"]
    assert out[5] == "The recorded process groups fit: 2 along dp, 2 along tp."
    assert main(["info", folder]) == 0
    assert "layout    dp 2 x tp 2 (corrected by hand)" in capsys.readouterr().out
    assert main(["layout", folder, "--as-imported", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "run": "run",
        "layout": None,
        "layout_from": None,
    }
    assert main(["layout", folder, "--tp", "3"]) == 2
    assert capsys.readouterr().err.startswith("rankscope layout: tp 3 makes 3 ranks")
    assert main(["layout", folder, "--tp", "4", "--as-imported"]) == 2


def test_of_a_folder_of_several_runs_none_is_corrected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        imported(tmp_path / name)
    assert main(["layout", str(tmp_path), "--tp", "4"]) == EXIT_USER_ERROR
    assert "holds 2 runs; name one of them" in capsys.readouterr().err
    assert not list(tmp_path.glob("*/layout.json"))
