"""Objects that a hub has one of, and whose modules it does not know."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary, finalize

from app.runs.hub import Hub


class _Closable(Protocol):
    def close(self) -> None: ...


T = TypeVar("T", bound=_Closable)


class PerHub(Generic[T]):
    """Makes the object of a hub when it is first asked for; it must not keep the hub alive."""

    def __init__(self, make: Callable[[Hub], T]) -> None:
        self._make = make
        self._of: WeakKeyDictionary[Hub, T] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def __getitem__(self, hub: Hub) -> T:
        with self._lock:
            found = self._of.get(hub)
            if found is None:
                found = self._of[hub] = self._make(hub)
                finalize(hub, found.close)  # with the hub, else with the process
            return found
