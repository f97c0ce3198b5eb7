"""Frames of a running prompt: shown live and stored nowhere.

prompt_token, a frame for each token: its probability, then those of the most probable tokens, with
labels [[id, text], ...]; `sample` is its number. The frame with number PROMPT_TOKENS holds the
prompt itself; the one with THE_END the number of new tokens and the ms that training waited, and
its label says why the prompt ended. prompt_attention, a frame for each layer and token: rows are
the heads from `row_begin` on, columns the tokens before it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from torch import Tensor

from trace_hooks.protocol.frames import Frame, stored
from trace_hooks.protocol.prompts import PROMPT, Prompt
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.tensors.global_indices import AttentionPlace

PROMPT_TOKENS, THE_END = -1, -2
TOKEN, ATTENTION = "prompt_token", "prompt_attention"
_LONGEST_TEXT = 100


class PromptFrames:
    """Frames of one prompt (training thread), sent by Live.on_frame."""

    def __init__(self, prompt: Prompt, context: SourceContext, text: Callable[[int], str]) -> None:
        self.layers = frozenset(prompt.layers)
        self._watch = f"{PROMPT}.{prompt.id}"
        self._context = context
        self._text = text
        self._rows: list[tuple[AttentionPlace, npt.NDArray[np.float32]]] = []

    def begin(self, ids: Sequence[int]) -> None:
        """Send the prompt as the model reads it."""
        self._token(PROMPT_TOKENS, [(token, 1.0) for token in ids], 0)

    def token(self, number: int, length: int, chances: Sequence[tuple[int, float]]) -> None:
        """Send a token, the first of `chances`, which follows `length` others."""
        self._token(number, chances, length)

    def end(self, made: int, problem: str, ns: int, speaks: bool) -> None:
        """Send the end, where this rank `speaks`; `ns`: how long training has waited."""
        if speaks:
            values = np.array([made, ns / 1e6], dtype=np.float32)
            self._give(TOKEN, THE_END, values, "", labels=json.dumps([problem]))

    def keep(self, place: AttentionPlace, weights_HT: Tensor) -> None:
        """Keep the attention of the last token, of this rank's heads, until `send`."""
        self._rows.append((place, weights_HT.float().cpu().numpy()))

    def send(self, number: int) -> None:
        """Send the kept attention, with the number of its token."""
        for place, weights_HT in self._rows:
            self._give(
                ATTENTION,
                number,
                weights_HT,
                place.shard,
                layer=place.layer,
                name=place.name,
                row_begin=place.head_begin,
            )
        self._rows = []

    def _token(self, number: int, chances: Sequence[tuple[int, float]], length: int) -> None:
        labels = json.dumps([[token, self._text(token)[:_LONGEST_TEXT]] for token, _ in chances])
        values = np.array([share for _, share in chances], dtype=np.float32)
        self._give(TOKEN, number, values, "", labels=labels, row_begin=length)

    def _give(
        self,
        what: str,
        number: int,
        values: npt.NDArray[np.float32],
        shard: str,
        layer: int = -1,
        name: str = PROMPT,
        row_begin: int = 0,
        labels: str | None = None,
    ) -> None:
        give = self._context.live.on_frame
        if give is None:
            return
        give(
            Frame(
                step=self._context.rank_state.step,
                ts_ns=time.time_ns(),
                watch=self._watch,
                what=what,
                layer=layer,
                name=name,
                shape=values.shape,
                **stored(np.ascontiguousarray(values)).columns(),
                shard=shard,
                sample=number,
                row_begin=row_begin,
                labels=labels,
            )
        )
