"""Names of tokens: the text of each id, where the script gave a tokenizer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from trace_hooks.recording.guard import attempt

MAX_TEXT = 40
"""Most characters of one token's text: enough to distinguish the tokens of any real vocabulary."""

MAX_KNOWN = 1 << 18
MAX_LABELS = 1 << 18
"""Most characters of the labels of one frame, which have to fit into its header when quoted."""


class TokenNames:
    """Texts by id, from the script's tokenizer."""

    def __init__(self) -> None:
        self._decode: Callable[[list[int]], str] | None = None
        self._known: dict[int, str | None] = {}

    def use(self, decode: Callable[[list[int]], str] | None) -> None:
        """Use another tokenizer, from a list of ids to text; None: ids have no text."""
        self._decode, self._known = decode, {}

    @property
    def has_texts(self) -> bool:
        """Whether there is a tokenizer."""
        return self._decode is not None

    def labels(self, ids: Iterable[int]) -> str | None:
        """JSON list with an entry for each id: the id, [id, text] where it has one, null for a
        negative id. None where that would be too long for a frame.
        """
        text = json.dumps([self._label(token) for token in ids], separators=(",", ":"))
        return text if len(text) <= MAX_LABELS else None

    def _label(self, token: int) -> Any:
        if token < 0:
            return None
        if self._decode is not None and token not in self._known:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[token] = attempt(
                "tokens.decode", lambda: self._text(token), switch_off=False
            )
        text = self._known.get(token)
        return token if text is None else [token, text]

    def _text(self, token: int) -> str:
        assert self._decode is not None
        return str(self._decode([token]))[:MAX_TEXT]
