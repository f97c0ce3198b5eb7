"""Jobs of a part in separate processes, with a time limit: python -m benchmarks.gpu.jobs.NAME.

A job passes its results to `hand_over`, which writes a file: a job's output is for people, and
libraries print as well.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[2]

_RAISED = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Interrupt)\b.*")

_FOUND = "RANKSCOPE_GPU_JOB_FOUND"
"""Variable with the file for a job's results."""


def hand_over(found: Any) -> None:
    """Called by a job: store its results as JSON; print them if no file was requested."""
    text, path = json.dumps(found), os.environ.get(_FOUND)
    if path is None:
        print(text)
    else:
        Path(path).write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class Ended:
    """How a job ended. `code`: None if it took longer than its limit and was killed. `found`: the
    results that it handed over; None if it did not.
    """

    code: int | None
    text: str  # standard output and error
    seconds: float
    found: Any = None

    @property
    def fault(self) -> str:
        """What went wrong; empty if it ended well."""
        if self.code is None:
            return f"it took more than {self.seconds:.0f} s"
        return "" if self.code == 0 else f"it ended with {self.code}: {self.last_line}"

    @property
    def last_line(self) -> str:
        """Its last output."""
        lines = self.text.strip().splitlines()
        return lines[-1][:300] if lines else "it printed nothing"

    @property
    def raised(self) -> str:
        """First line of the exception that ended it; empty if none did."""
        _, found, trace = self.text.rpartition("Traceback (most recent call last)")
        for line in trace.splitlines() if found else ():
            if _RAISED.match(line):
                return line
        return ""


class Job:
    """One process that runs a module of benchmarks.gpu.jobs. `environment` is added to ours;
    `under`: command that starts and watches it.
    """

    def __init__(
        self,
        name: str,
        arguments: Sequence[object],
        environment: Mapping[str, str] | None = None,
        under: Sequence[str] = (),
    ) -> None:
        module = f"benchmarks.gpu.jobs.{name}"
        self._folder = tempfile.TemporaryDirectory()
        self._found = Path(self._folder.name) / "found.json"
        self._begun_s = time.monotonic()
        self._process = subprocess.Popen(
            [*under, sys.executable, "-m", module, *map(str, arguments)],
            cwd=REPO,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            process_group=0,
            env={**os.environ, **(environment or {}), _FOUND: str(self._found)},
        )

    def ended(self, limit_s: float) -> Ended:
        """Wait for its end, at most `limit_s` from its start; then kill it."""
        left_s = max(0.1, limit_s - (time.monotonic() - self._begun_s))
        code: int | None = None
        try:
            text, _ = self._process.communicate(timeout=left_s)
            code = self._process.returncode
        except subprocess.TimeoutExpired:
            self._kill()
            text, _ = self._process.communicate()
        self._kill()  # what it started
        seconds = time.monotonic() - self._begun_s
        answer = json.loads(self._found.read_text("utf-8")) if self._found.exists() else None
        self._folder.cleanup()
        return Ended(code, text or "", seconds, answer)

    def _kill(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)


def run_job(
    name: str,
    arguments: Sequence[object],
    limit_s: float,
    environment: Mapping[str, str] | None = None,
    under: Sequence[str] = (),
) -> Ended:
    """One job from its beginning to its end."""
    return Job(name, arguments, environment, under).ended(limit_s)
