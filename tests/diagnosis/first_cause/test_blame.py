"""Whom a first cause names: ranks, hosts, or nobody."""

from __future__ import annotations

from diagnosis.first_cause.cause import World
from diagnosis.first_cause.decision import first_cause
from diagnosis.first_cause.placing import hosts_of_ranks, placed
from diagnosis.first_cause.weak_causes import weak_cause
from tests.diagnosis.first_cause.made_lines import KEY_ERROR, RESET, episode, line, timed_out, world

ADDRESSES = {f"10.0.0.{host}": f"n{host}" for host in range(3)}
THREE_HOSTS = World({rank: f"n{rank // 8}" for rank in range(24)}, ADDRESSES)


def completion(rank, peer, at_s=0.0):
    text = f"NCCL WARN NET/IB : Got completion from peer 10.0.0.{peer}<4000> with error 12"
    return line(text, at_s, rank)


def named(*lines, of=None):
    cause = first_cause(episode(*lines), of or world())
    return cause.ranks, cause.hosts


def test_failed_transfers_name_the_end_of_most_of_them():
    lines = completion(1, 2), completion(9, 2), completion(17, 0), completion(18, 1)
    assert named(*lines, of=THREE_HOSTS) == ((), ("n2",))


def test_a_transfer_between_two_hosts_names_neither():
    assert named(completion(1, 1), completion(9, 0), of=THREE_HOSTS) == ((), ())


def test_a_card_names_its_own_host():
    event = "NCCL WARN NET/IB : mlx5_0:1 Got async event : port error"
    assert named(line(event, 0, 9), completion(1, 1, 20)) == ((), ("n1",))


def test_of_one_host_alone_the_host_is_not_named():
    shm = "NCCL WARN Error while creating shared memory segment /dev/shm/nccl-a (size 9637888)"
    assert named(line(shm, 0, host="n0"), of=World({})) == ((), ())
    several = World({}, other_hosts=frozenset({"n0", "n1"}))
    assert named(line(shm, 0, host="n0"), of=several) == ((), ("n0",))


def test_who_reports_another_version_is_not_the_one_that_has_it():
    text = "NCCL WARN ncclSocketInit: connecting to address with family 0 is neither AF_INET(2)"
    assert named(line(text, 0, 3)) == ((), ())


def test_a_barrier_names_the_ranks_that_did_not_come():
    text = "RuntimeError: Ranks 2, 5 failed to pass monitoredBarrier in 30000 ms"
    assert named(line(text, 0, 0)) == ((2, 5), ())


def test_a_killed_rank_is_named_by_its_launcher():
    box = (
        "Root Cause (first observed failure):\n[0]:\n  time      : 2026-01-01_00:00:00\n"
        "  host      : n1\n  rank      : 9 (local_rank: 1)\n  exitcode  : -9 (pid: 77)\n"
        "  error_file: <N/A>\n  traceback : Signal 9 (SIGKILL) received by PID 77"
    )
    lines = placed([line(box, 3, stream="launcher"), line(RESET, 3, 1)], {})
    assert (lines[0].rank, lines[0].host) == (9, "n1")
    assert hosts_of_ranks(lines) == {9: "n1"}
    cause = weak_cause(episode(*lines), world())
    assert (cause.ranks, cause.line.name, cause.confidence) == ((9,), "killed", "low")


def test_a_process_is_found_by_the_number_its_launcher_gave():
    box = "  host      : n1\n  rank      : 9 (local_rank: 1)\n  exitcode  : 1 (pid: 77)"
    killed = "Out of memory: Killed process 77 (python) total-vm:4123kB"
    lines = placed(
        [line(box, 3, stream="launcher"), line(killed, 0, host="n1", stream="kernel")], {}
    )
    assert [each.rank for each in lines] == [9, 9]


def test_tasks_of_slurm_are_ranks_unless_it_started_launchers():
    error = line("srun: error: n1: task 1: Exited with exit code 1", 3)
    (as_rank,) = placed([error], {})
    assert (as_rank.rank, as_rank.host) == (1, "n1")
    box = line("failed (exitcode: 1) local_rank: 3 (pid: 5) of binary: python", 2)
    assert placed([error, box], {}, num_hosts=2)[0].rank == -1
    many = line("srun: error: n1: task 9: Exited with exit code 1", 3)
    assert placed([many, box], {}, num_hosts=2)[0].rank == 9


def test_the_loopback_interface_explains_only_hosts_that_cannot_talk():
    lo = line("n0:1:1 [0] NCCL INFO Bootstrap : Using lo:127.0.0.1<0>", 0, 0)
    lost = line(RESET, 30, 9)
    assert weak_cause(episode(lo, lost), world()).line.name == "interface_loopback"
    assert weak_cause(episode(lo, lost), world(8)) is None
    assert weak_cause(episode(lo), world()) is None


def test_a_terminated_job_whose_ranks_had_timed_out_before_was_not_ended_by_the_signal():
    text = "torch.distributed.elastic.multiprocessing.api.SignalException: Process 4 got signal: 15"
    assert weak_cause(episode(line(text, 700)), world()).of_all
    assert weak_cause(episode(line(text, 700), timed_out(1, 600)), world()) is None


def test_few_ranks_of_many_are_named_and_half_of_them_are_not():
    few = [line(KEY_ERROR, 0.01 * rank, rank) for rank in (1, 2)]
    assert named(*few)[0] == (1, 2)
    half = [line(KEY_ERROR, 0, rank) for rank in (0, 1, 2, 3, 8, 9, 10, 11)]
    assert named(*half) == ((), ())
