"""What is known of objects of the job, as long as they live: holding one would keep its memory, and
the number of one that is gone may be that of another later.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")
V = TypeVar("V")


def alive(held: weakref.ref[T], what: str) -> T:
    """The object, called `what` in the RuntimeError that is raised where the job has dropped it."""
    thing = held()
    if thing is None:
        raise RuntimeError(f"{what} is gone")
    return thing


class ByObject(Generic[V]):
    """Values by the id of an object that can be weakly referenced; they must not hold it."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[Any], V]] = {}

    def put(self, thing: Any, value: V) -> None:
        """From now on, the value of `thing`."""
        key = id(thing)
        self._entries[key] = weakref.ref(thing, partial(self._gone, key)), value

    def get(self, key: int) -> V | None:
        """The value of the object with this id; None where there is none."""
        entry = self._entries.get(key)
        return None if entry is None or entry[0]() is None else entry[1]

    def pop(self, key: int) -> V | None:
        """`get`, and forget it."""
        value = self.get(key)
        self._entries.pop(key, None)
        return value

    def pairs(self) -> list[tuple[Any, V]]:
        """Objects alive and their values, oldest first."""
        known = [(ref(), value) for ref, value in list(self._entries.values())]
        return [(thing, value) for thing, value in known if thing is not None]

    def clear(self) -> None:
        """Forget all."""
        self._entries.clear()

    def __contains__(self, key: object) -> bool:
        entry = self._entries.get(key)  # type: ignore[call-overload]
        return entry is not None and entry[0]() is not None

    def _gone(self, key: int, ref: weakref.ref[Any]) -> None:
        entry = self._entries.get(key)
        if entry is not None and entry[0] is ref:
            del self._entries[key]


class Roots:
    """Models of the job that are alive, by id: (model, its pipeline stage)."""

    def __init__(self) -> None:
        self._stages: ByObject[int | None] = ByObject()

    def put(self, model: Any, stage: int | None = None) -> None:
        """One more."""
        self._stages.put(model, stage)

    def values(self) -> list[tuple[Any, int | None]]:
        """All of them, oldest first."""
        return self._stages.pairs()

    def keys(self) -> list[int]:
        """Their ids."""
        return [id(model) for model, _ in self._stages.pairs()]

    def clear(self) -> None:
        """Forget all."""
        self._stages.clear()

    def __contains__(self, key: object) -> bool:
        return key in self._stages

    def __iter__(self) -> Iterator[int]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self._stages.pairs())
