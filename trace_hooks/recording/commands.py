"""What the server may ask of a rank: named commands with JSON arguments, each answered by an ack.

One registry, so that a command exists exactly where the part that carries it out has registered
it. Commands are data: nothing of them is ever evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trace_hooks.recording import guard

Handler = Callable[[Any], str]
"""JSON in, one sentence out; refuses with a ValueError of one sentence."""

WATCH = "watch"
_LONGEST_TEXT = 500


class Refused(ValueError):
    """Some of several things that were asked for at once cannot be done; `ids` are theirs."""

    def __init__(self, text: str, ids: Sequence[str]) -> None:
        super().__init__(text)
        self.ids = tuple(ids)


class Live:
    """What sources have to do with the dashboard, whether or not one is there."""

    def __init__(self) -> None:
        self.commands = Commands()
        self.about: dict[str, Callable[[], object]] = {}
        """JSON that the hello tells of this rank, by name; told again when it has changed"""
        self.beats: dict[str, Callable[[], object]] = {}
        """JSON that each heartbeat tells, by name"""
        self.on_frame: Callable[[Any], object] | None = None
        """Takes every trace_hooks.protocol.frames.Frame to who looks at it live; None: no server"""


class Commands:
    """Commands by name. Handlers run on the agent's thread and must not wait for training."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}

    def register(self, name: str, handler: Handler) -> None:
        """Have `handler` carry out a command; a later one takes the place of an earlier one."""
        self._handlers[name] = handler

    def answer(self, told: Mapping[str, Any]) -> dict[str, Any] | None:
        """Carry a message of the server out; its ack, None for what asks for none.

        {"type": "watch", "id", "watches": [...]} or {"type": "command", "id", "name", "args"}.
        """
        kind = told.get("type")
        if kind not in (WATCH, "command"):
            return None
        name, value = (
            (WATCH, told.get("watches")) if kind == WATCH else (told.get("name"), told.get("args"))
        )
        ack = {"type": "ack", "id": told.get("id")}
        return ack | self._carried_out(name, value)

    def _carried_out(self, name: object, value: Any) -> dict[str, Any]:
        handler = self._handlers.get(name) if isinstance(name, str) else None
        if handler is None:
            known = ", ".join(sorted(self._handlers)) or "none"
            return _said(False, f"this rank has no command {str(name)[:60]!r}; it has: {known}")

        def ask() -> dict[str, Any]:
            try:
                return _said(True, handler(value))
            except Refused as error:
                return _said(False, str(error)) | {"refused": error.ids}
            except ValueError as error:
                return _said(False, str(error))

        done = guard.attempt(f"agent.{name}", ask, switch_off=False)
        return done or _said(False, f"{name} failed on this rank; its own output says more")


def _said(done: bool, text: str) -> dict[str, Any]:
    return {"ok": done, "text": text[:_LONGEST_TEXT]}
