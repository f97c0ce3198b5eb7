"""The self-test of one rank: meet, measure, meet again; rank 0 also plans, writes and prints."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from trace_hooks.job.process_info import host_name
from trace_hooks.selftest.arguments import Options
from trace_hooks.selftest.communication import TransferError, connect
from trace_hooks.selftest.compute import Own, find_device
from trace_hooks.selftest.conductor import STOP, Answer, Conductor, StoppedError
from trace_hooks.selftest.director import Director
from trace_hooks.selftest.measuring import Measuring
from trace_hooks.selftest.plan import Sizes, Unit, plan
from trace_hooks.selftest.refusal import why_busy
from trace_hooks.selftest.results import RunFolder, new_name
from trace_hooks.selftest.summary import summary_lines

EXIT_OK, EXIT_STOPPED, EXIT_REFUSED = 0, 1, 2
START_S = 120.0
"""Processes of a large job do not start at the same moment."""


class Rank:
    """One process of the self-test."""

    def __init__(self, options: Options, store: Any, rank: int, num_ranks: int) -> None:
        self._options, self._store = options, store
        self.rank, self._num_ranks = rank, num_ranks
        self._conductor = Conductor(store, rank, num_ranks, options.timeout_s + 5.0)
        self._own: Own | None = None
        self._infos: list[Answer] = []
        self._director: Director | None = None
        self._folder: RunFolder | None = None

    def run(self) -> int:
        """Measure; returns the exit code."""
        try:
            self._start()
            self._measure()
        except StoppedError as stopped:
            code = self._stopped(stopped)
        else:
            code = EXIT_OK
            if self.rank == 0:
                self._finish({})
        self._conductor.leave()
        return code

    def _start(self) -> None:
        """Exchange what ranks are, and connect them; raises StoppedError where one refuses."""
        agreed = self._conductor.meet("the start", self._about(), self._accept, START_S)
        self._infos, self._chosen = agreed["infos"], agreed["options"]
        self._kind = self._infos[0]["kind"]
        self._sizes = Sizes.of(self._kind, self._chosen["message_bytes"])
        problem = None
        try:
            if self._num_ranks > 1:
                connect(self._own_device(), self._store, self.rank, self._num_ranks,
                        self._options.timeout_s)  # fmt: skip
        except TransferError as error:
            problem = str(error)
        self._conductor.meet("connecting", {"problem": problem}, self._connected)

    def _own_device(self) -> Own:
        assert self._own is not None
        return self._own

    def _about(self) -> Answer:
        """What this rank is, and why it cannot or must not measure."""
        local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        num_local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        about: Answer = {
            "host": self._options.host or host_name(),
            "pid": os.getpid(),
            "local_rank": local_rank,
            "started_ns": time.time_ns(),
            "kind": "",
            "device": "",
            "uuid": "",
        }
        try:
            own = self._own = find_device(self._options.device, local_rank, num_local)
        except ValueError as error:
            return about | {"busy": [], "problem": str(error)}
        busy = [] if self._options.anyway else why_busy(self._options.folder, own)
        about |= {"kind": own.kind, "device": own.name, "uuid": own.uuid}
        return about | {"busy": busy, "problem": None}

    def _accept(self, infos: list[Answer]) -> Answer:
        """Rank 0: go on, or the reason why not."""
        for rank, info in enumerate(infos):
            if info["problem"] is not None:
                return {STOP: f"{self._named(rank, info)}: {info['problem']}", "refused": True}
        if len({info["kind"] for info in infos}) > 1:
            without = [self._named(r, i) for r, i in enumerate(infos) if i["kind"] == "cpu"]
            return {STOP: f"without a GPU: {', '.join(without[:8])}; or give --device cpu"}
        busy = dict.fromkeys(sentence for info in infos for sentence in info["busy"])
        if busy:
            why = "; ".join(busy)
            return {STOP: f"refused: {why}. Wait until it has ended, or give --anyway."}
        chosen = {"message_bytes": self._options.message_bytes, "samples": self._options.samples}
        return {"infos": infos, "options": chosen}

    def _connected(self, answers: list[Answer]) -> Answer:
        """Rank 0: the first unit, or who could not connect."""
        failed = {r: a["problem"] for r, a in enumerate(answers) if a["problem"]}
        if failed:
            why = next(iter(failed.values()))
            who = ", ".join(self._named(rank) for rank in list(failed)[:8])
            return {STOP: f"these ranks could not connect to the others: {who} ({why})"}
        hosts = [info["host"] for info in self._infos]
        units = plan(hosts, self._kind, self._sizes)
        self._director = Director(units, self._options.budget_s, self._kind == "cuda")
        return {}

    def _named(self, rank: int, info: Answer | None = None) -> str:
        info = info or (self._infos[rank] if self._infos else None)
        return f"rank {rank}" + (f" on {info['host']}" if info else "")

    def _measure(self) -> None:
        """Units until rank 0 ends it."""
        director = self._director
        take = director.take if director is not None else _not_asked
        measuring = Measuring(
            self._own_device(),
            self.rank,
            [info["host"] for info in self._infos],
            self._sizes,
            int(self._chosen["samples"]),
            self._options.timeout_s,
        )
        own: Answer = {"rows": [], "is_broken": False}
        what, number = "connecting", 0
        while True:
            message = self._conductor.meet(what, own, take)
            if "unit" not in message:
                return
            unit = Unit.from_json(message["unit"])
            own = measuring.measured(unit, float(message["seconds"]), number)
            what = f"{unit.test} with {unit.num_bytes:,} bytes"
            number += 1

    def _stopped(self, stopped: StoppedError) -> int:
        """Rank 0 writes what it has, and names who is at fault; the others leave."""
        if not stopped.ranks:
            if self.rank == 0:
                print(f"selftest: {stopped.reason}", file=sys.stderr)
                if self._director is not None:
                    self._finish({}, stopped.reason)
            return EXIT_STOPPED if self._director is not None else EXIT_REFUSED
        who = ", ".join(self._named(rank) for rank in stopped.ranks[:16])
        reason = f"no answer from {who} after {stopped.reason}"
        if self.rank == 0 or stopped.ranks == (0,):
            print(f"selftest: {reason}", file=sys.stderr)
        if self.rank == 0 and self._director is not None:
            self._finish(dict.fromkeys(stopped.ranks, reason), reason)
        return EXIT_STOPPED

    def _finish(self, failed: dict[int, str], reason: str | None = None) -> None:
        """Rank 0: write the run folder and print what was measured."""
        director = self._director
        assert director is not None
        notes = [("error", reason)] if reason else []
        if director.left_out:
            parts = ", ".join(f"{number} of {test}" for test, number in director.left_out.items())
            why = "a transfer failed" if director.is_broken else "the budget ended"
            notes.append(("note", f"Units left out because {why}: {parts}."))
        hosts = len({info["host"] for info in self._infos})
        about = f"self-test of {self._num_ranks} ranks on {hosts} hosts ({self._kind})"
        folder = RunFolder(
            self._options.folder / (self._options.name or new_name()), self._infos, about
        )
        folder.write(director.rows, notes)
        folder.end(failed)
        print("\n".join([*summary_lines(director.rows), *(text for _, text in notes)]))
        print(f"written to {folder.path}; `rankscope selftest {folder.path}` names what is slow")


def _not_asked(_answers: list[Answer]) -> Answer:
    raise AssertionError("only rank 0 decides")
