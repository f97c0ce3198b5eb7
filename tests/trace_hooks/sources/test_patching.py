"""Attributes are replaced, and put back as they were."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from trace_hooks.recording import guard
from trace_hooks.sources.patching import Patches, around


class Base:
    def method(self) -> str:
        return "base"


class Derived(Base):
    pass


@pytest.fixture
def patches() -> Iterator[Patches]:
    found = Patches()
    yield found
    found.restore()


def louder(original: Any) -> Any:
    return lambda self: original(self).upper()


def test_an_inherited_attribute_is_removed_again(patches: Patches) -> None:
    assert patches.replace(Derived, "method", louder)
    assert (Derived().method(), Base().method()) == ("BASE", "base")
    patches.restore()
    assert "method" not in vars(Derived)
    assert Derived().method() == "base"


def test_the_last_replacement_is_undone_first(patches: Patches) -> None:
    before = Base.method
    patches.replace(Base, "method", louder)
    patches.replace(Base, "method", lambda original: lambda self: original(self) + "!")
    assert Base().method() == "BASE!"
    patches.restore()
    assert Base.method is before


def test_a_wrapper_of_other_code_stays(patches: Patches) -> None:
    before = Base.method
    patches.replace(Base, "method", louder)
    ours = Base.method
    theirs = lambda self: ours(self) + "?"  # noqa: E731
    Base.method = theirs  # type: ignore[method-assign]
    patches.restore()
    assert Base.method is theirs
    Base.method = before  # type: ignore[method-assign]


def test_a_name_that_is_missing_is_left(patches: Patches) -> None:
    assert not patches.replace(Base, "nothing", louder)
    assert not hasattr(Base, "nothing")


def test_around_calls_after_even_where_the_original_raises() -> None:
    seen: list[Any] = []

    def before(value: int) -> int | None:
        return None if value == 0 else value

    def divided(value: int) -> float:
        return 1 / (value - 1)

    wrapper = around(divided, before, seen.append, "tests.after")
    assert wrapper(3) == 0.5
    with pytest.raises(ZeroDivisionError):
        wrapper(1)
    assert wrapper(0) == -1.0  # `before` returned None: no `after`
    assert seen == [3, 1]


def test_around_does_nothing_once_after_is_off() -> None:
    seen: list[Any] = []
    wrapper = around(str, seen.append, seen.append, "tests.after")
    guard.disabled.add("tests.after")
    try:
        assert wrapper(3) == "3"
    finally:
        guard.disabled.discard("tests.after")
    assert seen == []
