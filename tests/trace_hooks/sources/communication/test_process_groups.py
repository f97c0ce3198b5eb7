"""Ids of groups, and groups that another thread makes."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
import torch.distributed as dist
from torch.distributed import distributed_c10d

from ingest.readers.tables import process_groups as imported
from trace_hooks.layout import ParallelLayout
from trace_hooks.recording.recorder import Recorder
from trace_hooks.schema import COMM_KINDS
from trace_hooks.sources.communication.process_groups import MOST_UNSEEN, Groups, group_id

pytestmark = pytest.mark.usefixtures("one_rank")


def test_group_ids_depend_on_order_and_ordinal_only() -> None:
    ids = {group_id((0, 1), 0), group_id((1, 0), 0), group_id((0, 1), 1), group_id((0, 11), 0)}
    assert len(ids) == 4
    assert all(0 < number < 2**63 for number in ids)
    assert group_id((0, 1), 0) == 8018046534862884534  # stands in files: never change it


def test_a_group_that_another_thread_is_just_making_is_added_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """torch enters a new group's name before its ranks."""
    half_made = SimpleNamespace(pg_names={object(): "new"}, pg_group_ranks={})
    monkeypatch.setattr(distributed_c10d, "_world", half_made)
    assert Groups(Recorder()).scan() == []


def test_the_axis_of_a_group_is_written_when_the_layout_becomes_known() -> None:
    recorder = Recorder()
    groups = Groups(recorder)
    assert groups.scan()[0].axis == "unknown"
    groups.resolve_axes()
    recorder.rank_state.layout = ParallelLayout((("dp", 2),))
    group = next(iter(groups._known.values()))
    group.ranks = (0, 1)  # of a world of one rank there is no axis
    groups.resolve_axes()
    groups.resolve_axes()
    written = [(table, row["group_id"], row["axis"]) for table, row in recorder.rows]
    assert written == [("groups", group.group_id, "unknown"), ("groups", group.group_id, "dp")]


def test_operations_of_a_group_of_one_rank_are_no_communication() -> None:
    groups = Groups(Recorder())
    groups.scan()
    group = next(iter(groups._known.values()))
    assert (group.ranks, group.kind) == ((0,), "host")
    group.ranks = (0, 1)
    assert group.kind == "other_comm"


@pytest.mark.parametrize("axis", ["tp", "pp", "dp", "ep", "cp"])
def test_communication_along_an_axis_has_the_kind_of_the_axis(axis: str) -> None:
    groups = Groups(Recorder())
    groups.scan()
    group = next(iter(groups._known.values()))
    group.ranks, group.axis = (0, 1), axis
    assert group.kind == f"{axis}_comm"
    assert group.kind in COMM_KINDS
    assert imported.Group("g", "", (0, 1), axis).kind == group.kind


class OwnGroup(dist.ProcessGroup):
    """A process group in Python, without a name, such as torchft's."""

    def getBackendName(self) -> str:
        return "own"


def test_a_group_of_a_class_of_the_jobs_own_is_one_as_well() -> None:
    dist.Backend.register_backend(
        "own", lambda store, *place: OwnGroup(*place[:2]), devices=["cpu"]
    )
    own = dist.new_group([0], backend="own")
    later = dist.new_group([0])
    try:
        names = [group.name for group in Groups(Recorder()).scan()]
        assert names[-2:] == [distributed_c10d._world.pg_names[own], later.group_name]
    finally:
        dist.destroy_process_group(later)
        world = distributed_c10d._world  # torch destroys it only together with all others
        for table in (world.pg_map, world.pg_names, world.pg_group_ranks):
            table.pop(own)


def test_gaps_that_nothing_reads_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """DDP's all-reduces in a job without the source flight_recorder, or with a disk that hangs."""
    (group,) = Groups(Recorder()).scan()
    group.claimed = group.count()
    counted, begun = 10 * MOST_UNSEEN, group.claimed
    for number in range(begun, begun + counted, 7):
        monkeypatch.setattr(group, "count", lambda n=number: n)
        with group.lock:
            group.note_unseen()
    assert group.claimed == number
    assert MOST_UNSEEN // 3 <= len(group.unseen) <= MOST_UNSEEN
    assert list(group.unseen.values())[-1] == number
    assert len(group.unseen) + group.forgotten == number - begun


def test_a_lock_the_training_thread_was_interrupted_in_does_not_stop_the_drain_thread() -> None:
    groups = Groups(Recorder())
    answers: list[Any] = []
    with groups._lock:
        drain = threading.Thread(target=lambda: answers.append(groups.scan()))
        drain.start()
        drain.join(60)
    assert answers == [[]]
