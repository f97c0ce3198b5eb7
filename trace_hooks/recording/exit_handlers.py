"""How a traced process ends: normally, by an exception, or by SIGTERM.

Exit status and traceback stay what they are without hooks. A Python handler of SIGTERM runs only
between two bytecodes of the main thread, so it would keep a rank that is stuck in a collective from
dying of SIGTERM as it does without hooks. Therefore the signal also wakes the drain thread, which
ends the process by the signal itself. (Where C code holds the GIL no Python runs, and the
launcher's SIGKILL ends the process.)
"""

from __future__ import annotations

import atexit
import ctypes
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from trace_hooks.recording import guard

log = logging.getLogger("trace_hooks")

MAIN_THREAD_S = 0.5
"""The main thread has this long to handle SIGTERM itself."""


class Exits:
    """Watches how this process ends and calls `stop(status, error)` once before it does."""

    def __init__(self, stop: Callable[[str, str | None], None], wakeup_fd: int) -> None:
        self._stop = stop
        self._wakeup_fd = wakeup_fd
        self._error: str | None = None
        self._status = "finished"
        self._terminating = False
        self.ending = False  # the tracer is writing its end: a SIGTERM waits for it
        self._kill_after_end = False
        self._old_excepthook: Callable[..., Any] = sys.excepthook
        self._old_handler: Any = None
        self._handles_sigterm = False
        self._owns_wakeup_fd = False

    def install(self) -> None:
        """Hook atexit, sys.excepthook and, on the main thread, SIGTERM."""
        atexit.register(self._at_exit)
        self._old_excepthook = sys.excepthook
        sys.excepthook = self._excepthook
        if threading.current_thread() is threading.main_thread():
            self._install_sigterm()

    def _install_sigterm(self) -> None:
        handler = signal.getsignal(signal.SIGTERM)
        if handler is signal.SIG_IGN or handler is None:  # ignored, or not set by Python
            return
        self._old_handler = handler
        signal.signal(signal.SIGTERM, self._on_sigterm)
        self._handles_sigterm = True
        old_fd = signal.set_wakeup_fd(self._wakeup_fd, warn_on_full_buffer=False)
        self._owns_wakeup_fd = old_fd == -1
        if not self._owns_wakeup_fd:
            signal.set_wakeup_fd(old_fd)

    def uninstall(self) -> None:
        """Restore everything that no other code has changed since.

        Where that keeps our handler of SIGTERM (on another thread, or below the user's own, which
        calls it), the signal ends the process as it does without hooks.
        """
        self.ending = False
        atexit.unregister(self._at_exit)
        if sys.excepthook == self._excepthook:
            sys.excepthook = self._old_excepthook
        if threading.current_thread() is threading.main_thread():
            self._uninstall_sigterm()
        if self._kill_after_end:
            os.kill(os.getpid(), signal.SIGTERM)

    def _uninstall_sigterm(self) -> None:
        if self._owns_wakeup_fd:
            fd = signal.set_wakeup_fd(-1)
            if fd not in (-1, self._wakeup_fd):  # other code took it over
                signal.set_wakeup_fd(fd)
            self._owns_wakeup_fd = False
        if self._handles_sigterm and signal.getsignal(signal.SIGTERM) == self._on_sigterm:
            signal.signal(signal.SIGTERM, self._old_handler)
        self._handles_sigterm = False

    @property
    def owns_wakeup_fd(self) -> bool:
        """Whether signals are still written to our descriptor: it must stay open then."""
        return self._owns_wakeup_fd

    def forget(self) -> None:
        """In a forked child: leave the parent's signals and exit alone."""
        self.uninstall()

    def _at_exit(self) -> None:
        self._stop(self._status, self._error)

    def _excepthook(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        interrupted = issubclass(kind, KeyboardInterrupt)
        self._status = "stopped" if interrupted else "failed"
        self._error = guard.attempt(
            "exits.error_text",
            lambda: "".join(traceback.format_exception(kind, error, trace))[-20_000:],
        )
        self._old_excepthook(kind, error, trace)

    def _on_sigterm(self, number: int, frame: FrameType | None) -> None:
        self._terminating = True
        self._status = "stopped"
        if callable(self._old_handler):  # the user's own decides what happens now
            self._old_handler(number, frame)
            return
        if self.ending:
            self._kill_after_end = True
            return
        self._stop("stopped", "SIGTERM")
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)

    def terminate_from_drain(self) -> None:
        """SIGTERM came and the main thread may be stuck in C: end the process in its place.

        Does nothing where the user has a handler: ours calls one that was there before, and one
        that was installed since has replaced ours and may need time to save its work.
        """
        if callable(self._old_handler) or signal.getsignal(signal.SIGTERM) != self._on_sigterm:
            return
        until_s = time.monotonic() + MAIN_THREAD_S
        while time.monotonic() < until_s:
            if self._terminating:
                return
            time.sleep(0.02)
        log.warning(
            "trace_hooks: SIGTERM arrived while the main thread was busy in C code; the process "
            "ends now"
        )
        self._stop("stopped", "SIGTERM")
        libc = ctypes.CDLL(None)  # signal.signal would refuse outside the main thread
        libc.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
        libc.signal(int(signal.SIGTERM), None)
        os.kill(os.getpid(), signal.SIGTERM)
