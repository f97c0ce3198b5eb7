"""Why a rank that is waited for does not come: from what its watchdog saw and its last signs.

The order is of how direct the evidence is: a process that is gone or stopped is seen at once; a
held GIL by a heartbeat that stopped although the process lives and its C level answers; a file that
does not answer by looks between which no bytes flow. What stands in other code is judged by how
long it does so. What is slow but moves is no cause: compilation, a debugger, files whose bytes
flow, what computes, and what is long by design, such as an evaluation.
"""

from __future__ import annotations

from dataclasses import dataclass

from diagnosis.stuck.evidence import HOW, NCCL_RAS, Entered, Evidence, Look, Signs
from diagnosis.stuck.places import held_in, left_behind_in
from diagnosis.stuck.stacks import (
    COMMUNICATION,
    COMPILATION,
    DEBUGGER,
    LOADER,
    STORAGE,
    activity_of,
    long_task,
    users_frame,
    waits_for_storage,
)

SILENT_MS = 5_000.0
"""Heartbeats come each second, whatever the training thread does."""

BUSY_SILENT_MS = 20_000.0
"""A call that holds the GIL while it computes, such as one that pickles, may come back so late."""

BUSY_SHARE = 0.1
"""Share of a core that what computes uses between two looks; threads of the hooks use .01."""

LOOP_MS = 60_000.0
"""What computes for so long at one place does not come back: an evaluation or a loop."""

MISSING_MS = 15_000.0
"""What stands in code that is not known to take long comes later than it should."""

TASK_MS = 300_000.0
"""Evaluations, checkpoints, and all that is done before the first steps take minutes."""

FIRST_STEPS = 2

TIMES_LONGEST = 3.0
"""A rank is given so many times its longest pause before."""

STILL_MS = 8_000.0
"""A checkpoint whose bytes have not flowed for so long does not move."""


@dataclass(frozen=True)
class Cause:
    """Why one rank does not come. `kind`: of a finding; '' where it is slow, not stuck.

    `how`: a clause about the rank ("its process is stopped"); `next_step`: what to do about it.
    """

    rank: int
    kind: str
    confidence: str
    how: str
    next_step: str
    alternatives: tuple[str, ...] = ()


def cause_of(rank: int, evidence: Evidence) -> Cause:
    """Why `rank`, which others wait for, does not come."""
    look = evidence.looks.get(rank)
    died = _died(rank, evidence)
    if died is not None:
        return died
    if look is None or not look.is_live:
        timed = [one for one in evidence.looks.values() if one.is_timed]
        if timed and max(one.quiet_ms or 0.0 for one in timed) < MISSING_MS:
            return Cause(rank, "", "low", "nobody has looked at it yet", "")
        return _behind(rank, "low" if timed else "medium", _last_seen(rank, evidence))
    if look.source == NCCL_RAS:
        return _polled(look)
    if not look.is_timed:
        return _sampled(look)
    if look.process == "t":
        return _slow(look, "a debugger holds it")
    if look.process == "T":
        how = "its process is stopped by a signal (state T)"
        return Cause(rank, "hung_rank", "high", how, _CONTINUE.format(host=look.host or "its host"))
    silent_ms = look.beat_age_ms or 0.0
    if silent_ms >= SILENT_MS and look.process in ("R", "S", "D", "W"):
        if _is_busy(look) and silent_ms < BUSY_SILENT_MS:
            return _slow(look, f"a call in {users_frame(look.stack)} holds the GIL and computes")
        return _silent(look)
    if activity_of(look.stack) == COMMUNICATION and (held := held_in(rank, evidence)):
        return _slow(look, _held(held, evidence))
    return _alive(look, rank in evidence.with_gpu)


def _held(held: Entered, evidence: Evidence) -> str:
    """That it is no absence what keeps a rank, and what may be."""
    what = f"{held.op} {held.seq:,} of {evidence.name_of(held.group_id)}"
    why = " (ranks may give different roots)" if held.op in _ROOTED else ""
    return f"it is still in {what}, which every member has entered{why}"


def _sampled(look: Look) -> Cause:
    """One stack that a tool printed: what it shows, where others are known to wait."""
    where, activity = _where(look), activity_of(look.stack)
    if activity in (COMPILATION, DEBUGGER):
        return _slow(look, f"its main thread is in {activity} ({where})")
    how = f"its main thread was in {where} when its stack was printed"
    if activity == LOADER:
        return Cause(look.rank, "data_stalled", "medium", how, _LOADER)
    if activity == STORAGE:
        return Cause(look.rank, "stalled_storage", "medium", how, _STORAGE)
    return _behind(look.rank, "medium", how)


def _polled(look: Look) -> Cause:
    """As NCCL's RAS sees it: two polls in which it does not answer, or launches nothing."""
    who = f"process {look.pid} on {look.host or 'its host'}"
    quiet_ms = look.quiet_ms or look.since_ms or 0.0
    if not look.was_seen_twice:
        return _slow(look, f"one poll of NCCL's RAS saw it so ({who})")
    if look.process == "silent":
        how = f"its process does not answer NCCL's RAS ({who})"
        return Cause(look.rank, "hung_rank", "medium", how, _ATTACH, _RAS_SILENT)
    sure = "medium" if quiet_ms >= LOOP_MS else "low"
    how = (
        f"it has launched the fewest collectives, and no more for {quiet_ms / 1e3:,.0f} s, as "
        f"NCCL's RAS counts them ({who})"
    )
    return Cause(look.rank, "missing_rank", sure, how, _ATTACH_TO_COMPARE, _RAS_BEHIND)


def _died(rank: int, evidence: Evidence) -> Cause | None:
    """A process that is gone, or that ended while others wait for it.

    What became of it after the last look, at which it lived, is no reason for the others to wait.
    """
    look, signs = evidence.looks.get(rank), evidence.signs.get(rank)
    if look is not None and look.process not in ("", "gone", "Z"):
        return None
    ended = signs is not None and signs.status is not None
    is_lost = signs is not None and signs.is_lost
    if not (ended or is_lost or (look is not None and look.process in ("gone", "Z"))):
        return None
    if look is not None and look.source == NCCL_RAS:
        how = f"NCCL's RAS considers its process dead ({look.pid} on {look.host or 'its host'})"
    elif ended and signs is not None and signs.error:
        how = f"it ended with {signs.error}"
    elif ended and signs is not None:
        how = f"it has {signs.status} while the others go on"
    else:
        how = _gone(signs)
    return Cause(rank, "dead_rank", "high", how, _READ_LOGS)


def _gone(signs: Signs | None) -> str:
    told = (signs.lost_text or "").partition(HOW)[2] if signs is not None else ""
    return "its process is gone without a record of its end" + (f": {told}" if told else "")


def _silent(look: Look) -> Cause:
    """Alive, but without heartbeats: no Python thread of it runs."""
    where = users_frame(look.stack)
    if activity_of(look.stack) == STORAGE or waits_for_storage(look.call, look.stack):
        how = f"its main thread waits for storage in {where} and holds the GIL"
        return Cause(look.rank, "stalled_storage", "high", how, _STORAGE, _SILENT)
    if not look.stack or look.process == "D":
        how = "its process lives and sends no heartbeats"
        return Cause(look.rank, "hung_rank", "medium", how, _ATTACH, _SILENT)
    how = f"a call in {where} holds the GIL: its process lives, and no Python thread of it runs"
    return Cause(look.rank, "hung_rank", "high", how, _ATTACH, _SILENT)


def _alive(look: Look, has_gpu: bool) -> Cause:
    """Alive and sending heartbeats: the main thread is somewhere else."""
    where, activity = _where(look), activity_of(look.stack)
    if activity == COMPILATION:
        return _slow(look, "it compiles")
    if activity == DEBUGGER:
        return _slow(look, f"a debugger holds it in {where}")
    if not look.was_seen_twice:
        return _slow(look, f"its main thread is in {where}")
    stays = bool(look.stack) and users_frame(look.earlier_stack) == users_frame(look.stack)
    sure = "high" if stays else "medium"
    if _is_in_storage(look):
        return _in_storage(look, where, sure)
    moves = bool(look.stack and look.earlier_stack) and not stays
    if _is_busy(look) or moves:
        return _computes(look, where, moves, has_gpu)
    least_ms = TASK_MS if long_task(look.stack) else MISSING_MS
    if (look.quiet_ms or 0.0) < _patience_ms(look, least_ms):
        return _slow(look, f"its main thread is in {where}")
    if activity == LOADER:
        how = f"its main thread waits for the data loader ({look.stack[0]})"
        return Cause(look.rank, "data_stalled", sure, how, _LOADER)
    if activity == COMMUNICATION:
        return _behind(look.rank, "medium", f"it communicates elsewhere ({where})")
    if not look.stack:
        return _behind(look.rank, sure, f"its main thread is in {where}")
    return _stays(look, sure, f"its main thread is in {where}")


def _where(look: Look) -> str:
    """The user's innermost frame, and the task it is a part of."""
    where, task = users_frame(look.stack) or "unknown code", long_task(look.stack)
    return where if not task or task in where else f"{where} (in {task})"


def _is_in_storage(look: Look) -> bool:
    return (
        activity_of(look.stack) == STORAGE
        or look.phase == "checkpoint"
        or waits_for_storage(look.call, look.stack)
    )


def _in_storage(look: Look, where: str, sure: str) -> Cause:
    """Reading or writing files: stuck where neither bytes flow nor anything is computed."""
    if _is_busy(look) or (look.still_ms or 0.0) < STILL_MS:
        return _slow(look, f"its main thread reads or writes files in {where}")
    how = f"its main thread waits for storage in {where}, and no bytes flow"
    return Cause(look.rank, "stalled_storage", sure, how, _STORAGE)


def _computes(look: Look, where: str, moves: bool, has_gpu: bool) -> Cause:
    """Using the CPU, or elsewhere than at the look before. Waiting for a GPU uses the CPU, too."""
    least_ms = TASK_MS if long_task(look.stack) else LOOP_MS
    what = "computes or waits for its GPU" if has_gpu else "computes"
    how = f"its main thread {what} in {where}"
    if moves or (look.quiet_ms or 0.0) < _patience_ms(look, least_ms):
        return _slow(look, how)
    next_step = f"{_ATTACH} {_GPU}" if has_gpu else _ATTACH
    return Cause(
        look.rank, "hung_rank", "medium", f"{how} and does not come back", next_step, _LOOP
    )


def _patience_ms(look: Look, least_ms: float) -> float:
    """How long it has to be quiet, which is longer where it has been before, or only begins."""
    begins_ms = TASK_MS if look.step < FIRST_STEPS else 0.0
    return max(least_ms, begins_ms, TIMES_LONGEST * look.longest_ms)


def _slow(look: Look, how: str) -> Cause:
    """Slow, or not seen often enough: no finding."""
    return Cause(look.rank, "", "low", how, "")


def _is_busy(look: Look) -> bool:
    """Computing, or ready to (state R): on a starved host it gets little of a core."""
    return look.process == "R" or bool(
        look.since_ms and look.cpu_ms and look.cpu_ms / look.since_ms >= BUSY_SHARE
    )


def _behind(rank: int, confidence: str, how: str) -> Cause:
    return Cause(rank, "missing_rank", confidence, how, _COMPARE, _MISSING)


def _stays(look: Look, confidence: str, how: str) -> Cause:
    """In code of the program, whose line is known."""
    step = f"Read {users_frame(look.stack)}: {_WAITS_FOR} {_COMPARE}"
    return Cause(look.rank, "missing_rank", confidence, how, step, _MISSING)


def _last_seen(rank: int, evidence: Evidence) -> str:
    """What a dump says of a rank: where it called the last collective that it recorded, else which
    one it has not completed and others have.
    """
    look = evidence.looks.get(rank)
    if look is not None and look.stack:
        return f"its last recorded call came from {users_frame(look.stack)}"
    behind = left_behind_in(rank, evidence)
    if behind is None:
        return _UNSEEN
    what = f"{behind.op} {behind.seq:,} of {evidence.name_of(behind.group_id)}"
    return f"it has not completed {what}, which other members have left"


_ROOTED = ("broadcast", "reduce", "gather", "scatter")
_UNSEEN = "nothing says what it does instead"
_CONTINUE = "Find out on {host} who stopped the process (a debugger, a job manager); kill -CONT it."
_READ_LOGS = (
    "Read the last lines of that rank's log and the kernel log of its host (dmesg: Xid, "
    "out-of-memory killer), then restart from the last checkpoint."
)
_ATTACH = "Attach py-spy dump --native to that process to see the call, then restart the job."
_GPU = "nvidia-smi on its host shows whether the GPU still works on something."
_LOADER = "Look at the workers of its data loader: are they alive, and does their storage answer?"
_STORAGE = "Check the storage that this path lies on from that rank's host."
_WAITS_FOR = "does it wait for a lock, a queue, a file or another process?"
_COMPARE = (
    "Compare what this rank does with its peers: a branch that only some ranks take, uneven "
    "input, evaluation or saving on one rank."
)
_ATTACH_TO_COMPARE = (
    "Attach py-spy dump to that process and to one of those that wait, and compare where they are."
)
_RAS_SILENT = ("The network between the hosts, which RAS uses as well.",)
COMES_LATER = "It comes later: then the others wait on, and this finding goes away."
_RAS_BEHIND = (
    "It waits for a message (send, receive), which NCCL's RAS does not count.",
    COMES_LATER,
)
_SILENT = ("The storage of the run folder hangs, which holds back the rank's recording as well.",)
_LOOP = ("A long computation that comes back later: the longest so far was much shorter.",)
_MISSING = (COMES_LATER,)
