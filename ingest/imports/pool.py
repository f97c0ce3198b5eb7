"""Files read by several processes at once, which are ended when they take too long.

A process that crashes, hangs or needs too much memory costs the file it was reading, or the member
of an archive: one sentence names what was lost. See ingest.imports.worker.
"""

from __future__ import annotations

import json
import math
import selectors
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ingest.cpu_count import num_cores
from ingest.errors import DiskFull, UserError
from ingest.imports.kept_parts import KeptParts
from ingest.imports.parts import Part, format_of
from ingest.imports.preview import Showing
from ingest.imports.time_zero import Starts
from ingest.imports.worker import FINDINGS, seconds_allowed
from ingest.imports.worker_command import worker_command
from ingest.imports.worker_handle import Job, Process
from ingest.readers.tables.staged_rows import StagedRows
from ingest.run_folder.run_writer import Findings

_LOOK_EVERY_S = 0.1
_BYTES_PER_PROCESS = 3 << 20
"""Starting a process costs as much as reading this many bytes of pickles."""
_LAST = -1
"""Number of the job that is no file."""
_MOST_LOST = 3
"""This many processes may end in one archive; what follows the last loss is not read."""
_BEHIND_ALL = 10**8 - 1

Watch = Callable[[int, str, int], None]
"""Called with bytes read so far, the newest file in work (or given out since the last call, where
none is in work any more) and the number of files that are read, at least ten times a second."""


def num_processes(files: Sequence[Path]) -> int:
    """How many processes read these files at most."""
    sizes = sum(path.stat().st_size for path in files)
    return max(1, min(num_cores(), sizes // _BYTES_PER_PROCESS))


class Pool:
    """Processes that read the files of one import; a context manager, which leaves none running.

    `folder` is for what they find; `watch` may raise to end the import. `showing`: where files are
    shown as soon as they are read.
    """

    def __init__(
        self, files: Sequence[Path], folder: Path, watch: Watch, showing: Showing | None = None
    ) -> None:
        self._folder = folder
        self._watch = watch
        self._showing = showing
        self._shows_something = False
        jobs = [self._reading(number, path) for number, path in enumerate(files)]
        self.starts = Starts([job.num_bytes for job in jobs])
        """when the files began"""
        # the largest first, so that none is left for one process at the end
        self._waiting = deque(jobs[number] for number in reversed(self.starts.turns))
        self._given: Job | None = None
        """the newest file that was given out since the last call of `watch`"""
        self._looked_at: Job | None = None
        """the smallest one that was given out to learn what times count from"""
        self._num_bytes = sum(job.num_bytes for job in jobs)
        self._seconds = sum(job.seconds for job in jobs)
        self._done_bytes = 0
        self._num_done = 0
        self._most = num_processes(files)
        self._formats: dict[str, tuple[tuple[int, int], str]] = {}
        """first part of each format: its file and member, and its name"""
        self._processes: list[Process] = []
        self._selector = selectors.DefaultSelector()
        self._temporary = folder / "temporary"
        self._temporary.mkdir()

    def _reading(self, number: int, path: Path) -> Job:
        shown = "" if self._showing is None else str(self._showing.folder)
        into, num_bytes = self._folder / f"{number:08}", path.stat().st_size
        order = {"read": str(path), "bytes": num_bytes, "into": str(into), "show": shown}
        return Job(number, str(path), num_bytes, seconds_allowed(num_bytes), order)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *error: object) -> None:
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
        order = {"put_together": str(self._folder), "format": format_name, "run": str(run)}
        self._waiting.append(Job(_LAST, "what was read", self._num_bytes, self._seconds, order))
        self._work_off()
        return Findings.from_json(json.loads((self._folder / FINDINGS).read_text("utf-8")))

    def _work_off(self) -> None:
        """Until no job waits and no process works."""
        while self._waiting or self._busy():
            wanted = len(self._busy()) + len(self._waiting) + len(self._to_share())
            while len(self._processes) < min(self._most, wanted):
                process = Process(worker_command(), self._temporary)
                self._processes.append(process)
                self._selector.register(process, selectors.EVENT_READ)
            for process in self._processes:
                if process.is_ready and process.job is None:
                    self._give_work(process)
            for key, _ in self._selector.select(_LOOK_EVERY_S):
                if isinstance(key.fileobj, Process):
                    self._read_answers(key.fileobj)
            for process in self._processes:
                process.look_at_clock()
            self._report()

    def _busy(self) -> list[Process]:
        return [process for process in self._processes if process.job is not None]

    def _to_share(self) -> list[Job]:
        """Archives that are long enough for one more process, those with most to read first."""
        jobs = {process.job.number: process.job for process in self._processes if process.job}
        long = [j for j in jobs.values() if j.is_archive and j.rest_bytes >= _BYTES_PER_PROCESS]
        return sorted(long, key=lambda job: -job.rest_bytes)

    def _give_work(self, process: Process) -> None:
        """What waits, else a part of an archive that another process reads."""
        if self._waiting:
            job = self._next()
            if job.number != _LAST:
                Path(job.order["into"]).mkdir(exist_ok=True)
                self._given = job
            process.take(job)
            return
        shared = next((job for job in self._to_share() if job.number not in process.had), None)
        if shared is not None:
            process.take(shared)

    def _next(self) -> Job:
        """The largest file; one process reads the smallest ones until one has a start."""
        is_looking = any(process.job is self._looked_at for process in self._busy())
        if is_looking or self.starts.first_ns is not None:
            return self._waiting.popleft()
        self._looked_at = self._waiting.pop()
        return self._looked_at

    def _read_answers(self, process: Process) -> None:
        answers = process.answers()
        if answers is None:
            self._lose(process)
            return
        for answer in answers:
            if "ready" in answer:
                process.is_ready = True
                process.until_s = math.inf
            elif "refused" in answer:
                raise (DiskFull if answer["disk_full"] else UserError)(answer["refused"])
            elif process.job is not None:
                self._follow(process, process.job, answer)

    def _follow(self, process: Process, job: Job, answer: dict[str, Any]) -> None:
        """Note what a process reports of its work."""
        if "bytes" in answer:
            job.read_bytes = max(job.read_bytes, min(answer["bytes"], job.num_bytes))
        elif "source" in answer:
            job.name = answer["source"]
            job.is_archive |= job.name != job.order["read"]
            process.source = answer["number"], answer["source"]
        elif "part" in answer:
            process.source = None
            job.is_read |= not job.is_archive
            self.starts.note(job.number, answer["number"], answer["start_ns"])
            self._note_format((job.number, answer["number"]), answer["part"], answer["format"])
        elif "shown" in answer:
            self._shows_something = True
        elif "done" in answer:
            process.job, process.until_s = None, math.inf
            self._end(job)

    def _end(self, job: Job) -> None:
        """One reader of it has nothing more to do; the last one ends it."""
        is_read = all(process.job is not job for process in self._processes)
        if is_read and job.number != _LAST:
            self._done_bytes += job.num_bytes
            self._num_done += 1
            self.starts.end(job.number)

    def _note_format(self, position: tuple[int, int], part: str, name: str) -> None:
        """Formats that do not go together end the import here."""
        known = self._formats.get(name)
        if known is None or position < known[0]:
            self._formats[name] = position, part
        if known is None:
            self._format()

    def _format(self) -> str:
        firsts = sorted((position, part, name) for name, (position, part) in self._formats.items())
        return format_of((part, name) for _, part, name in firsts)

    def _lose(self, process: Process) -> None:
        """A process has ended, which it never does by itself."""
        ending, job = process.ending(), process.job
        if not process.is_ready:
            raise UserError(
                f"the process that reads the files could not be started: {process.last_words()}"
            )
        self._part_with(process)
        if job is None:
            return
        if job.number == _LAST:
            raise UserError(f"{job.name} could not be put together: {ending}")
        job.num_lost += 1
        is_left = all(other.job is not job for other in self._processes)
        goes_on = job.is_archive and job.num_lost < _MOST_LOST
        self._note_loss(process, job, ending, is_end=is_left and not goes_on)
        if is_left and goes_on:
            self._waiting.appendleft(job)  # with those of its members that no process has taken
        elif is_left:
            self._end(job)

    def _note_loss(self, process: Process, job: Job, ending: str, is_end: bool) -> None:
        if job.is_read or (process.source is None and not is_end):
            return  # it ended after the last thing it read, so nothing is missing
        number, name = process.source or (_BEHIND_ALL - job.num_lost, job.order["read"])
        rest = f"; nothing after it in {job.order['read']} was read"
        staged = StagedRows(self._folder)
        staged.add_problem(f"{name}: {ending}{rest if is_end and job.is_archive else ''}")
        with KeptParts(Path(job.order["into"])) as kept:
            kept.keep(Part(name, "", staged), number)

    def _part_with(self, process: Process) -> None:
        self._selector.unregister(process)
        self._processes.remove(process)
        process.end()

    def _begin_to_show(self, showing: Showing) -> None:
        """Once something can be looked at and it is known what times count from."""
        t0_ns = None if showing.is_there else self.starts.first_ns
        if t0_ns is not None:
            showing.begin(self._format(), t0_ns)

    def _report(self) -> None:
        if self._showing is not None and self._shows_something:
            self._begin_to_show(self._showing)
        jobs = {p.job.number: p.job for p in self._processes if p.job and p.job.number != _LAST}
        newest, self._given = jobs[max(jobs)] if jobs else self._given, None
        done = self._done_bytes + sum(job.read_bytes for job in jobs.values())
        self._watch(done, newest.name if newest else "", self._num_done)
