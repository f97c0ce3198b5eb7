"""What a prompt shows while it runs: frames for those who look live, stored nowhere.

prompt_token, a frame for each token: its probability in front of those of the most probable ones,
labels [[id, text], ...]; `sample` is its number. That of PROMPT_TOKENS holds the prompt itself,
that of THE_END how many tokens were made and ms of training, its label why it ended.
prompt_attention, a frame for each layer and token: rows are the heads from `row_begin` on, columns
the tokens before it.
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
    """Frames of one prompt (training thread); each goes to Live.on_frame."""

    def __init__(self, asked: Prompt, context: SourceContext, text: Callable[[int], str]) -> None:
        self.layers = frozenset(asked.layers)
        self._watch = f"{PROMPT}.{asked.id}"
        self._context = context
        self._text = text
        self._rows: list[tuple[AttentionPlace, npt.NDArray[np.float32]]] = []

    def begin(self, ids: Sequence[int]) -> None:
        """Show the prompt as the model reads it."""
        self._token(PROMPT_TOKENS, [(one, 1.0) for one in ids], 0)

    def token(self, number: int, length: int, chances: Sequence[tuple[int, float]]) -> None:
        """Show a token, the first of `chances`, after so many others."""
        self._token(number, chances, length)

    def end(self, made: int, problem: str, ns: int, speaks: bool) -> None:
        """Say that it is over, where this rank `speaks`; `ns`: what training has waited."""
        if speaks:
            values = np.array([made, ns / 1e6], dtype=np.float32)
            self._give(TOKEN, THE_END, values, "", labels=json.dumps([problem]))

    def keep(self, place: AttentionPlace, found_HT: Tensor) -> None:
        """Attention of the last token, of this rank's heads; shown with the token."""
        self._rows.append((place, found_HT.float().cpu().numpy()))

    def send(self, number: int) -> None:
        """Show what was kept: it is of the token of that number."""
        for place, found_HT in self._rows:
            self._give(
                ATTENTION,
                number,
                found_HT,
                place.shard,
                layer=place.layer,
                name=place.name,
                row_begin=place.head_begin,
            )
        self._rows = []

    def _token(self, number: int, chances: Sequence[tuple[int, float]], length: int) -> None:
        labels = json.dumps([[one, self._text(one)[:_LONGEST_TEXT]] for one, _ in chances])
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
        numbers = stored(np.ascontiguousarray(values))
        give(
            Frame(
                step=self._context.rank_state.step,
                ts_ns=time.time_ns(),
                watch=self._watch,
                what=what,
                layer=layer,
                name=name,
                shape=values.shape,
                dtype=numbers.dtype,
                data=numbers.data,
                scale=numbers.scale,
                zero=numbers.zero,
                shard=shard,
                sample=number,
                row_begin=row_begin,
                labels=labels,
            )
        )
