"""Commands that the server may send to a rank: a name and JSON arguments, each answered by an ack.

A command exists where the part that carries it out has registered it. Commands are data: nothing
in them is ever evaluated.
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
    """Some requests of a command that has several are refused; `ids` names those."""

    def __init__(self, text: str, ids: Sequence[str]) -> None:
        super().__init__(text)
        self.ids = tuple(ids)


class Live:
    """What sources offer to the dashboard, and where its frames go; it need not be there."""

    def __init__(self) -> None:
        self.commands = Commands()
        self.about: dict[str, Callable[[], object]] = {}
        """JSON about this rank, by name: part of its hello, which is sent again when one
        changes."""
        self.beats: dict[str, Callable[[], object]] = {}
        """JSON that each heartbeat carries, by name."""
        self.on_frame: Callable[[Any], object] | None = None
        """Sends a trace_hooks.protocol.frames.Frame to the dashboard; None without a server."""


class Commands:
    """Commands by name. Handlers run on the agent's thread and must not wait for training."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}

    def register(self, name: str, handler: Handler) -> None:
        """Have `handler` carry out a command; it replaces an earlier handler."""
        self._handlers[name] = handler

    def answer(self, message: Mapping[str, Any]) -> dict[str, Any] | None:
        """Carry out a message of the server and return its ack; None where it needs none.

        {"type": "watch", "id", "watches": [...]} or {"type": "command", "id", "name", "args"}.
        """
        kind = message.get("type")
        if kind not in (WATCH, "command"):
            return None
        name, value = (
            (WATCH, message.get("watches"))
            if kind == WATCH
            else (message.get("name"), message.get("args"))
        )
        ack = {"type": "ack", "id": message.get("id")}
        return ack | self._carried_out(name, value)

    def _carried_out(self, name: object, value: Any) -> dict[str, Any]:
        handler = self._handlers.get(name) if isinstance(name, str) else None
        if handler is None:
            known = ", ".join(sorted(self._handlers)) or "none"
            return _answer(False, f"this rank has no command {str(name)[:60]!r}; it has: {known}")

        def ask() -> dict[str, Any]:
            try:
                return _answer(True, handler(value))
            except Refused as error:
                return _answer(False, str(error)) | {"refused": error.ids}
            except ValueError as error:
                return _answer(False, str(error))

        done = guard.attempt(f"agent.{name}", ask, switch_off=False)
        return done or _answer(False, f"{name} failed on this rank; its own output says more")


def _answer(done: bool, text: str) -> dict[str, Any]:
    return {"ok": done, "text": text[:_LONGEST_TEXT]}
