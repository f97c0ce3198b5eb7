"""Files of a browser as a run: received as one stream, kept for a moment, imported by a thread.

The body of an upload::

    uint32 little-endian: bytes of the list | list, UTF-8 JSON: [{"name", "size"}, ...] | contents

Nothing of it is whole in memory. The files lie in RUNS/.uploads/up-RANDOM until they are imported;
that folder is removed when they are, when they cannot be, when the browser leaves and when the
server stops; what a killed server left is removed by the next one (app.upload_places).
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO
from weakref import WeakKeyDictionary, finalize

from app.hub import Hub
from app.importing import import_paths
from app.upload_places import new_folder, remove_stale
from ingest.errors import UserError, printable
from ingest.run_files import RUN_FILE, is_run_folder
from trace_hooks.schema import publish_json

DEFAULT_LIMIT_BYTES = 4 << 30
LIMIT_VARIABLE = "RANKSCOPE_MAX_UPLOAD_MB"
_MAX_LIST_BYTES = 4 << 20
_MAX_FILES = 16_384
_LONGEST_NAME_BYTES = 160
_KEPT_JOBS = 64
_CLOSE_S = 5.0
_NOT_IN_NAMES = re.compile(r"[^\w.+=@() -]")


class TooBig(UserError):
    """More bytes than the server takes."""


class NoRoom(UserError):
    """The disk is full or may not be written."""


def limit_bytes() -> int:
    """How much one upload may have, by RANKSCOPE_MAX_UPLOAD_MB or 4 GiB."""
    text = os.environ.get(LIMIT_VARIABLE, "")
    return int(text) << 20 if text.isdecimal() and int(text) else DEFAULT_LIMIT_BYTES


def safe_name(name: str) -> str:
    """A file's own name without folders, control characters or a dot in front; never empty."""
    last = re.split(r"[/\\]", name)[-1]
    plain = _NOT_IN_NAMES.sub("_", last).strip(". ")
    while len(plain.encode()) > _LONGEST_NAME_BYTES:  # endings say the format: cut in front
        plain = plain[1:].lstrip(". ")
    return plain or "file"


@dataclass(frozen=True)
class FileHead:
    """One file of the list in front of the contents."""

    name: str
    num_bytes: int


def parse_list(content: bytes, limit: int) -> list[FileHead]:
    """The list of files; raises UserError for one that is damaged, empty or too big."""
    try:
        entries = json.loads(content)
        heads = [FileHead(str(e["name"]), e["size"]) for e in entries]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise UserError("the list of files in front of the upload is damaged") from None
    if not heads or len(heads) > _MAX_FILES:
        raise UserError(f"an upload has 1 to {_MAX_FILES} files, this one {len(heads)}")
    for head in heads:
        is_whole = isinstance(head.num_bytes, int) and not isinstance(head.num_bytes, bool)
        if not is_whole or head.num_bytes < 0:
            raise UserError(f"the size of {head.name[:80]} is {head.num_bytes!r}, no whole number")
    check_size(sum(head.num_bytes for head in heads), limit)
    return heads


def check_size(num_bytes: int, limit: int) -> None:
    """Raise TooBig beyond the limit."""
    if num_bytes > limit:
        raise TooBig(
            f"the upload has {num_bytes / 1e6:,.0f} MB, more than the {limit / 1e6:,.0f} MB taken "
            f"here; use `rankscope import` on the server, or start it with {LIMIT_VARIABLE}"
        )


class Receiver:
    """Takes the bytes of one upload as they come and writes its files. Not thread-safe."""

    def __init__(self, runs: Path, limit: int) -> None:
        if is_run_folder(runs):
            raise UserError(f"{runs} is one run; serve a folder of runs to add others")
        self._limit = limit
        self._head = bytearray()
        self._heads: list[FileHead] | None = None
        self._missing = 0
        self._file: BinaryIO | None = None
        self.paths: list[Path] = []
        self.is_removed = False
        try:
            self.folder, self._lock = new_folder(runs)
        except OSError as error:
            raise _no_room(runs, error) from None

    def feed(self, content: bytes) -> None:
        """The next bytes; raises UserError (TooBig, NoRoom)."""
        try:
            rest = memoryview(content) if self._heads is not None else self._split_list(content)
            while len(rest):
                rest = self._write(rest)
        except OSError as error:
            raise _no_room(self.folder.parent.parent, error) from None

    def _split_list(self, content: bytes) -> memoryview:
        """What follows the list of files, once that has come."""
        self._head += content
        length = int.from_bytes(self._head[:4], "little")
        if len(self._head) >= 4 and length > _MAX_LIST_BYTES:
            raise UserError("this is no upload of the dashboard: its list of files has no end")
        if len(self._head) < 4 + length or len(self._head) < 4:
            return memoryview(b"")
        self._heads = parse_list(bytes(self._head[4 : 4 + length]), self._limit)
        rest = memoryview(bytes(self._head[4 + length :]))
        self._head.clear()
        self._open_next()
        return rest

    def _write(self, content: memoryview) -> memoryview:
        if self._file is None:
            raise UserError("the upload is longer than its list of files says")
        part = content[: self._missing]
        self._file.write(part)
        self._missing -= len(part)
        if not self._missing:
            self._open_next()
        return content[len(part) :]

    def _open_next(self) -> None:
        """Open the next file that has bytes; empty ones are there at once."""
        while True:
            if self._file is not None:
                self._file.close()
                self._file = None
            if self._heads is None or len(self.paths) == len(self._heads):
                return
            head = self._heads[len(self.paths)]
            path = self._place_of(head)
            self.paths.append(path)
            self._file = path.open("xb")
            self._missing = head.num_bytes
            if self._missing:
                return

    def _place_of(self, head: FileHead) -> Path:
        """Names stay as they are, ranks are read off them; doubles get a folder of their own."""
        path = self.folder / safe_name(head.name)
        if path.exists():
            path = self.folder / f"again-{len(self.paths)}" / path.name
            path.parent.mkdir()
        return path

    def finish(self) -> None:
        """Say that all bytes have come; raises UserError where some are missing."""
        is_whole = self._heads is not None and self._file is None
        if not is_whole or len(self.paths) != len(self._heads or ()):
            raise UserError("the upload ended before all its files had come; send it again")

    def remove(self) -> None:
        """Leave nothing behind."""
        if self._file is not None:
            self._file.close()
            self._file = None
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.release()
        self.is_removed = True


def _no_room(runs: Path, error: OSError) -> NoRoom:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NoRoom(f"the disk of {runs} is full; make room there and send it again")
    return NoRoom(f"{runs} cannot be written: {error.strerror}; check its rights")


@dataclass
class Job:
    """One import: `state` is importing, done or failed."""

    id: str
    state: str = "importing"
    done_bytes: int = 0
    num_bytes: int = 0
    run: str | None = None
    is_known: bool = False
    """the same content was here already"""
    problems: list[str] = field(default_factory=list)
    guesses: list[str] = field(default_factory=list)
    error: str | None = None
    cancelled: bool = False

    def progress(self, done_bytes: int, num_bytes: int) -> None:
        """Called by the import; ends it where it was cancelled."""
        self.done_bytes, self.num_bytes = done_bytes, num_bytes
        if self.cancelled:
            raise UserError("the import was cancelled")


class Imports:
    """Imports of one server, one at a time, each known by a random id for a while."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()
        self._one_at_a_time = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._received: list[Receiver] = []
        self._closed = False
        remove_stale(runs)

    def receive(self, limit: int) -> Receiver:
        """A place for the files of an upload of at most `limit` bytes; raises UserError."""
        with self._lock:
            if self._closed:
                raise UserError("the server is stopping; send it again later")
            received = Receiver(self.runs, limit)
            self._received = [one for one in self._received if not one.is_removed]
            self._received.append(received)
        return received

    def start(self, received: Receiver) -> Job:
        """Import what was received, in a thread."""
        job = Job(secrets.token_hex(8))
        with self._lock:
            self._jobs[job.id] = job
            while len(self._jobs) > _KEPT_JOBS:
                self._jobs.pop(next(iter(self._jobs)))
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(
            target=self._work, args=(job, received), name=f"import {job.id}", daemon=True
        )
        self._threads.append(thread)
        thread.start()
        return job

    def cancel(self) -> None:
        """Take nothing new, and cancel what is under way."""
        with self._lock:
            self._closed = True
            for job in self._jobs.values():
                job.cancelled = True

    def close(self, limit_s: float = _CLOSE_S) -> None:
        """Cancel what is under way, wait so long for it, and leave no upload on disk."""
        self.cancel()
        until_s = time.monotonic() + limit_s
        for thread in self._threads:
            thread.join(max(0.0, until_s - time.monotonic()))
        with self._lock:
            received = list(self._received)
        for one in received:
            one.remove()

    def job(self, job_id: str) -> Job:
        """The import of that id; raises UserError."""
        job = self._jobs.get(job_id)
        if job is None:
            raise UserError("that import is not known any more; see the list of runs")
        return job

    def _work(self, job: Job, received: Receiver) -> None:
        with self._one_at_a_time:
            begun_ns = time.time_ns()
            try:
                job.progress(0, 0)
                folder = import_paths(received.paths, self.runs, job.progress)
                info = _without_place(folder / RUN_FILE, received.folder)
                job.problems, job.guesses = info["problems"], info["guesses"]
                job.is_known = (folder / RUN_FILE).stat().st_ctime_ns < begun_ns
                job.run, job.state = folder.name, "done"
            except UserError as error:
                job.error = str(error).replace(printable(f"{received.folder}/"), "")
                job.state = "failed"
            except OSError as error:
                job.error, job.state = str(_no_room(self.runs, error)), "failed"
            except Exception as error:
                job.error = f"these files cannot be read ({type(error).__name__}); tell us of it"
                job.state = "failed"
                raise  # a bug: the server's log has the traceback, the page a sentence
            finally:
                received.remove()


def _without_place(path: Path, place: Path) -> dict[str, list[str]]:
    """run.json, rewritten so that it names the files as the user knows them."""
    info = json.loads(path.read_text(encoding="utf-8"))
    told = {key: info.get(key, []) for key in ("provenance", "problems", "guesses")}
    clean = {k: [line.replace(f"{place}/", "") for line in lines] for k, lines in told.items()}
    if clean != told:
        publish_json({**info, **clean}, path)
    return clean


_imports: WeakKeyDictionary[Hub, Imports] = WeakKeyDictionary()
_imports_lock = threading.Lock()


def imports_of(hub: Hub) -> Imports:
    """The imports of a hub's server; closed with the hub where nobody does it before."""
    with _imports_lock:
        imports = _imports.get(hub)
        if imports is None:
            imports = _imports[hub] = Imports(hub.store.folder)
            finalize(hub, imports.close)
        return imports
