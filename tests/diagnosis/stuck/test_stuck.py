"""Who is waited for and why, from hand-made answers: one case for each decision."""

from __future__ import annotations

import inspect
from typing import Any

import pyarrow as pa
import pytest

from diagnosis.detectors.stuck import detect
from diagnosis.findings import Finding
from diagnosis.stuck import causes, dead_processes, finding_maker, several
from diagnosis.stuck.causes import COMES_LATER, cause_of
from diagnosis.stuck.evidence import evidence_of
from diagnosis.stuck.text import status_of
from diagnosis.stuck.waiting import waiting_of
from tests.diagnosis.stuck.stuck_tables import (
    IN_ALL_REDUCE,
    IN_CODE,
    IN_LOADER,
    SINCE_NS,
    entered,
    look,
    tables,
)

WAIT = [entered(rank, 31) for rank in (0, 1, 3)] + [entered(2, 30, "completed")]
SAVING = "dump job/io.py:12\nwrite_checkpoint job/io.py:30"
OTHERS = [look(rank) for rank in (0, 1, 3)]


def found(*args: Any, **given: Any) -> list[Finding]:
    verdict = detect(tables(*args, **given), 0)
    assert verdict is not None
    return list(verdict.findings)


def summary(finding: Finding) -> tuple[str, list[int], str]:
    return finding.kind, [place.rank for place in finding.culprits], finding.confidence


@pytest.mark.parametrize(
    ("changed", "kind", "confidence", "words"),
    [
        ({"stack": IN_CODE}, "missing_rank", "high", "prepare job/train.py:12"),
        ({"stack": IN_CODE, "earlier_stack": None}, "missing_rank", "medium", "prepare"),
        ({"stack": None, "process": "T"}, "hung_rank", "high", "stopped by a signal"),
        ({"stack": IN_CODE, "beat_age_ms": 9e3}, "hung_rank", "high", "holds the GIL"),
        ({"stack": None, "beat_age_ms": 9e3}, "hung_rank", "medium", "sends no heartbeats"),
        (
            {"stack": "__init__ site-packages/torch/serialization.py:9\nsave job/train.py:5"}
            | {"beat_age_ms": 9e3},
            "stalled_storage",
            "high",
            "holds the GIL",
        ),
        (
            {"stack": IN_CODE, "cpu_ms": 4900.0, "quiet_ms": 61e3},
            "hung_rank",
            "medium",
            "does not come back",
        ),
        ({"stack": IN_LOADER}, "data_stalled", "high", "waits for the data loader"),
        (
            {"stack": "load site-packages/torch/serialization.py:9\nrestore job/train.py:5"},
            "stalled_storage",
            "high",
            "restore job/train.py:5",
        ),
        ({"stack": IN_CODE, "call": "wait_for_partner"}, "stalled_storage", "high", "prepare"),
        ({"stack": SAVING, "call": "pipe_write"}, "stalled_storage", "high", "write_checkpoint"),
        ({"stack": SAVING, "quiet_ms": 301e3}, "missing_rank", "high", "write_checkpoint"),
    ],
)
def test_why_a_rank_does_not_come(
    changed: dict[str, Any], kind: str, confidence: str, words: str
) -> None:
    seen = {"earlier_stack": changed["stack"], **changed}
    (finding,) = found(WAIT, [*OTHERS, look(2, **seen)])
    assert summary(finding) == (kind, [2], confidence)
    assert words in finding.text
    assert finding.text.startswith("Ranks 0, 1 and 3 wait for rank 2 in all_reduce 31 of group g7")
    assert " for 9 s" in finding.text
    assert finding.victims == (0, 1, 3)
    assert finding.first_step == 30


def test_what_uses_a_core_on_a_rank_with_a_gpu_may_wait_for_the_gpu() -> None:
    """torch spins in item() and synchronize(): seen with a kernel that did not end."""
    answers = tables(WAIT, [*OTHERS, look(2, IN_CODE, cpu_ms=4900.0, quiet_ms=61e3)])
    places = answers["rank_places"].to_pylist()
    gpu = pa.Table.from_pylist(
        [row | {"device": "NVIDIA H200"} for row in places], answers["rank_places"].schema
    )
    for given, words, step in (
        (answers, "computes in prepare", ""),
        (answers | {"rank_places": gpu}, "computes or waits for its GPU in prepare", "nvidia-smi"),
    ):
        verdict = detect(given, 0)
        assert verdict is not None
        (finding,) = verdict.findings
        assert words in finding.text
        assert ("nvidia-smi" in finding.next_step) == bool(step)


@pytest.mark.parametrize(
    "changed",
    [
        {"stack": "compile site-packages/torch/_inductor/graph.py:9\nstep job/train.py:3"},
        {
            "stack": "save site-packages/torch/serialization.py:9\nsave job/train.py:5",
            "still_ms": 0.0,
        },
        {"stack": IN_CODE, "cpu_ms": 4900.0},
        {"stack": IN_CODE, "process": "R", "call": ""},
        {"stack": IN_CODE, "quiet_ms": 14e3},
        {"stack": IN_CODE, "quiet_ms": 29e3, "longest_ms": 10e3},
        {"stack": IN_CODE, "step": 1},
        {"stack": IN_CODE, "earlier_stack": IN_LOADER},
        {"stack": IN_CODE, "beat_age_ms": 12e3, "cpu_ms": 4900.0},
        {"stack": IN_CODE, "process": "t"},
        {"stack": "wait lib/python3.12/pdb.py:9\n" + IN_CODE},
        {"stack": IN_CODE + "\nevaluate job/train.py:90"},
        {"stack": None, "since_ms": None},
    ],
    ids=[
        "compilation",
        "a checkpoint whose bytes flow",
        "a computation",
        "a computation that gets little of a core",
        "not for long",
        "it has been as long before",
        "before the first steps",
        "somewhere else by now",
        "a call that holds the GIL and computes",
        "stopped by a debugger",
        "in pdb",
        "an evaluation",
        "seen once",
    ],
)
def test_what_is_slow_and_moves_is_no_finding(changed: dict[str, Any]) -> None:
    seen = {"earlier_stack": changed["stack"], **changed}
    assert found(WAIT, [*OTHERS, look(2, **seen)]) == []


def test_the_only_rank_of_a_job_waits_for_nobody() -> None:
    (finding,) = found(
        [entered(0, 30, "completed")],
        [look(0, None, process="T")],
        groups={7: [0]},
    )
    assert finding.title == "The only rank is hung"
    assert finding.text.startswith("Its process is stopped by a signal")


def test_a_rank_that_nobody_has_looked_at_yet_is_named_only_after_a_while() -> None:
    """Looks at the ranks of a host come in files of their own, one after another."""
    assert found(WAIT, [look(rank, quiet_ms=5000.0) for rank in (0, 1, 3)]) == []
    (finding,) = found(WAIT, OTHERS)
    assert summary(finding) == ("missing_rank", [2], "low")


def test_what_has_gone_on_since_is_no_finding() -> None:
    assert found(WAIT, [*OTHERS, look(2, IN_CODE, has_moved=True)]) == []


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({"op": "broadcast"}, "mismatched_op"),
        ({"dtype": "float64"}, "mismatched_dtype"),
        ({"num_bytes": 2000}, "mismatched_size"),
    ],
)
def test_the_minority_entered_something_else(changed: dict[str, Any], kind: str) -> None:
    rows = [entered(rank, 31) for rank in (0, 1, 3)] + [entered(2, 31, **changed)]
    (finding,) = found(rows, [look(rank) for rank in range(4)])
    assert summary(finding) == (kind, [2], "high")


def test_the_status_says_who_is_in_which_operation() -> None:
    rows = [entered(rank, 31) for rank in (0, 1, 3)] + [entered(2, 31, op="broadcast")]
    evidence = evidence_of(tables(rows, [look(rank) for rank in range(4)]))
    assert status_of(waiting_of(evidence), evidence) == (
        "4 ranks are in number 31 of group g7 (dp) for 9 s: "
        "rank 2 in broadcast, ranks 0, 1 and 3 in all_reduce."
    )


def test_of_a_pair_that_differs_both_are_named() -> None:
    rows = [entered(0, 5), entered(1, 5, num_bytes=2000)]
    (finding,) = found(rows, [look(0), look(1)], {7: [0, 1]})
    assert summary(finding) == ("mismatched_size", [0, 1], "medium")


def test_halves_that_differ_accuse_nobody() -> None:
    rows = [entered(rank, 31, num_bytes=4000 if rank < 2 else 2000) for rank in range(4)]
    kinds = {finding.kind for finding in found(rows, [look(rank, IN_CODE) for rank in range(4)])}
    assert kinds == set()


def test_sizes_of_all_to_all_may_differ() -> None:
    rows = [entered(r, 31, op="all_to_all", num_bytes=100 * r) for r in range(1, 4)]
    assert found(rows, [look(rank, IN_CODE) for rank in range(1, 4)], {7: [1, 2, 3]}) == []


def test_a_cycle_of_two_groups() -> None:
    groups = {7: [0, 1, 2, 3], 8: [1, 2]}
    rows = [entered(rank, 31) for rank in (0, 2, 3)] + [entered(1, 30, "completed")]
    rows += [entered(1, 4, group_id=8), entered(2, 3, "completed", group_id=8)]
    (finding,) = found(rows, [look(rank) for rank in range(4)], groups)
    assert summary(finding) == ("group_order_deadlock", [1, 2], "high")
    assert "Rank 1 waits for rank 2 in all_reduce 4 of group g8" in finding.text


def test_a_chain_of_waits_names_where_it_begins() -> None:
    """2 waits for 3 in a group of the two; the others wait for 2, and later for 3."""
    groups = {7: [0, 1, 2, 3], 8: [2, 3]}
    rows = [entered(rank, 31, enqueue_ns=SINCE_NS + 5) for rank in (0, 1)]
    rows += [entered(rank, 30, "completed") for rank in (2, 3)]
    rows += [entered(2, 4, group_id=8), entered(3, 3, "completed", group_id=8)]
    (finding,) = found(rows, [*(look(r) for r in range(3)), look(3, IN_CODE)], groups)
    assert summary(finding) == ("missing_rank", [3], "high")
    assert finding.text.startswith("Rank 2 waits for rank 3 in all_reduce 4 of group g8")


def test_a_receive_waits_for_the_sender() -> None:
    rows = [
        entered(3, 1, op="recv", peer=2, tag=0),
        entered(2, 0, "completed", op="send", peer=3, tag=0),
    ]
    (finding,) = found(rows, [look(3), look(2, IN_CODE)])
    assert summary(finding) == ("missing_rank", [2], "high")
    assert finding.title == "Rank 2 did not send to rank 3"


@pytest.mark.parametrize(("later", "root"), [(False, 2), (True, 3)])
def test_a_send_that_blocks_waits_for_the_receiver(later: bool, root: int) -> None:
    """Rank 2 waits for data; where 3 has entered something since, its send is not what it is in."""
    rows = [entered(rank, 31) for rank in (0, 1)] + [entered(2, 30, "completed")]
    rows += [entered(3, 30, "completed"), entered(2, 8, "completed", op="recv", peer=3, tag=0)]
    rows += [entered(3, 9, op="send", peer=2, tag=0)]
    rows += [entered(3, 2, "completed", group_id=8, enqueue_ns=SINCE_NS + 9)] * later
    looks = [*OTHERS[:2], look(2, IN_LOADER), look(3)]
    findings = found(rows, looks, {7: [0, 1, 2, 3], 8: [3]})
    assert sorted(place.rank for one in findings for place in one.culprits) == sorted({2, root})


def test_a_group_that_one_rank_does_not_make() -> None:
    making = "new_group site-packages/torch/distributed/distributed_c10d.py:5\nsetup job/train.py:3"
    (finding,) = found([], [*(look(r, making) for r in (0, 1, 3)), look(2, IN_CODE)])
    assert summary(finding) == ("missing_rank", [2], "high")
    assert "wait for rank 2 in new_group" in finding.text


MAKING_FIRST = (
    "_create_c10d_store site-packages/torch/distributed/rendezvous.py:199\n"
    "init_process_group site-packages/torch/distributed/distributed_c10d.py:1892\n"
    "main job/train.py:8"
)


@pytest.mark.parametrize(
    ("looks", "status"),
    [
        (
            [*(look(r, MAKING_FIRST, step=-1) for r in (0, 1, 3)), look(2, IN_CODE, step=-1)],
            "Ranks 0, 1 and 3 wait for rank 2 in init_process_group for 18 s.",
        ),
        (
            [look(0, MAKING_FIRST, step=-1)],
            "Rank 0 waits in init_process_group for 18 s; nothing is known of ranks 1, 2 and 3.",
        ),
        ([look(0, MAKING_FIRST, step=-1, quiet_ms=9e3), look(2, IN_CODE, step=-1)], ""),
        ([look(rank, MAKING_FIRST, step=-1) for rank in range(4)], ""),
    ],
    ids=["one is elsewhere", "the others are unknown", "they are just starting", "all are there"],
)
def test_before_the_first_group_the_status_says_who_is_not_there(
    looks: list[dict[str, Any]], status: str
) -> None:
    evidence = evidence_of(tables([], looks))
    assert status_of(waiting_of(evidence), evidence) == status
    assert found([], looks) == []


def test_a_stopped_process_runs_while_it_is_killed() -> None:
    """As seen in a job whose processes were all killed while the watchdog looked at them."""
    dying = {"process": "R", "call": "", "stack": None, "earlier_stack": None, "beat_age_ms": 13e3}
    signs = [{"rank": rank, "is_lost": True} for rank in range(4)]
    (finding,) = found(WAIT, [*OTHERS, look(2, earlier_process="T", **dying)], signs=signs)
    assert summary(finding) == ("hung_rank", [2], "high")
    assert "stopped by a signal" in finding.text


def test_of_a_rank_that_is_looked_at_while_it_is_killed_the_look_before_stands() -> None:
    making = "new_group site-packages/torch/distributed/distributed_c10d.py:5\nsetup job/train.py:3"
    dying = {"process": "R", "call": "", "earlier_stack": making, "since_ms": 2000.0}
    looks = [look(0, making), look(1, None, **dying), look(2, IN_CODE), look(3, None, **dying)]
    signs = [{"rank": rank, "is_lost": True} for rank in range(4)]
    (finding,) = found([], looks, signs=signs)
    assert summary(finding) == ("missing_rank", [2], "high")


@pytest.mark.parametrize(("stack", "count"), [(IN_ALL_REDUCE, 1), (IN_CODE, 0)])
def test_a_collective_that_all_have_entered(stack: str, count: int) -> None:
    rows = [entered(rank, 31, enqueue_ns=SINCE_NS - 5 * 10**9) for rank in range(4)]
    findings = found(rows, [look(rank, stack) for rank in range(4)])
    assert [summary(one) for one in findings] == [("stalled_network", [], "medium")] * count


def test_a_message_that_both_of_its_ranks_are_in() -> None:
    """The others wait for one of them, which is in the network, and not missing."""
    long_ns = SINCE_NS - 5 * 10**9
    rows = [entered(rank, 31) for rank in (0, 1)] + [entered(r, 30, "completed") for r in (2, 3)]
    rows += [entered(2, 9, op="recv", peer=3, tag=0, enqueue_ns=long_ns)]
    rows += [entered(3, 9, op="send", peer=2, tag=0, enqueue_ns=long_ns)]
    (finding,) = found(rows, [look(rank) for rank in range(4)])
    assert summary(finding) == ("stalled_network", [], "medium")
    (finding,) = found(rows, [*(look(rank) for rank in range(3)), look(3, None, process="T")])
    assert summary(finding) == ("hung_rank", [3], "high")


@pytest.mark.parametrize("op", ["broadcast", "all_gather"])
def test_what_every_member_has_entered_keeps_some_of_them(op: str) -> None:
    """Ranks 0 and 2 give other roots: the others leave, and wait for both in what comes next."""
    rows = [entered(rank, 30, op=op) for rank in (0, 2)]
    rows += [entered(rank, 30, "completed", op=op) for rank in (1, 3)]
    rows += [entered(rank, 31, enqueue_ns=SINCE_NS + 5) for rank in (1, 3)]
    looks = [look(rank) for rank in range(4)]
    assert found(rows, looks) == []
    how = cause_of(2, evidence_of(tables(rows, looks))).how
    assert how.startswith(f"it is still in {op} 30 of group g7 (dp), which every member has")
    assert ("different roots" in how) == (op == "broadcast")


@pytest.mark.parametrize("changed", [{"process": "T"}, {"stack": IN_CODE}])
def test_one_that_leaves_the_last_collective_or_is_stopped_in_it_is_named(
    changed: dict[str, Any],
) -> None:
    rows = [entered(2, 30), *(entered(rank, 31) for rank in (0, 1, 3))]
    (finding,) = found(rows, [*OTHERS, look(2, **changed)])
    assert [place.rank for place in finding.culprits] == [2]


def test_two_ranks_are_spoken_of_as_two() -> None:
    waits = [entered(rank, 31) for rank in (0, 1)] + [entered(2, 30), entered(3, 30)]
    seen = [look(rank, IN_CODE, earlier_stack=IN_CODE) for rank in (2, 3)]
    (finding,) = found(waits, [look(0), look(1), *seen])
    assert finding.cause.startswith("each of ranks 2 and 3: its main thread is in ")
    assert "do they wait for a lock" in finding.next_step
    assert "what these ranks do with their peers" in finding.next_step
    assert finding.alternatives[0].startswith("They come later:")
    elsewhere = look(3, "step job/train.py:7", earlier_stack="step job/train.py:7")
    (finding,) = found(waits, [look(0), look(1), seen[0], elsewhere])
    assert finding.cause.startswith("rank 2: its main thread is in prepare job/train.py:12; rank 3")


def test_each_sentence_on_several_ranks_is_one_on_one_rank() -> None:
    sources = "".join(map(inspect.getsource, (causes, dead_processes, finding_maker)))
    said = sources.replace('"\n    "', "")
    assert [one for one, _ in several.OF_SEVERAL if one not in said] == []


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({"stack": IN_LOADER}, "data_stalled"),
        ({"stack": SAVING, "call": "nfs_wait_bit_killable"}, "stalled_storage"),
        ({"stack": None, "process": "T"}, "hung_rank"),
        ({"stack": IN_CODE}, ""),
    ],
)
def test_what_keeps_all_ranks_at_once_names_none_of_them(
    changed: dict[str, Any], kind: str
) -> None:
    rows = [entered(rank, 31, "completed") for rank in range(4)]
    looks = [look(rank, **changed) for rank in range(4)]
    findings = found(rows, looks)
    assert [summary(one)[:2] for one in findings] == ([(kind, [])] if kind else [])
    if findings:
        assert findings[0].title.startswith("All 4 ranks are")
        assert found(rows, [*looks[:3], look(3, IN_CODE)]) == []
        assert found(rows, looks[:3]) == []


@pytest.mark.parametrize(("threads", "ranks"), [(IN_ALL_REDUCE.split("\n")[0], []), (None, [0])])
def test_two_threads_in_one_group_are_the_fault_of_no_rank(
    threads: str | None, ranks: list[int]
) -> None:
    """A checkpoint in the background uses the group of the training."""
    rows = [entered(0, 31), entered(0, 32, op="broadcast")]
    rows += [entered(rank, 31, op="broadcast") for rank in (1, 2, 3)]
    rows += [entered(rank, 32) for rank in (1, 2, 3)]
    (finding,) = found(rows, [look(rank, threads=threads) for rank in range(4)])
    assert summary(finding) == ("mismatched_op", ranks, "high")


def ended(*statuses: str | None) -> list[dict[str, Any]]:
    return [{"rank": rank, "status": status} for rank, status in enumerate(statuses)]


@pytest.mark.parametrize("looks", [[], [look(rank, has_moved=True) for rank in range(4)]])
def test_one_that_came_to_its_end_before_a_collective_of_all(looks: list[dict[str, Any]]) -> None:
    """The others fail as its connections close, mostly before anybody looks at them."""
    signs = ended("failed", "failed", "finished", "stopped")
    rows = [entered(rank, 31, "completed") for rank in (0, 1, 3)] + [entered(2, 30, "completed")]
    given = tables(rows, looks or [look(0)], signs=signs)
    if not looks:
        given["rank_looks"] = given["rank_looks"].slice(0, 0)
    verdict = detect(given, 0)
    assert verdict is not None
    (finding,) = verdict.findings
    assert summary(finding) == ("missing_rank", [2], "high")
    assert finding.title == "Rank 2 ended before all_reduce 31"
    assert finding.victims == (0, 1, 3)


@pytest.mark.parametrize(
    ("statuses", "seqs"),
    [
        (("failed", "failed", "finished", "stopped"), (31, 31, 31, 31)),
        (("failed", "finished", "finished", "finished"), (32, 31, 31, 31)),
        ((None, None, "finished", None), (31, 31, 30, 31)),
    ],
    ids=["it has entered the last one", "most have ended", "the others are about to end"],
)
def test_who_is_at_the_end_has_not_left_early(
    statuses: tuple[str | None, ...], seqs: tuple[int, ...]
) -> None:
    rows = [entered(rank, seq, "completed") for rank, seq in enumerate(seqs)]
    looks = [look(rank, has_moved=True) for rank in range(4)]
    assert found(rows, looks, signs=ended(*statuses)) == []


def test_what_a_job_died_of_counts_though_its_ranks_had_gone_on_since_the_look() -> None:
    """gloo aborts the rank with the smaller tensor, and the launcher stops the others."""
    rows = [entered(rank, 31) for rank in (0, 1, 3)] + [entered(2, 31, num_bytes=8)]
    looks = [look(rank, has_moved=True) for rank in range(4)]
    assert found(rows, looks) == []
    signs = [*ended("stopped", "stopped", None, "stopped")[:2], {"rank": 2, "is_lost": True}]
    (finding,) = found(rows, looks, signs=[*signs, {"rank": 3, "status": "stopped"}])
    assert summary(finding) == ("mismatched_size", [2], "high")


def test_a_rank_that_died_while_others_waited_is_left_to_dead_rank() -> None:
    signs = [{"rank": 2, "is_lost": True}]
    assert found(WAIT, [*OTHERS, look(2, None, process="gone")], signs=signs) == []


def test_a_rank_that_was_killed_after_it_hung_had_hung() -> None:
    signs = [{"rank": 2, "is_lost": True}]
    (finding,) = found(WAIT, [*OTHERS, look(2, None, process="T")], signs=signs)
    assert summary(finding) == ("hung_rank", [2], "high")


def test_a_dump_shows_who_is_behind_and_who_is_absent() -> None:
    """Members at an older open collective, and one that has recorded nothing at all."""
    rows = [entered(0, 40), entered(1, 38)]
    (finding,) = found(rows, [], {7: [0, 1, 2]})
    assert summary(finding) == ("missing_rank", [1, 2], "medium")
    behind = (
        "Rank 1: it has not completed all_reduce 38 of group g7 (dp), which other members have left"
    )
    assert f"{behind}; rank 2: nothing says what it does instead." in finding.text


def test_nothing_is_said_of_a_run_that_nobody_looked_at() -> None:
    assert detect(tables([], []), 0) is None
    without = dict(tables(WAIT, OTHERS))
    del without["entered_collectives"]
    assert detect(without, 0) is None


def test_who_never_comes_to_a_job_that_is_over_is_not_said_to_come_later() -> None:
    rows = [entered(rank, 31) for rank in (0, 1, 3)] + [entered(2, 30, "completed")]
    looks = [*(look(rank) for rank in (0, 1, 3)), look(2, IN_CODE)]
    for signs, alternatives in ((None, (COMES_LATER,)), (ended(*["stopped"] * 4), ())):
        verdict = detect(tables(rows, looks, signs=signs), 0)
        assert verdict is not None
        (finding,) = verdict.findings
        assert finding.alternatives == alternatives
        assert finding.next_step.startswith("Read prepare job/train.py:12: does it wait for a lock")


def test_ranks_that_wait_without_a_finding_are_named_in_what_was_checked() -> None:
    rows = [entered(rank, 31) for rank in (0, 1, 3)] + [entered(2, 30, "completed")]
    looks = [*(look(rank) for rank in (0, 1, 3)), look(2, IN_CODE, since_ms=None)]
    verdict = detect(tables(rows, looks), 0)
    assert verdict is not None
    assert verdict.findings == ()
    assert verdict.checked is not None
    assert verdict.checked.startswith("Ranks 0, 1 and 3 wait for rank 2 in all_reduce 31")
