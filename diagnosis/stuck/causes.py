"""Why a rank that is waited for does not come: from what its watchdog saw and its last signs.

The order is of how direct the evidence is: a process that is gone or stopped is seen at once; a
held GIL by a heartbeat that stopped although the process lives and its C level answers; a read, a
wait for data or a sleep by two looks between which the rank does nothing. What is slow but moves is
no cause: compilation, files whose bytes flow, and what computes, until LOOP_MS (which is also more
than twice its longest pause before, or nobody would look).
"""

from __future__ import annotations

from dataclasses import dataclass

from diagnosis.stuck.evidence import Evidence, Look
from diagnosis.stuck.stacks import (
    COMMUNICATION,
    COMPILATION,
    LOADER,
    STORAGE,
    activity_of,
    users_frame,
)

SILENT_MS = 5_000.0
"""Heartbeats come each second, whatever the training thread does."""

BUSY_SHARE = 0.1
"""Share of a core that what computes uses between two looks; threads of the hooks use .01."""

LOOP_MS = 60_000.0
"""What computes for so long at one place does not come back: an evaluation or a loop."""

MOVING_BYTES_PER_S = 64 * 1024
"""A checkpoint that is written at this rate moves; heartbeats of the hooks write less."""


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
    if look is None:
        return _behind(rank, "low" if evidence.looks else "medium", _UNSEEN)
    if look.process in ("T", "t"):
        how = "its process is stopped by a signal (state T)"
        return Cause(rank, "hung_rank", "high", how, _CONTINUE.format(host=look.host or "its host"))
    if look.beat_age_ms >= SILENT_MS and look.process in ("R", "S", "D", "W"):
        return _silent(look)
    return _alive(look)


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
    if ended and signs is not None and signs.error:
        how = f"it ended with {signs.error}"
    elif ended and signs is not None:
        how = f"it has {signs.status} while the others go on"
    else:
        how = "its process is gone without a record of its end"
    return Cause(rank, "dead_rank", "high", how, _READ_LOGS)


def _silent(look: Look) -> Cause:
    """Alive, but without heartbeats: no Python thread of it runs."""
    where = users_frame(look.stack)
    if activity_of(look.stack) == STORAGE:
        how = f"its main thread waits for storage in {where} and holds the GIL"
        return Cause(look.rank, "stalled_storage", "high", how, _STORAGE, _SILENT)
    if not look.stack or look.process == "D":
        how = "its process lives and sends no heartbeats"
        return Cause(look.rank, "hung_rank", "medium", how, _ATTACH, _SILENT)
    how = f"a call in {where} holds the GIL: its process lives, and no Python thread of it runs"
    return Cause(look.rank, "hung_rank", "high", how, _ATTACH, _SILENT)


def _alive(look: Look) -> Cause:
    """Alive and sending heartbeats: the main thread is somewhere else."""
    where, activity = users_frame(look.stack) or "unknown code", activity_of(look.stack)
    if activity == COMPILATION:
        return _slow(look, "it compiles")
    if not look.was_seen_twice or _bytes_flow(look):
        return _slow(look, f"its main thread is in {where}")
    stays = bool(look.stack) and users_frame(look.earlier_stack) == where
    sure = "high" if stays else "medium"
    if activity == STORAGE or look.phase == "checkpoint":
        how = f"its main thread waits for storage in {where}, and no bytes flow"
        return Cause(look.rank, "stalled_storage", sure, how, _STORAGE)
    if activity == LOADER:
        how = f"its main thread waits for the data loader ({look.stack[0]})"
        return Cause(look.rank, "data_stalled", sure, how, _LOADER)
    if activity == COMMUNICATION:
        return _behind(look.rank, "medium", f"it communicates elsewhere ({where})")
    if not _is_busy(look):
        return _behind(look.rank, sure, f"its main thread is in {where}")
    if look.quiet_ms < LOOP_MS:
        return _slow(look, f"its main thread computes in {where}")
    how = f"its main thread computes in {where} and does not come back"
    return Cause(look.rank, "hung_rank", sure, how, _ATTACH, _LOOP)


def _slow(look: Look, how: str) -> Cause:
    """Slow, or not seen often enough: no finding."""
    return Cause(look.rank, "", "low", how, "")


def _bytes_flow(look: Look) -> bool:
    per_s = (look.io_bytes or 0) / look.since_ms * 1e3 if look.since_ms else 0.0
    return per_s >= MOVING_BYTES_PER_S


def _is_busy(look: Look) -> bool:
    return bool(look.since_ms and look.cpu_ms and look.cpu_ms / look.since_ms >= BUSY_SHARE)


def _behind(rank: int, confidence: str, how: str) -> Cause:
    return Cause(rank, "missing_rank", confidence, how, _COMPARE, _MISSING)


_UNSEEN = "nothing says what it does instead"
_CONTINUE = "Find out on {host} who stopped the process (a debugger, a job manager); kill -CONT it."
_READ_LOGS = (
    "Read the last lines of that rank's log and the kernel log of its host (dmesg: Xid, "
    "out-of-memory killer), then restart from the last checkpoint."
)
_ATTACH = "Attach py-spy dump --native to that process to see the call, then restart the job."
_LOADER = "Look at the workers of its data loader: are they alive, and does their storage answer?"
_STORAGE = "Check the storage that this path lies on from that rank's host."
_COMPARE = (
    "Compare what this rank does with its peers: a branch that only some ranks take, uneven "
    "input, evaluation or saving on one rank."
)
_SILENT = ("The storage of the run folder hangs, which holds back the rank's recording as well.",)
_LOOP = ("A long computation that comes back later: the longest so far was much shorter.",)
_MISSING = ("It comes later: then the others wait on, and this finding goes away.",)
