"""How all ranks of a job agree on what to do with a prompt, without a collective that could hang.

Ranks meet in the key-value store that training already has: each announces itself, waits for the
others for a bounded time, and proposes the next action. The store takes the first proposal (compare
and set), so all ranks read the same decision, even if a rank is late, missed a message or has
failed. Only a forward that some ranks enter and others do not could hang, so ranks agree on the ids
before each forward.
"""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import timedelta
from typing import Any

MEET_S = 20.0
"""A rank waits this long for the others, which end the same step or the same forward."""

STOP = "stop"
"""Key in a proposal that ends the prompt; its value is the reason, one sentence."""


class Agreement:
    """Meetings of all ranks about one prompt; `store`: None for a single rank."""

    def __init__(self, store: Any, name: str, rank: int, world_size: int) -> None:
        self._store = store
        self._prefix = f"trace_hooks/prompt/{name}"
        self.rank = rank
        self._world_size = world_size
        self._number = 0

    def meet(self, proposal: dict[str, Any] | None) -> dict[str, Any]:
        """The next action of all ranks: the first proposal, with "by", the rank that made it.

        `proposal`: None where this rank has none. Every rank must call this equally often, and end
        the prompt when the decision has STOP.
        """
        if self._store is None:
            return {"by": self.rank, **(proposal or {STOP: "no rank returned logits"})}
        key = f"{self._prefix}/{self._number}"
        self._number += 1
        if proposal is not None and STOP in proposal:
            self._propose(key, proposal)
        if not self._all_came(key):
            self._propose(key, {STOP: f"not all ranks came within {MEET_S:g} s"})
        elif proposal is not None:
            self._propose(key, proposal)
        elif not self._waited(key):
            self._propose(key, {STOP: "no rank returned logits"})
        decision: dict[str, Any] = json.loads(self._store.get(key))
        return decision

    def _all_came(self, key: str) -> bool:
        """Announce this rank, and wait for the others."""
        if self._store.add(f"{key}/came", 1) < self._world_size:
            return self._waited(f"{key}/all")
        self._store.set(f"{key}/all", "1")
        if self._number > 1:  # no rank reads the previous meeting any more
            before = f"{self._prefix}/{self._number - 2}"
            for old_key in (before, f"{before}/came", f"{before}/all"):
                with suppress(RuntimeError, NotImplementedError):
                    self._store.delete_key(old_key)
        return True

    def _waited(self, key: str) -> bool:
        try:
            self._store.wait([key], timedelta(seconds=MEET_S))
        except RuntimeError:  # DistStoreError among them
            return False
        return True

    def _propose(self, key: str, proposal: dict[str, Any]) -> None:
        self._store.compare_set(key, "", json.dumps({"by": self.rank, **proposal}))
