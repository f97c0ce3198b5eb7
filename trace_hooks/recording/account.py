"""What the hooks of a process cost, by thread and source, and how they failed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from threading import get_ident
from time import thread_time_ns

from trace_hooks.protocol.plain_text import plain

log = logging.getLogger("trace_hooks")

DRAIN, AGENT = "trace_hooks drain", "trace_hooks agent"
"""Names of the threads that the hooks start; all others are the job's."""


def source_of(name: str) -> str:
    """The source that a hook belongs to: `collectives.enter` and `tracer.collectives.poll` are both
    of `collectives`, `tracer.step_begin` is of `tracer`.
    """
    first, *rest = name.split(".")
    return rest[0] if first == "tracer" and len(rest) > 1 else first


class Spent:
    """CPU ns by (thread, source). Adding is not atomic: two threads that added to one entry at the
    same time could lose an addition, so each thread has entries of its own.
    """

    def __init__(self) -> None:
        self._ns: dict[tuple[int | str, str], int] = {}

    def add(self, thread: int | str, source: str, ns: int) -> None:
        """Add to what a source has cost on a thread."""
        key = thread, source
        self._ns[key] = self._ns.get(key, 0) + ns

    def total(self) -> int:
        """All of it so far."""
        return sum(self._ns.copy().values())

    def by_thread_and_source(self) -> dict[tuple[int | str, str], int]:
        """A copy."""
        return self._ns.copy()


class Account:
    """What hooks have cost and how they failed, for this process."""

    def __init__(self) -> None:
        self.on_training = Spent()  # inside guarded hooks, by ident of the thread, see guarded()
        self.on_own_threads = Spent()  # of the threads that the hooks started, by name
        self.errors: dict[str, int] = {}
        self.disabled: set[str] = set()  # names of hooks that raised once: off until the next start
        self.news: list[tuple[str, str]] = []  # (hook, error) not yet written as marks

    @property
    def training_ns(self) -> int:
        """CPU ns that the hooks took the threads of training."""
        return self.on_training.total()

    @property
    def total_ns(self) -> int:
        """CPU ns on all threads."""
        return self.on_training.total() + self.on_own_threads.total()

    def failed(self, name: str, error: BaseException, switch_off: bool = True) -> None:
        """Count an error of hook `name`, log it once, and switch the hook off if `switch_off`."""
        first = name not in self.errors
        self.errors[name] = self.errors.get(name, 0) + 1
        if switch_off:
            self.disabled.add(name)
        if first:
            # it may quote a server or a file
            self.news.append((name, f"{type(error).__name__}: {_text(error, str)}"))
            outcome = "is off from now on" if switch_off else "was left out"
            log.warning(
                "trace_hooks: hook %s failed and %s, training goes on: %s",
                name,
                outcome,
                _text(error, repr),
            )

    def take_news(self) -> list[tuple[str, str]]:
        """Errors since the last call, each hook's first only."""
        taken = self.news[: len(self.news)]
        del self.news[: len(taken)]
        return taken

    def reset(self) -> None:
        """Start counting from 0 and switch every hook on again."""
        self.on_training, self.on_own_threads = Spent(), Spent()
        self.errors.clear()
        self.news.clear()
        self.disabled.clear()


def _text(error: BaseException, text_of: Callable[[object], str]) -> str:
    """The text of an exception; the name of its class where its own code raises."""
    try:
        return plain(text_of(error))
    except Exception:  # noqa: BLE001 - the boundary, see trace_hooks.recording.guard
        return type(error).__name__


class Stretch:
    """Charges the CPU time of a thread of the hooks to its sources, without a gap."""

    def __init__(self, account: Account, thread: str) -> None:
        self._account, self._thread = account, thread
        self._charged_ns = 0

    def charge(self, source: str) -> None:
        """All that this thread did since the last call was work of `source`."""
        cpu_ns = thread_time_ns()
        self._account.on_own_threads.add(self._thread, source, cpu_ns - self._charged_ns)
        self._charged_ns = cpu_ns


class _Timed(threading.local):
    """The hook that is being timed on this thread; hooks may call hooks."""

    weight = 0  # calls it stands for; 0: none is being timed
    inside_ns = 0  # CPU ns of the hooks that it called


timed = _Timed()
num_timed: list[None] = []
"""One entry for each hook being timed, on any thread. Hooks that those call are then timed as
well, so that each is charged its own time only. (Append and pop are atomic, adding to a number
is not.)"""


class Timing:
    """Times one call of a hook; the time of hooks inside it is charged to them.

    `weight`: calls that it stands for. 0 leaves its time to the calls that stand for it.
    """

    __slots__ = ("_begun_ns", "_outer_inside_ns", "_outer_weight", "_weight")

    def __init__(self, weight: int) -> None:
        self._outer_weight, self._outer_inside_ns = timed.weight, timed.inside_ns
        self._weight = weight
        timed.weight, timed.inside_ns = weight, 0
        num_timed.append(None)
        self._begun_ns = thread_time_ns()

    def end(self, account: Account, source: str) -> None:
        """The call is over."""
        spent_ns = thread_time_ns() - self._begun_ns
        num_timed.pop()
        if self._weight:
            account.on_training.add(
                get_ident(), source, (spent_ns - timed.inside_ns) * self._weight
            )
        timed.weight = self._outer_weight
        timed.inside_ns = self._outer_inside_ns + spent_ns
