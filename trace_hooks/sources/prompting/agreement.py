"""How all ranks of a job do the same with a prompt, without a collective that could hang training.

Ranks meet in the key-value store that training has anyway: each says that it is there, waits for
the others for a bounded time, and proposes what is next. The store takes the first proposal
(compare and set), so what it then holds is the same for everyone, whoever was late, was never told
or has failed. Nothing but a forward that some ranks enter and others do not could hang: that is
why every rank agrees on the ids before each forward.
"""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import timedelta
from typing import Any

MEET_S = 20.0
"""How long a rank waits for the others, who end the same step, or the same forward."""

STOP = "stop"
"""Member of a proposal that ends the prompt: why, one sentence."""


class Agreement:
    """Meetings of all ranks about one prompt; `store` None where there is but one rank."""

    def __init__(self, store: Any, name: str, rank: int, world_size: int) -> None:
        self._store = store
        self._prefix = f"trace_hooks/prompt/{name}"
        self.rank = rank
        self._world_size = world_size
        self._number = 0

    def meet(self, proposal: dict[str, Any] | None) -> dict[str, Any]:
        """What all ranks do next: the first proposal of one of them, with "by", its rank.

        None: this rank has nothing to propose. Every rank must come here equally often, and end
        when the answer has STOP.
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
        found: dict[str, Any] = json.loads(self._store.get(key))
        return found

    def _all_came(self, key: str) -> bool:
        """Say that this rank is here, and wait for the others."""
        if self._store.add(f"{key}/came", 1) < self._world_size:
            return self._waited(f"{key}/all")
        self._store.set(f"{key}/all", "1")
        if self._number > 1:  # nobody looks at the meeting before any more
            before = f"{self._prefix}/{self._number - 2}"
            for one in (before, f"{before}/came", f"{before}/all"):
                with suppress(RuntimeError, NotImplementedError):
                    self._store.delete_key(one)
        return True

    def _waited(self, key: str) -> bool:
        try:
            self._store.wait([key], timedelta(seconds=MEET_S))
        except RuntimeError:  # DistStoreError among them
            return False
        return True

    def _propose(self, key: str, proposal: dict[str, Any]) -> None:
        self._store.compare_set(key, "", json.dumps({"by": self.rank, **proposal}))
