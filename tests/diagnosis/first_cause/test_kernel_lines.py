"""Whose processes the kernel's lines are about."""

from __future__ import annotations

from dataclasses import replace

from diagnosis.first_cause.kernel_lines import of_this_job
from tests.diagnosis.first_cause.made_lines import XID, line
from trace_hooks.log_text.labels import label_of

ANNOUNCED = line("python invoked oom-killer: gfp_mask=0xcc0", 0, host="n1", stream="kernel")
KILLED = line("Out of memory: Killed process 71 (python)", 1, 3, host="n1", stream="kernel")
ELSEWHERE = line("python invoked oom-killer: gfp_mask=0xcc0", 0, host="n2", stream="kernel")
_CRASH = "python[99]: segfault at 10 ip 00007f rsp 00007f error 4 in libc.so.6"
CRASHED = line(_CRASH, 3, host="n1", stream="kernel")
HARDWARE = line(XID, 2, host="n1", stream="kernel")


def signs(status: str | None = None, is_lost: bool = False) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = [{"rank": r, "status": None, "is_lost": False} for r in (0, 3)]
    rows[1] |= {"status": status, "is_lost": is_lost}
    return rows


def test_the_announcement_is_about_the_rank_that_is_named_behind_it() -> None:
    for ranks in ([], signs(is_lost=True), signs("failed")):
        found = of_this_job([ANNOUNCED, KILLED, ELSEWHERE], ranks)
        assert [each.rank for each in found] == [3, 3, -1]


def test_an_announcement_counts_once_its_victim_is_known() -> None:
    lost, stranger = signs(is_lost=True), replace(KILLED, rank=-1)
    assert of_this_job([ANNOUNCED], lost, hosts={"n1"}) == []
    assert of_this_job([ANNOUNCED], lost, hosts={"n2"}) == [ANNOUNCED]
    assert of_this_job([ANNOUNCED, stranger], lost, hosts={"n1"}) == [ANNOUNCED, stranger]
    assert of_this_job([ANNOUNCED, stranger, KILLED], lost, hosts={"n1"})[0].rank == 3


def test_where_all_ranks_live_the_killer_took_somebody_elses_process() -> None:
    assert of_this_job([ANNOUNCED, KILLED, HARDWARE], signs()) == [HARDWARE]


def test_where_all_ranks_live_somebody_elses_process_crashed() -> None:
    assert of_this_job([CRASHED], signs()) == []


def test_where_the_processes_of_all_ranks_are_known_one_that_is_none_was_somebody_elses() -> None:
    loader = line("ERROR: Unexpected segmentation fault encountered in DataLoader worker", 4)
    lost = signs(is_lost=True)
    assert of_this_job([CRASHED], lost, hosts={"n1"}) == []
    assert of_this_job([CRASHED], lost, hosts={"n2"}) == [CRASHED]
    assert of_this_job([CRASHED, loader], lost, hosts={"n1"}) == [CRASHED, loader]
    of_rank = replace(CRASHED, rank=3)
    assert of_this_job([of_rank], lost, hosts={"n1"}) == [of_rank]


def test_a_frame_of_the_kernels_own_stack_is_no_message() -> None:
    assert label_of(" mem_cgroup_out_of_memory+0xc0/0x110") == ""
