"""How the ranks of a job agree on their run and attempt.

Rank 0 decides and shares it through the key-value store that torch.distributed has already made:
a few bytes, no barrier. The other ranks look there now and then and hold their rows until then.
Everything here runs on the drain thread.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from trace_hooks.job.identity import Identity, Shared
from trace_hooks.job.process_info import (
    Place,
    agent_key,
    distributed,
    find_place,
    may_still_join,
    short_hash,
)
from trace_hooks.job.run_files import claimed_attempt
from trace_hooks.protocol.job_claims import attempt_file, first_text, new_start, run_secret
from trace_hooks.settings import Settings, starts_by_itself

log = logging.getLogger("trace_hooks")

JOIN_WAIT_S = 5.0
"""A process without a rank waits this long for torch.distributed, unless a step begins first."""

GROUP_WAIT_S = 120.0
"""A rank that trains waits this long for the group's store, then derives an identity by itself."""

SETUP_WAIT_S = 1800.0
"""The same for a rank that does not train yet: imports and checkpoints may come first."""

LAST_CALL_S = 2.0
"""A rank that ends early waits this long for rank 0 to share the identity."""


class IdentityFinder:
    """Finds the identity of this process; call `poll` until it returns one."""

    def __init__(
        self,
        settings: Settings,
        clock: tuple[str, int, int],
        ordinal: int = 0,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """`clock`: domain, Unix - monotonic and its error; `ordinal`: of starts in this process."""
        self._settings = settings
        self._clock = clock
        self._environ = environ
        # a torchrun agent's store outlives a restart: never read what the last attempt wrote;
        # launchers of other kinds do not give all ranks the same variables
        names = ("TORCHELASTIC_RESTART_COUNT", "MASTER_PORT", "WORLD_SIZE")
        is_elastic = "TORCHELASTIC_RUN_ID" in environ
        launch = "-".join(environ.get(name, "") for name in names) if is_elastic else ""
        self.prefix = f"trace_hooks/{launch}/{ordinal}"
        self._key = f"{self.prefix}/run"
        self._agent = agent_key(environ)
        self._agent_file = short_hash(self._agent, ordinal) if self._agent else None
        self._begun_s, self._begun_ns = time.monotonic(), time.time_ns()
        self._decided: Shared | None = None
        self._store: Any = None

    def poll(self, stepping: bool = False, last_call: bool = False) -> Identity | None:
        """Identity, once it is known. `stepping`: training runs; `last_call`: it is ending."""
        waited_s = time.monotonic() - self._begun_s
        place = find_place(self._environ)
        if place is None:
            if starts_by_itself(self._environ) and not stepping:
                return None  # it joins the group later, or starts the ranks and is none
            wait_more = may_still_join() and not stepping and waited_s < JOIN_WAIT_S
            if wait_more and not last_call:
                return None
            return self._identity(self._decide(), Place(0, 1, 0, sure=True))
        alone = last_call or waited_s > (GROUP_WAIT_S if stepping else SETUP_WAIT_S)
        if not place.sure and not alone:
            return None
        if place.rank == 0:
            return self._identity(self._decide(), place)
        shared = self._ask_store(LAST_CALL_S if last_call else 0.0)
        if shared is not None:
            return self._identity(shared, place)
        return self._without_group(place) if alone else None

    def revised(self, identity: Identity) -> Identity:
        """The identity of a process that has joined a group since: rank 0 of it keeps its run."""
        place = find_place(self._environ)
        if place is None or distributed() is None or place.world_size == identity.place.world_size:
            return identity
        if place.rank == 0:
            return replace(identity, place=place)
        log.warning(
            "trace_hooks: this process was taken for a job of its own, %s, and is rank %d of %d; "
            "see the ranks that a script starts itself in docs/hooks.md",
            identity.folder,
            place.rank,
            place.world_size,
        )
        return identity

    def share(self, identity: Identity) -> bool:
        """Share it with the other ranks once the group has a store; True when nothing is left to
        do.
        """
        if identity.place.rank != 0 or identity.place.world_size == 1:
            return True
        store = self.own_store()
        if store is None:
            return False
        store.set(self._key, json.dumps(asdict(identity.shared)))
        return True

    def leave_agent_file(self, identity: Identity) -> None:
        """Leave a trace of the launcher by which a restarted rank 0 recognises its run."""
        if self._agent_file is not None:
            path = identity.folder / "agents" / self._agent_file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()

    def _identity(self, shared: Shared, place: Place, *guesses: str) -> Identity:
        return Identity(shared, place, self._settings.folder / shared.run, guesses)

    def _decide(self) -> Shared:
        if self._decided is None:
            run = self._settings.run or self._run_of_agent() or _new_name(self._begun_ns)
            folder = self._settings.folder / run
            created_ns = _created_ns(folder) or self._begun_ns
            attempt, start = claimed_attempt(folder)
            secret = self._secret(folder)
            self._decided = Shared(run, attempt, created_ns, *self._clock, start, secret)
        return self._decided

    def _secret(self, folder: Path) -> str:
        """The secret that proves to a server that the run in `folder` is this job's."""
        return run_secret(folder) if self._settings.server is not None else ""

    def _run_of_agent(self) -> str | None:
        """Run that an earlier attempt under the same torchrun agent made."""
        if self._agent_file is None or not self._settings.folder.is_dir():
            return None
        for folder in self._settings.folder.iterdir():
            if (folder / "agents" / self._agent_file).exists():
                return folder.name
        return None

    def own_store(self) -> Any:
        """The job's key-value store; None where there is no group.

        A TCP store is cloned to a connection of our own, which is kept. Any other store is the
        job's and is not kept: a FileStore removes its file when the last of its ranks closes it,
        and a job that made its next group with that file would find old addresses in it.
        """
        if self._store is None and (group := distributed()) is not None:
            jobs = group.distributed_c10d._get_default_store()
            own = own_connection(jobs)
            if own is jobs:
                return jobs
            self._store = own
        return self._store

    def _ask_store(self, patience_s: float) -> Shared | None:
        """What rank 0 has shared; None before it has, and when its store is gone."""
        store = self.own_store()
        until_s = time.monotonic() + patience_s
        with suppress(RuntimeError):
            while store is not None:
                if store.check([self._key]):
                    return Shared(**json.loads(store.get(self._key)))
                if time.monotonic() >= until_s:
                    break
                time.sleep(0.05)
        return None

    def _without_group(self, place: Place) -> Identity:
        """Identity of a rank whose job never initialised its group: guessed from the folder."""
        guess = (
            f"rank {place.rank} of {place.world_size}: the job made no process group, so its "
            "attempt (start of the job) was guessed from the run folder"
        )
        run = self._settings.run or self._run_of_agent()
        if run is None:
            run = f"{_new_name(self._begun_ns)}-rank{place.rank}"
        folder = self._settings.folder / run
        taken = set(_attempts_of(folder, place.rank))
        attempt = next(n for n in range(len(taken) + 1) if n not in taken)
        created_ns = _created_ns(folder) or self._begun_ns
        start = new_start()
        with suppress(OSError):  # other ranks that share this folder read the same
            start = first_text(attempt_file(folder, attempt), start) or start
        secret = self._secret(folder)
        shared = Shared(run, attempt, created_ns, *self._clock, start, secret)
        return self._identity(shared, place, guess)


def own_connection(store: Any) -> Any:
    """A clone of a TCP store, so that a rank blocked in the job's one does not block us.

    Any other store is returned as it is: a clone of a FileStore counts as one more rank on its
    file.
    """
    try:
        return store.clone() if _is_tcp(store) else store
    except (AttributeError, NotImplementedError, RuntimeError) as error:
        log.debug("the store cannot be cloned, its own connection is used: %s", error)
        return store


def _is_tcp(store: Any) -> bool:
    """Whether keys lie in a TCPStore, whatever prefixes they have."""
    while (under := getattr(store, "underlying_store", None)) is not None:
        store = under
    return type(store).__name__ == "TCPStore"


def _new_name(now_ns: int) -> str:
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now_ns // 1_000_000_000))
    return f"{stamp}-{secrets.token_hex(3)}"


def _created_ns(folder: Path) -> int | None:
    with suppress(OSError, ValueError, KeyError, TypeError):
        return int(json.loads((folder / "run.json").read_text(encoding="utf-8"))["created_ns"])
    return None


def _attempts_of(folder: Path, rank: int) -> Iterator[int]:
    for path in (folder / "ranks").glob(f"*-{rank:05d}.json"):
        attempt = path.name.partition("-")[0]
        if attempt.isdecimal():
            yield int(attempt)
