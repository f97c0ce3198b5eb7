"""The boundary between hooks and training: nothing a hook raises passes it.

This is the one place in the product that catches everything. A hook that raises is counted, logged
once and switched off; the training call that it hooked goes on without it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import cycle
from threading import get_ident
from time import thread_time_ns
from typing import Any, TypeVar, TypeVarTuple

from trace_hooks.recording.account import Account, Timing, num_timed, source_of, timed

Ts = TypeVarTuple("Ts")
R = TypeVar("R")

EXACT_CALLS = 64
"""The first calls of a hook, which are all timed; later only one in a while."""

_strides = cycle((13, 19, 11, 17, 23, 16, 29, 7))
"""Calls from a timed one to the next; uneven, or they would always meet the same module."""

HOOKS: dict[str, Callable[..., Any]] = {}
"""Every guarded hook by name; looked up at each call, so a test can put a failing one in place."""

account = Account()
disabled = account.disabled
"""Names of hooks that raised once and are off until the next start."""


def switch_all_off() -> None:
    """Make every hook do nothing until the next start (in a forked child)."""
    disabled.update(HOOKS)


def guarded(
    name: str, stays_on: bool = False, exact: bool = False
) -> Callable[[Callable[[*Ts], R]], Callable[[*Ts], R | None]]:
    """Make a function safe to call from training: returns None where it raises or is off.

    `stays_on` keeps it on after an error: for calls whose arguments the user chose. Arguments are
    positional.

    Its CPU time, without that of hooks it calls, is added to `account.on_training` for the source
    in its name, so it must never contain the user's own work. CPU, not wall: on a host with more
    ranks than cores, most of a hook's wall time belongs to other processes. Reading the
    CPU clock takes longer than a small hook, so after EXACT_CALLS calls of a hook only one in about
    17 is timed and stands for those since the last one, unless `exact`, which rare hooks are. A
    timed call includes one reading of the clock, which stands for the cost of calling the hook.
    """
    source = source_of(name)

    def decorate(function: Callable[[*Ts], R]) -> Callable[[*Ts], R | None]:
        HOOKS[name] = function
        untimed = 0  # calls left until one is timed
        weight = 1  # calls the next timed one stands for
        num_exact = 0

        @functools.wraps(function)
        def hook(*args: *Ts) -> R | None:
            nonlocal untimed
            if name in disabled:
                return None
            if untimed <= 0:  # two threads at once may take it below
                return in_time(args, next_weight())
            untimed -= 1
            if num_timed and timed.weight:
                return in_time(args, 0)
            try:
                return HOOKS[name](*args)  # type: ignore[no-any-return]
            except Exception as error:  # noqa: BLE001 - the boundary, see the module's docstring
                account.failed(name, error, switch_off=not stays_on)
                return None

        def next_weight() -> int:
            nonlocal untimed, weight, num_exact
            calls = weight
            num_exact += 1
            weight = 1 if exact or num_exact < EXACT_CALLS else next(_strides)
            untimed = weight - 1
            return calls

        def in_time(args: tuple[*Ts], calls: int) -> R | None:
            timing = Timing(calls)
            try:
                return HOOKS[name](*args)  # type: ignore[no-any-return]
            except Exception as error:  # noqa: BLE001 - the boundary, see the module's docstring
                account.failed(name, error, switch_off=not stays_on)
                return None
            finally:
                timing.end(account, source)

        return hook

    return decorate


def attempt(name: str, function: Callable[[], R], switch_off: bool = True) -> R | None:
    """Call a function of one object under the boundary; None where it raises or `name` is off.

    HOOKS[name] calls it, so that a test can put a failing one in place. Inside a timed hook its
    time is charged to its own source; elsewhere it is not charged: most of these run on the hooks'
    own threads, which count their CPU time themselves.
    """
    HOOKS.setdefault(name, _call)
    if name in disabled:
        return None
    timing = Timing(timed.weight) if timed.weight else None
    try:
        return HOOKS[name](function)  # type: ignore[no-any-return]
    except Exception as error:  # noqa: BLE001 - the boundary, see the module's docstring
        account.failed(name, error, switch_off)
        return None
    finally:
        if timing is not None:
            timing.end(account, source_of(name))


class Each:
    """Functions of several sources that are called together, each under a boundary of its own.

    The CPU clock is read once a function, not twice: there are many in each step, and most of them
    have nothing to do.
    """

    def __init__(self, calls: Sequence[tuple[str, Callable[[], object]]]) -> None:
        self._calls = [(name, source_of(name), function) for name, function in calls]
        for name, _, _ in self._calls:
            HOOKS.setdefault(name, _call)

    def attempt(self) -> None:
        """Call those that are not off, in order."""
        weight, thread = timed.weight, get_ident()
        begun_ns = thread_time_ns() if weight else 0
        for name, source, function in self._calls:
            if name in disabled:
                continue
            inside_ns = timed.inside_ns
            try:
                HOOKS[name](function)
            except Exception as error:  # noqa: BLE001 - the boundary, see the module's docstring
                account.failed(name, error)
            if weight:
                ended_ns = thread_time_ns()
                spent_ns, begun_ns = ended_ns - begun_ns, ended_ns
                own_ns = spent_ns - (timed.inside_ns - inside_ns)
                account.on_training.add(thread, source, own_ns * weight)
                timed.inside_ns = inside_ns + spent_ns


def _call(function: Callable[[], R]) -> R:
    return function()
