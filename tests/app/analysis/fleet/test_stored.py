"""Summaries of real small runs, and how they are stored and read with distrust."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.analysis.fleet.collected import collected, complete
from app.analysis.fleet.stored import FILE, new_summary, stored_summary, version
from app.analysis.fleet.summarise import model_of
from ingest.errors import UserError
from ingest.index.snapshots import index_folder
from ingest.stopping import Interrupted, Stop
from tests.runs_builder import T0, RunBuilder, restarted_run, two_rank_run
from tests.selftest_runs import selftest_run

END = {"ts_ns": T0 + 10**6, "status": "finished", "error": None}


def settled(folder: Path) -> Path:
    """The folder, changed some seconds ago: what changed just now is looked at again."""
    for path in (folder, *folder.iterdir()):
        if path.name != "index":
            os.utime(path, ns=(T0, T0))
    return folder


def test_what_a_summary_holds(tmp_path: Path) -> None:
    run = two_rank_run(tmp_path / "a", num_steps=8)
    run.rank_files(end=END)
    summary = new_summary(settled(run.folder))
    assert (summary.version, summary.run, summary.num_ranks) == (version(), "a", 2)
    assert (summary.attempts, summary.num_steps) == (1, 8)
    assert summary.step_ms == pytest.approx(0.1)
    assert summary.wall_s == pytest.approx(0.001)
    assert summary.rank_hours == pytest.approx(2 * 0.001 / 3600)
    assert summary.goodput == pytest.approx(0.8)
    assert summary.outside_hours == {"stalled": pytest.approx(2 * 0.0002 / 3600)}
    assert summary.hosts == ("h0",)
    assert summary.layout == "tp 2"
    assert summary.started_ns == T0
    assert summary.S is not None
    assert summary.no_S == ""


def test_the_time_of_a_self_test_is_not_lost_before_its_first_step(tmp_path: Path) -> None:
    summary = new_summary(settled(selftest_run(tmp_path / "test").folder))
    assert summary.rank_hours == pytest.approx(8 * 10 / 3600)
    assert (summary.outside_hours, summary.goodput) == ({}, None)
    assert (summary.S, summary.no_S) == (None, "")


def test_mfu_of_a_job_that_logs_flops_on_a_known_device(tmp_path: Path) -> None:
    """1e9 FLOPs in 100 us on two ranks of 989.4e12 FLOP/s each (H100 SXM, dense bf16)."""
    run = two_rank_run(tmp_path / "a", num_steps=8)
    for file in (run.folder / "ranks").iterdir():
        plain = json.loads(file.read_text()) | {"device": "NVIDIA H100 80GB HBM3"}
        file.write_text(json.dumps(plain))
    summary = new_summary(settled(run.folder))
    assert summary.mfu == pytest.approx(1e9 / 1e-4 / (2 * 989.4e12), rel=0.01)


def test_repeated_steps_and_restarts_are_outside_kept_steps(tmp_path: Path) -> None:
    summary = new_summary(settled(restarted_run(tmp_path / "a").folder))
    assert summary.attempts == 2
    assert summary.outside_hours["rewound"] == pytest.approx(2 * 0.0002 / 3600)


def test_it_is_read_again_without_looking_at_the_run(tmp_path: Path) -> None:
    folder = settled(two_rank_run(tmp_path / "a").folder)
    assert stored_summary(folder) is None
    summary = new_summary(folder)
    stored = stored_summary(folder)
    assert stored is not None
    assert (stored.summary, stored.is_newest) == (summary, True)


def test_a_run_that_has_grown_is_summarised_again(tmp_path: Path) -> None:
    run = two_rank_run(tmp_path / "a", num_steps=3)
    first = new_summary(settled(run.folder))
    for rank in range(2):
        run.step(rank, 3, 300, 400)
    run.publish()
    stored = stored_summary(run.folder)
    assert stored is not None
    assert not stored.is_newest
    again = new_summary(run.folder)
    assert (first.num_steps, again.num_steps) == (3, 4)
    assert again.state != first.state


def test_a_summary_of_the_same_state_is_not_made_again(tmp_path: Path) -> None:
    folder = settled(two_rank_run(tmp_path / "a").folder)
    changed = msgspec.structs.replace(new_summary(folder), model="from the file")
    file = index_folder(folder) / FILE
    file.write_bytes(msgspec.json.encode(changed))
    assert new_summary(folder).model == "from the file"


DAMAGES: dict[str, Any] = {
    "version": "another",
    "S": -1.0,
    "mfu": "0.4",
    "num_ranks": -5,
    "model": "x" * 201,
    "rank_hours": 1e30,
    "goodput": 1.5,
    "hosts": ["h"] * 20_000,
    "outside_hours": {"<b>": 1.0},
    "findings": [{"id": "x"}],
    "started_ns": 2**70,
}


@pytest.mark.sampled(every=9)
@pytest.mark.parametrize("field", DAMAGES)
def test_a_summary_with_a_value_that_cannot_be_is_none(tmp_path: Path, field: str) -> None:
    folder = settled(two_rank_run(tmp_path / "a").folder)
    new_summary(folder)
    file = index_folder(folder) / FILE
    plain = json.loads(file.read_text()) | {field: DAMAGES[field]}
    file.write_text(json.dumps(plain))
    assert stored_summary(folder) is None
    assert getattr(new_summary(folder), field) != DAMAGES[field]
    assert stored_summary(folder) is not None


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b"null", b"\xff\xfe", b"{}"])
def test_a_file_that_is_no_summary_is_none(tmp_path: Path, content: bytes) -> None:
    folder = settled(two_rank_run(tmp_path / "a").folder)
    new_summary(folder)
    (index_folder(folder) / FILE).write_bytes(content)
    assert stored_summary(folder) is None


def test_a_link_or_a_pipe_in_its_place_is_not_read(tmp_path: Path) -> None:
    folder = settled(two_rank_run(tmp_path / "a").folder)
    new_summary(folder)
    file = index_folder(folder) / FILE
    file.rename(tmp_path / "elsewhere.json")
    os.mkfifo(file)
    assert stored_summary(folder) is None
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere.json")
    assert stored_summary(folder) is None


def test_of_a_folder_that_cannot_be_written_it_lies_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = settled(two_rank_run(tmp_path / "runs" / "a").folder)
    (folder / "index").write_text("in the way of the index: root may write anywhere")
    found = collected([folder])
    complete(found)
    assert found.elsewhere == ["a"]
    assert list((tmp_path / "cache").rglob(FILE))
    assert collected([folder]).missing == []


def test_who_is_interrupted_goes_on_there(tmp_path: Path) -> None:
    folders = [settled(two_rank_run(tmp_path / name).folder) for name in "abc"]
    found, stop = collected(folders), Stop()

    def stop_at_b(done: int, total: int, name: str) -> None:
        assert (total, name) == (3, "abc"[done])
        if name == "b":
            stop()

    with pytest.raises(Interrupted):
        complete(found, stop_at_b, stop)
    again = collected(folders)
    assert set(again.summaries) == {"a"}
    assert [folder.name for folder in again.missing] == ["b", "c"]


def test_a_run_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    good = settled(two_rank_run(tmp_path / "good").folder)
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "run.json").write_text("{")
    found = collected([bad, good])
    complete(found)
    assert set(found.summaries) == {"good"}
    assert "cannot be read as JSON" in found.problems["bad"]


def test_a_run_without_data_has_a_summary(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "a")
    summary = new_summary(settled(run.folder))
    assert (summary.num_ranks, summary.num_steps, summary.rank_hours) == (0, 0, None)
    assert (summary.S, summary.judged) == (None, False)
    assert summary.no_S


def test_a_run_that_is_being_imported_waits(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "a", source="kineto", importing=True)
    with pytest.raises(UserError, match="being imported"):
        new_summary(settled(run.folder))


def test_without_a_calendar_no_start_is_known(tmp_path: Path) -> None:
    run = two_rank_run(tmp_path / "a")
    info = json.loads((run.folder / "run.json").read_text())
    (run.folder / "run.json").write_text(json.dumps(info | {"clock": "unknown"}))
    assert new_summary(settled(run.folder)).started_ns is None


def test_a_clock_that_was_never_set_makes_no_run_decades_long(tmp_path: Path) -> None:
    run = two_rank_run(tmp_path / "a")
    for file in (run.folder / "ranks").iterdir():
        file.write_text(json.dumps(json.loads(file.read_text()) | {"started_ns": 5}))
    summary = new_summary(settled(run.folder))
    assert (summary.started_ns, summary.wall_s, summary.rank_hours) == (None, None, None)
    assert summary.outside_hours == {}
    assert summary.goodput is None


@pytest.mark.parametrize(
    ("model", "label", "parameters"),
    [
        (None, "", None),
        ([1], "", None),
        ({"name": " Llama 7B ", "parameters": 7e9}, "Llama 7B", 7e9),
        ({"name": "x" * 500}, "x" * 200, None),
        ({"name": "a\x1b[31mb"}, "a\\x1b[31mb", None),
        ({"name": 3, "parameters": 3407872, "layers": 4}, "3.41M parameters, 4 layers", 3407872.0),
        ({"parameters": True, "layers": -1}, "", None),
        ({"parameters": 5e11, "experts": 64}, "500B parameters, 64 experts", 5e11),
    ],
)
def test_what_a_model_is_called(model: Any, label: str, parameters: float | None) -> None:
    assert model_of(model) == (label, parameters)
