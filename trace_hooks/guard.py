"""The boundary between hooks and training: nothing a hook raises passes it.

This is the one place in the product that catches everything. A hook that raises is counted, logged
once and switched off; the training call it sat on goes on as if it had never been there.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, ParamSpec, TypeVar

log = logging.getLogger("trace_hooks")

P = ParamSpec("P")
R = TypeVar("R")

HOOKS: dict[str, Callable[..., Any]] = {}
"""Every guarded hook by name; looked up at each call, so a test can put a failing one in place."""

disabled: set[str] = set()
"""Names of hooks that raised once and are off until the next start."""


class Account:
    """What hooks have cost and how they failed, for this process."""

    def __init__(self) -> None:
        self.self_ns = 0  # wall ns inside guarded hooks, drain thread's CPU added by the tracer
        self.errors: dict[str, int] = {}
        self.news: list[tuple[str, str]] = []  # (hook, error) not yet written as marks

    def failed(self, name: str, error: BaseException) -> None:
        """Count an error of hook `name`, switch it off, log it once."""
        first = name not in self.errors
        self.errors[name] = self.errors.get(name, 0) + 1
        disabled.add(name)
        if first:
            self.news.append((name, f"{type(error).__name__}: {error}"))
            log.warning(
                "hook %s failed and is off from now on, training is not affected: %r", name, error
            )


account = Account()


def guarded(name: str) -> Callable[[Callable[P, R]], Callable[P, R | None]]:
    """Make a function safe to call from training: returns None where it raises or is off.

    Its wall time is added to `account.self_ns`, so it must never contain the user's own work.
    Source: specs/hooks.md rule 1.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R | None]:
        HOOKS[name] = function

        @functools.wraps(function)
        def hook(*args: P.args, **kwargs: P.kwargs) -> R | None:
            if name in disabled:
                return None
            begun = perf_counter_ns()
            try:
                return HOOKS[name](*args, **kwargs)  # type: ignore[no-any-return]
            except Exception as error:  # noqa: BLE001 - the boundary, see the module's docstring
                account.failed(name, error)
                return None
            finally:
                account.self_ns += perf_counter_ns() - begun

        return hook

    return decorate
