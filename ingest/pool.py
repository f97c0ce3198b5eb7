"""Files read by several processes at once, which are ended when they take too long.

A process that crashes, hangs or needs too much memory costs the file it was reading: what it had
read of an archive before stays, and one sentence says what was lost. See ingest.workers.
"""

from __future__ import annotations

import json
import math
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from ingest.errors import UserError, printable
from ingest.parts import Part, format_of
from ingest.readers.limits import limits, variable
from ingest.readers.shelf import Shelf
from ingest.run_writer import Findings
from ingest.workers import FINDINGS, OUT_OF_MEMORY, keep_part, seconds_allowed

_LOOK_EVERY_S = 0.1
_START_S = 60.0
_BYTES_PER_PROCESS = 2 << 20
"""Starting a process costs as much as reading so many bytes of gzipped JSON."""
_MOST_TOLD = 400
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "ARROW_IO_THREADS"), "1")
"""There is a process for every core; threads of libraries would only take address space."""
_LAST = -1
"""Number of the job that is no file."""

Watch = Callable[[int, str], None]
"""Called with bytes read so far and the file in work, at least ten times a second."""


def num_processes(files: Sequence[Path]) -> int:
    """How many processes read these files."""
    sizes = sum(path.stat().st_size for path in files)
    return max(1, min(num_cores(), len(files), sizes // _BYTES_PER_PROCESS))


def num_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def worker_command() -> list[str]:
    """What starts a process that reads files; -P: nothing is imported from the current folder."""
    return [sys.executable, "-P", "-m", "ingest.workers"]


@dataclass
class _Job:
    """One file on disk, or the last one: putting together what was found in all of them.

    `seconds` is how long it may take; the last one has the time of all files.
    """

    number: int
    name: str
    num_bytes: int
    seconds: int
    order: dict[str, Any]
    num_parts: int = 0
    read_bytes: int = 0


class _Process:
    """One process; `until_s` is when it is ended if it has not answered."""

    def __init__(self, temporary: Path) -> None:
        self.job: _Job | None = None
        self.is_ready = False
        self.is_too_late = False
        self.until_s = time.monotonic() + _START_S
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed in end()
        self._text = b""  # of an answer that has not come whole
        self._process = subprocess.Popen(
            worker_command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            bufsize=0,
            env={**os.environ, **_ONE_THREAD, "TMPDIR": str(temporary)},
            start_new_session=True,  # Ctrl-C is for whoever started the import
        )

    def fileno(self) -> int:
        """Where its answers come from."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def take(self, job: _Job) -> None:
        """Begin with this."""
        assert self._process.stdin is not None
        self.job = job
        self.until_s = time.monotonic() + job.seconds
        with suppress(BrokenPipeError):  # it is gone: its answers say so
            self._process.stdin.write(json.dumps(job.order).encode() + b"\n")

    def answers(self) -> list[dict[str, Any]] | None:
        """What has come; None where it has ended."""
        piece = os.read(self.fileno(), 1 << 16)
        *lines, self._text = (self._text + piece).split(b"\n")
        return [json.loads(line) for line in lines] if piece else None

    def look_at_clock(self) -> None:
        """End it where its time is over."""
        if time.monotonic() > self.until_s and not self.is_too_late:
            self.is_too_late = True
            self._process.kill()

    def ending(self) -> str:
        """How it ended, when it has; waits for it."""
        status = self._process.wait()
        if self.is_too_late or status == -signal.SIGXCPU:
            allowed = self.job.seconds if self.job else 0
            return f"the reader was stopped after {allowed} s ({variable('max_file_seconds')})"
        if status == OUT_OF_MEMORY:
            bound = f"{limits().max_reader_mib:,} MiB of memory ({variable('max_reader_mib')})"
            return f"the reader needed more than {bound}"
        if status >= 0:
            return f"the reader ended with status {status}"
        name = signal.Signals(-status).name
        why = ", perhaps for want of memory" if -status == signal.SIGKILL else ""
        return f"the reader ended with signal {-status} ({name}{why})"

    def last_words(self) -> str:
        """The last line it wrote to stderr."""
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").split("\n")
        return next((printable(line)[:_MOST_TOLD] for line in reversed(lines) if line), "it ended")

    def end(self) -> None:
        """End it at once, whatever it does."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                stream.close()


class Pool:
    """Processes that read the files of one import; a context manager, which leaves none running.

    `folder` is for what they find; `watch` may raise to end the import.
    """

    def __init__(self, files: Sequence[Path], folder: Path, watch: Watch) -> None:
        self._folder = folder
        self._watch = watch
        jobs = [self._reading(number, path) for number, path in enumerate(files)]
        # the largest first, so that none is left for one process at the end
        self._waiting = deque(sorted(jobs, key=lambda job: -job.num_bytes))
        self._num_bytes = sum(job.num_bytes for job in jobs)
        self._seconds = sum(job.seconds for job in jobs)
        self._done_bytes = 0
        self._most = num_processes(files)
        self._formats: dict[tuple[int, int], tuple[str, str]] = {}
        self._processes: list[_Process] = []
        self._selector = selectors.DefaultSelector()
        self._temporary = folder / "temporary"
        self._temporary.mkdir()

    def _reading(self, number: int, path: Path) -> _Job:
        into, num_bytes = self._folder / f"{number:08}", path.stat().st_size
        order = {"read": str(path), "bytes": num_bytes, "into": str(into)}
        return _Job(number, str(path), num_bytes, seconds_allowed(num_bytes), order)

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        while self._processes:
            self._part_with(self._processes[-1])
        self._selector.close()

    def read(self) -> str:
        """Read all files; returns the one format they have, empty for none. Raises UserError."""
        self._work_off()
        return self._format()

    def put_together(self, format_name: str, run: Path) -> Findings:
        """Let one process write what was read into the folder of a run. Raises UserError."""
        while len(self._processes) > 1:
            self._part_with(self._processes[-1])
        told = {"put_together": str(self._folder), "format": format_name, "run": str(run)}
        self._waiting.append(_Job(_LAST, "what was read", self._num_bytes, self._seconds, told))
        self._work_off()
        return Findings.from_json(json.loads((self._folder / FINDINGS).read_text("utf-8")))

    def _work_off(self) -> None:
        """Until nothing waits and nobody works."""
        while self._waiting or self._busy():
            wanted = min(self._most, len(self._busy()) + len(self._waiting))
            while len(self._processes) < wanted:
                process = _Process(self._temporary)
                self._processes.append(process)
                self._selector.register(process, selectors.EVENT_READ)
            for process in self._processes:
                if process.is_ready and process.job is None and self._waiting:
                    self._give(process, self._waiting.popleft())
            for key, _ in self._selector.select(_LOOK_EVERY_S):
                if isinstance(key.fileobj, _Process):
                    self._listen(key.fileobj)
            for process in self._processes:
                process.look_at_clock()
            self._tell()

    def _busy(self) -> list[_Process]:
        return [process for process in self._processes if process.job is not None]

    def _give(self, process: _Process, job: _Job) -> None:
        if "into" in job.order:
            Path(job.order["into"]).mkdir()
        process.take(job)

    def _listen(self, process: _Process) -> None:
        answers = process.answers()
        if answers is None:
            self._lose(process)
            return
        for answer in answers:
            if "ready" in answer:
                process.is_ready = True
                process.until_s = math.inf
            elif "refused" in answer:
                raise UserError(answer["refused"])
            elif process.job is not None:
                self._hear(process, process.job, answer)

    def _hear(self, process: _Process, job: _Job, answer: dict[str, Any]) -> None:
        """What a process tells of its work."""
        if "bytes" in answer:
            job.read_bytes = min(answer["bytes"], job.num_bytes)
        elif "source" in answer:
            job.name = answer["source"]
        elif "part" in answer:
            is_new = answer["format"] not in {name for _, name in self._formats.values()}
            self._formats[job.number, job.num_parts] = (answer["part"], answer["format"])
            job.num_parts += 1
            if is_new:
                self._format()  # formats that do not go together end the import here
        elif "done" in answer:
            self._end(process, job)

    def _end(self, process: _Process, job: _Job) -> None:
        process.job = None
        self._done_bytes += job.num_bytes * (job.number != _LAST)

    def _format(self) -> str:
        return format_of(self._formats[place] for place in sorted(self._formats))

    def _lose(self, process: _Process) -> None:
        """A process has ended, which it never does by itself."""
        ending, job = process.ending(), process.job
        if not process.is_ready:
            raise UserError(f"no process to read with could be started: {process.last_words()}")
        self._part_with(process)
        if job is None:
            return
        if job.number == _LAST:
            raise UserError(f"{job.name} could not be put together: {ending}")
        shelf = Shelf(self._folder)
        rest = f"; nothing behind it in {job.order['read']} was read" if job.num_parts else ""
        shelf.add_problem(f"{job.name}: {ending}{rest}")
        keep_part(Part(job.name, "", shelf), Path(job.order["into"]), job.num_parts)
        self._end(process, job)

    def _part_with(self, process: _Process) -> None:
        self._selector.unregister(process)
        self._processes.remove(process)
        process.end()

    def _tell(self) -> None:
        jobs = [p.job for p in self._processes if p.job is not None and p.job.number != _LAST]
        newest = max(jobs, key=lambda job: job.number, default=None)
        done = self._done_bytes + sum(job.read_bytes for job in jobs)
        self._watch(done, newest.name if newest else "")
