"""Replaces attributes of other people's classes and modules, and puts them back as they were."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from trace_hooks.recording.guard import disabled

_ABSENT = object()


class Patches:
    """The attributes one source has replaced, in order.

    An attribute that other code has replaced on top of ours stays as it is: that wrapper still
    calls ours, so our wrapper must work, or do nothing, after its source is gone. So does a name
    that was bound meanwhile (`from torch import save`): Recorder.is_over.
    """

    def __init__(self) -> None:
        self._replaced: list[tuple[Any, str, Any, Any]] = []

    def replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> bool:
        """Put `make(original)` in place of `owner.name`; False where there is no such name."""
        original = getattr(owner, name, _ABSENT)
        if original is _ABSENT:
            return False
        own = vars(owner).get(name, _ABSENT)
        ours = make(original)
        setattr(owner, name, ours)
        self._replaced.append((owner, name, own, ours))
        return True

    def restore(self) -> None:
        """Put every original back, the last replaced first."""
        while self._replaced:
            owner, name, own, ours = self._replaced.pop()
            if vars(owner).get(name) is not ours:
                continue
            if own is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, own)


def is_imported(module: str) -> bool:
    """Whether a module is ready, not just being imported on another thread."""
    found = sys.modules.get(module)
    return found is not None and not getattr(found.__spec__, "_initializing", False)


def around(
    original: Callable[..., Any],
    before: Callable[..., Any],
    after: Callable[[Any], Any],
    after_name: str,
) -> Callable[..., Any]:
    """Wrapper that calls `before(*args)`, the original, then `after(token)`.

    Both must be guarded; `before` returns a token, or None to do nothing. `after_name` is the
    guarded name of `after`: once that is off, `before` is not called, since nothing would end what
    it begins. The original runs outside any handler: its result and exceptions pass untouched.
    """

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        token = None if after_name in disabled else before(*args, **kwargs)
        if token is None:
            return original(*args, **kwargs)
        try:
            return original(*args, **kwargs)
        finally:
            after(token)

    return wrapper
