"""Jobs of a part in processes of their own, with a limit: python -m benchmarks.gpu.jobs.NAME."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]

_RAISED = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Interrupt)\b.*")


@dataclass(frozen=True)
class Ended:
    """How a job ended. `code`: None where it took longer than its limit and was killed."""

    code: int | None
    text: str  # standard output and error
    seconds: float

    @property
    def last_line(self) -> str:
        """What it printed last."""
        lines = self.text.strip().splitlines()
        return lines[-1][:300] if lines else "it printed nothing"

    @property
    def raised(self) -> str:
        """First line of the exception that ended it; empty where none did."""
        _, found, trace = self.text.rpartition("Traceback (most recent call last)")
        for line in trace.splitlines() if found else ():
            if _RAISED.match(line):
                return line
        return ""


class Job:
    """One process that runs a module of benchmarks.gpu.jobs; `environment` is added to ours."""

    def __init__(
        self, name: str, arguments: Sequence[object], environment: Mapping[str, str] | None = None
    ) -> None:
        command = [sys.executable, "-m", f"benchmarks.gpu.jobs.{name}", *map(str, arguments)]
        self._begun_s = time.monotonic()
        self._process = subprocess.Popen(
            command, cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", start_new_session=True, env={**os.environ, **(environment or {})},
        )  # fmt: skip

    def ended(self, limit_s: float) -> Ended:
        """Wait for its end, `limit_s` from its beginning at most; then it is killed."""
        left_s = max(0.1, limit_s - (time.monotonic() - self._begun_s))
        code: int | None = None
        try:
            text, _ = self._process.communicate(timeout=left_s)
            code = self._process.returncode
        except subprocess.TimeoutExpired:
            self._kill()
            text, _ = self._process.communicate()
        self._kill()  # what it started
        return Ended(code, text or "", time.monotonic() - self._begun_s)

    def _kill(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
