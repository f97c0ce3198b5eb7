"""The process that reads files from outside, under resource limits; `pool` sends its orders.

Orders and answers are lines of JSON on stdin and stdout::

    {"temporary": FOLDER}, the first one, where temporary files belong; no answer
    {"read": PATH, "bytes": SIZE, "into": FOLDER, "show": FOLDER or ""}
        -> {"bytes": SO FAR} now and then, for every file of an archive {"source": NAME, "number":
           N}, {"part": NAME, "number": N, "format": FORMAT, "start_ns": when its first rank began
           or null} and perhaps {"shown": true} once it can be looked at, {"done": true} at the end
    {"put_together": FOLDER, "format": FORMAT, "run": FOLDER} -> {"done": true}
    what no file is to blame for (a full disk, files that make no run) -> {"refused": TEXT,
           "disk_full": whether there was no room}

Several processes may have the same order: each file of an archive is read by the one that is first
to claim it, all others pass over it.

What was made of a file is pickled into FOLDER, for the process like this one that puts the parts
together; the process that gives orders opens none of these pickles, and no file from outside.
"""

from __future__ import annotations

import json
import os
import queue
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from ingest.errors import DiskFull, UserError, disk_error
from ingest.imports.kept_parts import KeptParts, kept_parts
from ingest.imports.parts import Part, parts_of, put_alone, put_together
from ingest.imports.time_zero import start_of
from ingest.limits import MIB, limits
from ingest.process_tuning import tune_worker
from ingest.readers import format_facts
from ingest.run_folder.run_writer import RunWriter
from trace_hooks.schema import publish_json

FINDINGS = "findings.json"
OUT_OF_MEMORY = 3
"""Status with which a process ends that no reader can be blamed for having too little memory."""
_ANSWER_EVERY_S = 0.05

Order = dict[str, Any]


def _show(part: Part, folder: Path) -> bool:
    """Let it be looked at while others are read, where it can be; returns whether it is."""
    from ingest.imports.preview import EarlyWriter  # small imports do without

    if part.value is None or not format_facts(part.format).is_previewable:
        return False
    with suppress(OSError, DiskFull):  # a disk without links, or a full one: seen at the end
        early = EarlyWriter(folder)
        put_alone(part, early)
        return early.show()
    return False


class Worker:
    """Obeys orders until there are no more."""

    def __init__(self, answers: TextIO) -> None:
        self._answers = answers
        self._num_bytes = 0
        self._answered_s = 0.0

    def obey(self, order: Order) -> None:
        """Carry out one order; the answer is the last line it writes."""
        if "temporary" in order:
            os.environ["TMPDIR"] = tempfile.tempdir = order["temporary"]
            return
        try:
            if "read" in order:
                self._read(order, Path(order["into"]))
            else:
                self._put_together(Path(order["put_together"]), order["format"], order["run"])
            self.answer(done=True)
        except UserError as error:
            self.answer(refused=str(error), disk_full=isinstance(error, DiskFull))
        except MemoryError:
            os._exit(OUT_OF_MEMORY)
        except OSError as error:  # a full disk; what files raise has become a problem of theirs
            failure = disk_error("the import", error)
            self.answer(refused=str(failure), disk_full=isinstance(failure, DiskFull))

    def answer(self, **facts: Any) -> None:
        """One line."""
        self._answers.write(json.dumps(facts) + "\n")
        self._answers.flush()

    def _read(self, order: Order, folder: Path) -> None:
        _limit_cpu(order["bytes"])
        self._num_bytes = 0

        with KeptParts(folder) as kept:

            def is_mine(number: int, name: str) -> bool:
                if not kept.claim(number):
                    return False
                self.answer(source=name, number=number)
                return True

            for number, part in parts_of(Path(order["read"]), folder, self._on_bytes, is_mine):
                kept.keep(part, number)
                start_ns = start_of(part)
                self.answer(part=part.name, number=number, format=part.format, start_ns=start_ns)
                if order["show"] and _show(part, Path(order["show"])):
                    self.answer(shown=True)

    def _put_together(self, folder: Path, format_name: str, run: str) -> None:
        writer = RunWriter(Path(run))
        put_together(kept_parts(folder), format_name, writer)
        publish_json(writer.found.to_json(), folder / FINDINGS)

    def _on_bytes(self, num_bytes: int) -> None:
        self._num_bytes += num_bytes
        if time.monotonic() - self._answered_s > _ANSWER_EVERY_S:
            self._answered_s = time.monotonic()
            self.answer(bytes=self._num_bytes)


def seconds_allowed(num_bytes: int) -> int:
    """How long a file of this many bytes may be read: a while, and a second for every MiB."""
    return limits().max_file_seconds + num_bytes // MIB


def _limit(what: int, value: int) -> None:
    """Lower a limit of this process, as far as its system has it."""
    _, hard = resource.getrlimit(what)
    most = value if hard == resource.RLIM_INFINITY else min(value, hard)
    with suppress(ValueError, OSError):
        resource.setrlimit(what, (most, hard))


def _limit_process() -> None:
    bounds = limits()
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_AS, bounds.max_reader_mib * MIB)
    _limit(resource.RLIMIT_FSIZE, bounds.max_spooled_mib * MIB)


def _limit_cpu(num_bytes: int) -> None:
    """For the case that the giver of orders is gone and cannot end this process."""
    used_s = time.process_time()
    # twice as much: a thread of a library may help; ingest.imports.pool measures the time that
    # passes
    _limit(resource.RLIMIT_CPU, int(used_s) + 2 * seconds_allowed(num_bytes))


def _orders() -> Iterator[Order]:
    """Orders as they come; the process ends, whatever it does, when its giver is gone."""
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            waiting.put(line)
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        order: Order = json.loads(waiting.get())
        yield order


def main() -> None:
    """Read files on orders from stdin."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="ascii")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nothing else is written among the answers
    tune_worker()
    _limit_process()
    worker = Worker(answers)
    worker.answer(ready=True)
    for order in _orders():
        worker.obey(order)


if __name__ == "__main__":
    main()
