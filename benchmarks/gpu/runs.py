"""Runs parts in separate processes and stores their results."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.gpu.figures import Figure, read_figures
from benchmarks.gpu.machine import Machine
from benchmarks.gpu.parts import PARTS, Part
from benchmarks.gpu.run_part import NOT_HERE

LIMIT_S = 480
REPO = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Result:
    """How a part ended, and its figures so far. States: passed (all promises hold), failed, stopped
    (it took too long, or its process died), skipped.
    """

    part: Part
    state: str
    why: str
    figures: list[Figure]
    seconds: float
    date: str

    @property
    def is_bad(self) -> bool:
        """Whether it needs attention."""
        return self.state in ("failed", "stopped")

    def in_words(self) -> str:
        """For the last lines printed."""
        checked = [figure for figure in self.figures if figure.holds is not None]
        held = sum(bool(figure.holds) for figure in checked)
        text = f"{held} of {len(checked)} checks hold, {len(self.figures)} figures"
        return f"{self.state}: {self.why or text}"


def run_part(part: Part, device: str, folder: Path) -> Result:
    """Run a part; afterwards its process and all child processes have ended."""
    print(f"\n({part.letter}) {part.shows}", flush=True)
    path = folder / f"{part.module}.figures"
    folder.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    begun_s = time.monotonic()
    command = [sys.executable, "-m", "benchmarks.gpu.run_part", part.module, device, str(path)]
    with subprocess.Popen(
        command,
        cwd=REPO,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=_environment(device),
    ) as process:
        lines, code = _followed(process)
    figures = read_figures(path)
    state, why = _state(code, lines, figures)
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    return Result(part, state, why, figures, round(time.monotonic() - begun_s, 1), date)


def _environment(device: str) -> dict[str, str]:
    """The environment without settings of the hooks; parts set those they need."""
    kept = {name: v for name, v in os.environ.items() if not name.startswith("TRACE_HOOKS")}
    # tiny models on several threads of a shared machine mostly wait for each other
    return kept | ({"OMP_NUM_THREADS": "1"} if device == "cpu" else {})


def _followed(process: subprocess.Popen[str]) -> tuple[list[str], int | None]:
    """Print its output; returns its last lines and its exit code, None if it took too long."""
    was_late = threading.Event()

    def end() -> None:
        was_late.set()
        _kill(process)

    timer = threading.Timer(LIMIT_S, end)
    timer.start()
    lines: list[str] = []
    try:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines = [*lines[-19:], line.rstrip()]
        code = process.wait()
    finally:
        timer.cancel()
        _kill(process)
    return lines, None if was_late.is_set() else code


def _kill(process: subprocess.Popen[str]) -> None:
    """The part and its jobs: they have process groups of their own, in the session of the part."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(ProcessLookupError, PermissionError):
            if os.getsid(int(entry.name)) == process.pid:
                os.kill(int(entry.name), signal.SIGKILL)


def _state(code: int | None, lines: list[str], figures: list[Figure]) -> tuple[str, str]:
    last = lines[-1][:300] if lines else "it printed nothing"
    if code is None:
        return "stopped", f"it took more than {LIMIT_S} s; its figures so far are kept"
    if code == NOT_HERE:
        return "skipped", last
    if code != 0:
        return "stopped", f"its process ended with {code}: {last}"
    missed = [figure.name for figure in figures if figure.holds is False]
    if missed:
        return "failed", f"does not hold: {'; '.join(missed)}"
    return "passed", ""


class ResultFiles:
    """Results of one machine, a file for each part."""

    def __init__(self, folder: Path, machine: Machine) -> None:
        self.folder = folder / machine.slug
        self._machine = machine

    def keep(self, result: Result) -> None:
        """Write it."""
        stored = asdict(result) | {"part": result.part.module, "machine": self._machine.to_json()}
        path = self.folder / f"{result.part.module}.json"
        path.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")

    def ended_well(self, part: Part) -> Result | None:
        """The stored result of a part that need not run again."""
        path = self.folder / f"{part.module}.json"
        if not path.exists():
            return None
        result = _read(json.loads(path.read_text("utf-8")))
        return None if result.is_bad else result

    @staticmethod
    def all_below(folder: Path) -> list[tuple[Machine, list[Result]]]:
        """Every machine and its results, in order of the parts."""
        machines = []
        for below in sorted(folder.glob("*/")):
            stored = [json.loads(path.read_text("utf-8")) for path in below.glob("*.json")]
            if stored:
                results = sorted(map(_read, stored), key=lambda result: result.part.letter)
                machines.append((Machine(**stored[0]["machine"]), results))
        return machines


def _read(stored: dict[str, Any]) -> Result:
    part = next(one for one in PARTS if one.module == stored["part"])
    figures = [Figure(**figure) for figure in stored["figures"]]
    return Result(part, stored["state"], stored["why"], figures, stored["seconds"], stored["date"])
