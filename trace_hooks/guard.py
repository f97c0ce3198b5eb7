"""The boundary between hooks and training: nothing a hook raises passes it.

This is the one place in the product that catches everything. A hook that raises is counted, logged
once and switched off; the training call it sat on goes on as if it had never been there.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from itertools import cycle
from time import thread_time_ns
from typing import Any, TypeVar, TypeVarTuple

from trace_hooks.plain_text import plain

log = logging.getLogger("trace_hooks")

Ts = TypeVarTuple("Ts")
R = TypeVar("R")

EXACT_CALLS = 64
"""So many calls of a hook are timed each, one in a while after that."""

_strides = cycle((13, 19, 11, 17, 23, 16, 29, 7))
"""Calls from one that is timed to the next; uneven, or they would fall on the same module."""

HOOKS: dict[str, Callable[..., Any]] = {}
"""Every guarded hook by name; looked up at each call, so a test can put a failing one in place."""

disabled: set[str] = set()
"""Names of hooks that raised once and are off until the next start."""


def _text(error: BaseException, text_of: Callable[[object], str]) -> str:
    """What an exception says; the name of its kind where its own code raises."""
    try:
        return plain(text_of(error))
    except Exception:  # noqa: BLE001 - the boundary, see the module's docstring
        return type(error).__name__


class Account:
    """What hooks have cost and how they failed, for this process."""

    def __init__(self) -> None:
        self.self_ns = 0  # CPU ns inside guarded hooks on the threads of training, see guarded()
        self.drain_cpu_ns = 0  # CPU ns of the drain thread
        self.agent_cpu_ns = 0  # CPU ns of the agent's thread
        self.errors: dict[str, int] = {}
        self.news: list[tuple[str, str]] = []  # (hook, error) not yet written as marks

    def failed(self, name: str, error: BaseException, switch_off: bool = True) -> None:
        """Count an error of hook `name`, log it once; switch the hook off unless told otherwise."""
        first = name not in self.errors
        self.errors[name] = self.errors.get(name, 0) + 1
        if switch_off:
            disabled.add(name)
        if first:
            # a server's or a file's words may be in it
            self.news.append((name, f"{type(error).__name__}: {_text(error, str)}"))
            outcome = "is off from now on" if switch_off else "was left out"
            log.warning(
                "trace_hooks: hook %s failed and %s, training goes on: %s", name, outcome,
                _text(error, repr),
            )  # fmt: skip

    def take_news(self) -> list[tuple[str, str]]:
        """Errors since the last call, each hook's first only."""
        taken = self.news[: len(self.news)]
        del self.news[: len(taken)]
        return taken

    def reset(self) -> None:
        """Start counting anew and switch every hook on again."""
        self.self_ns = self.drain_cpu_ns = self.agent_cpu_ns = 0
        self.errors.clear()
        self.news.clear()
        disabled.clear()


account = Account()


def switch_all_off() -> None:
    """Make every hook there is do nothing until the next start (a forked child's hooks)."""
    disabled.update(HOOKS)


def guarded(
    name: str, stays_on: bool = False
) -> Callable[[Callable[[*Ts], R]], Callable[[*Ts], R | None]]:
    """Make a function safe to call from training: returns None where it raises or is off.

    `stays_on` keeps it on after an error: for calls whose arguments the user chose. Arguments are
    positional.

    Its CPU time is added to `account.self_ns`, so it must never contain the user's own work. CPU,
    not wall: on a host with more ranks than cores a hook's wall time is mostly that of whoever ran
    instead. Reading the CPU clock takes longer than a small hook, so after EXACT_CALLS calls of a
    hook only one in about 17 is timed and stands for those since the last one; rare hooks are timed
    exactly. A timed call includes one reading of the clock, which stands for what calling the hook
    costs outside it.
    Source: specs/hooks.md rule 1.
    """

    def decorate(function: Callable[[*Ts], R]) -> Callable[[*Ts], R | None]:
        HOOKS[name] = function
        untimed = 0  # calls left until one is timed
        weight = 1  # calls the next timed one stands for
        num_timed = 0

        @functools.wraps(function)
        def hook(*args: *Ts) -> R | None:
            nonlocal untimed
            if name in disabled:
                return None
            if untimed <= 0:  # two threads at once may take it below
                return timed(args)
            untimed -= 1
            try:
                return HOOKS[name](*args)  # type: ignore[no-any-return]
            except Exception as error:  # noqa: BLE001 - the boundary, see the module's docstring
                account.failed(name, error, switch_off=not stays_on)
                return None

        def timed(args: tuple[*Ts]) -> R | None:
            nonlocal untimed, weight, num_timed
            begun, calls = thread_time_ns(), weight
            num_timed += 1
            weight = 1 if num_timed < EXACT_CALLS else next(_strides)
            untimed = weight - 1
            try:
                return HOOKS[name](*args)  # type: ignore[no-any-return]
            except Exception as error:  # noqa: BLE001 - the boundary, see the module's docstring
                account.failed(name, error, switch_off=not stays_on)
                return None
            finally:
                account.self_ns += (thread_time_ns() - begun) * calls

        return hook

    return decorate


def attempt(name: str, function: Callable[[], R], switch_off: bool = True) -> R | None:
    """Call a function of one object under the boundary; None where it raises or `name` is off.

    HOOKS[name] is what calls it, for a test to put a failing one in place. Its time is not
    accounted: the drain thread, where most of these run, counts its own CPU time.
    """
    HOOKS.setdefault(name, _call)
    if name in disabled:
        return None
    try:
        return HOOKS[name](function)  # type: ignore[no-any-return]
    except Exception as error:  # noqa: BLE001 - the boundary, see the module's docstring
        account.failed(name, error, switch_off)
        return None


def _call(function: Callable[[], R]) -> R:
    return function()
