"""Greatest logit and entropy of each attention head, in the steps that record statistics.

Sees: the first call of attention in each module that records gradients in such a step (in a
pipeline: of the first micro-batch), under any kernel that trace_hooks/sources/tensors/attention.py
knows; heads and layers are counted over the whole model (global_indices.py). The logits of at most
MAX_ROWS query rows, spread over the sequence and up to four sequences, are recomputed from Q and K.
Misses: what attention.py misses; modules of models that are not watched; rows that are not sampled,
so the greatest logit is that of a sample; calls with a single key, which have no entropy. Costs: a
product of MAX_ROWS rows with all keys for each head, on the device; one copy to the host a step,
which nothing waits for. No communication, no random number, nothing is written to a tensor of the
job; losses are bitwise equal with it on and off. Between such steps one comparison a call.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from trace_hooks.recording.guard import guarded
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.tensors.attention import CALLS, AttentionCall, summary, summary_rows
from trace_hooks.sources.tensors.global_indices import AttentionPlace, GlobalPlaces
from trace_hooks.sources.tensors.sampled_source import SampledSource
from trace_hooks.sources.tensors.tensor_names import Place
from trace_hooks.sources.tensors.tensor_samples import Copy, DueStep, TensorSample
from trace_hooks.sources.unseen import unseen

MAX_ROWS = 64
"""Query rows of each head: with 8,192 keys 2 MB of logits a head."""

MAX_CALLS = 512
"""Most modules of one step; further ones are dropped and counted."""


@dataclass(eq=False)
class HeadsSample(TensorSample):
    """Of each head the greatest logit, then of each head the entropy; `count`: sampled rows."""

    head_begin: int = 0


class AttentionStatistics(SampledSource):
    """Attention statistics, see the module's docstring."""

    name = "attention_statistics"

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self._places = GlobalPlaces(context)

    def install(self) -> None:
        """Listen to calls of attention, if statistics are on."""
        if self.context.options.statistics_every:
            CALLS.listen(self._called)

    def uninstall(self) -> None:
        """Stop listening, and write what is there."""
        CALLS.unlisten(self._called)
        super().uninstall()

    def step_begin(self) -> None:
        """Decide about the new step by its number: the same on all ranks."""
        self.step_end()
        every = self.context.options.statistics_every
        due = every > 0 and self.rank_state.step >= 0 and self.rank_state.step % every == 0
        self._due = DueStep(self.rank_state.step) if due else None

    def _called(self, call: AttentionCall) -> None:
        if self._due is not None and torch.is_grad_enabled() and call.num_keys > 1:
            self._look(call)

    @guarded("attention_statistics.call")
    @unseen
    def _look(self, call: AttentionCall) -> None:
        """Sample a call of attention that is about to run."""
        due, place = self._due, self._places.attention(call)
        if due is None or place is None or not place.part.module.training:
            return
        if not due.wants(place.part, place.microbatch):
            return
        if len(due.tensors) >= MAX_CALLS:
            self.recorder.dropped += 1
            return
        due.tensors.append(_sample(call, place))

    def _publish(self, copy: Copy) -> None:
        for sample, values, _, _ in copy.values():
            assert isinstance(sample, HeadsSample)
            logit_H, entropy_H = np.split(values.astype(np.float64), 2)
            for head, (logit, entropy) in enumerate(zip(logit_H, entropy_H, strict=True)):
                self.recorder.add_row(
                    "attention_stats",
                    step=copy.step,
                    **sample.columns(),
                    head=sample.head_begin + head,
                    rows=sample.count,
                    max_logit=float(logit) if np.isfinite(logit) else None,
                    entropy=float(entropy) if np.isfinite(entropy) else None,
                )


def _sample(call: AttentionCall, place: AttentionPlace) -> HeadsSample:
    return HeadsSample(
        "attention",
        Place(place.layer, place.name, "attention"),
        place.shard,
        place.chunk,
        place.microbatch,
        summary_rows(call, MAX_ROWS),
        torch.cat(summary(call, MAX_ROWS)),
        None,
        part=id(place.part),
        head_begin=place.head_begin,
    )
