"""Content of a model while it trains, on request: attention, activations, logits, weights.

A watch (trace_hooks/protocol/watches.py) says what; nothing is captured without one, nor in a job
that was not started with `allow_content`. In steps whose number is a multiple of the watch's
`every`, the first training forward of each part (in a pipeline: of the first micro-batch) is
captured: attention weights recomputed from Q and K for the watched heads and rows, outputs of
blocks and MLPs, logits with the most probable next tokens and each token's loss, and with any of
these the ids of the tokens (token_captures.py); before the optimizer steps, gradients and weights.
Frames go to the table `frames` and, with a server, to the dashboard (Live.on_frame).

Every stage and tensor-parallel rank answers for its own layers and heads under their number in the
whole model (global_indices.py). Of copies only the first is captured: on replica 0, and on TP rank
0 for what all TP ranks hold. Under sequence parallelism rows have their number in the sequence.
Misses: what trace_hooks/sources/tensors/attention.py and statistics.py miss; attention under
context parallelism, where no rank has all keys; batch-second activations (Megatron's) are taken for
batch-first. Costs: without a watch, one check a step and one a recorded forward. With one,
capturing on the training thread (cost_ns of each frame, `status`), and encoding and writing on the
drain thread (drain_ns), which slows training by that much at most: they share caches and the
interpreter lock. Beyond a watch's bytes_per_s whole steps are left out and counted. No
communication, no random number, no waiting for a device.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch

from trace_hooks.protocol.watches import Ack, Watch, read_watch
from trace_hooks.recording.guard import guarded
from trace_hooks.sources.base import Source
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.inspection.capture_kinds import (
    attention_of,
    output_of,
    probabilities_of,
    qkv_of,
)
from trace_hooks.sources.inspection.captures import ActiveWatch, charged
from trace_hooks.sources.inspection.frame_queue import FrameQueue
from trace_hooks.sources.inspection.parameter_captures import ParameterCaptures
from trace_hooks.sources.inspection.sharded_vocabulary import part_here
from trace_hooks.sources.inspection.token_captures import TokenCaptures
from trace_hooks.sources.inspection.token_names import TokenNames
from trace_hooks.sources.inspection.watch_list import HEADS, OUTPUTS, PARAMETERS, WatchList
from trace_hooks.sources.tensors.attention import CALLS, AttentionCall
from trace_hooks.sources.tensors.global_indices import (
    GlobalPlaces,
    coordinates,
    first_index,
    has_all_columns,
    holds_first_copy,
    tensor_parallel,
)
from trace_hooks.sources.tensors.tensor_names import NO_LAYER, output_place
from trace_hooks.sources.tensors.tensor_samples import own_part, tensors_in
from trace_hooks.sources.training.module_parts import Part
from trace_hooks.sources.unseen import unseen

HEAD = re.compile(r"(^|[._])((lm_)?head|logits?|unembed\w*|output(_layer)?|embed_out)$")
"""Name of the module outside the blocks that returns the logits."""

is_grad_enabled = torch.is_grad_enabled


class Inspection(Source):
    """Frames of watched content, see the module's docstring."""

    name = "inspection"
    poll_s = 0.0  # deliver frames at once

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self._places = GlobalPlaces(context)
        self._watches = WatchList(context, self._places)
        self._seen: dict[tuple[str, int], tuple[Any, int]] = {}
        """(forward, micro-batch) captured in this step, by kind and id of the part."""
        self._length: dict[tuple[int | None, int], int] = {}  # tokens by (stage, layer)
        self._coordinates: dict[str, int] = {}
        self.token_names = TokenNames()
        self._frames = FrameQueue(context, self.token_names)
        self._due_content: list[ActiveWatch] = []  # due in this step, except those of parameters
        self._tokens = TokenCaptures(context.rank_state, self._frames)
        self._parameters = ParameterCaptures(context.models, self._places, self._frames)

    def install(self) -> None:
        """Take the watches that the job was started with."""
        if self.context.options.watches:
            self.set_watches(self.context.options.watches, "start")

    def uninstall(self) -> None:
        """Stop, and deliver what is there."""
        for origin in ("start", "code", "server"):
            self._watches.ask((), origin)
        self.step_begin()
        self._frames.finish()

    def set_watches(self, watches: Sequence[Watch], origin: str = "server") -> list[Ack]:
        """Replace the watches that `origin` has requested before, from the next step on.

        `origin`: start, code or server. Any thread. Returns an answer for each; refused ones do not
        run.
        """
        return self._watches.ask(watches, origin)

    def inspect(self, values: Sequence[Any]) -> list[Ack]:
        """Replace the watches of the user's own code by these JSON objects."""
        read = [read_watch(value) for value in values]
        acks = iter(
            self.set_watches([answer for answer in read if isinstance(answer, Watch)], "code")
        )
        return [answer if isinstance(answer, Ack) else next(acks) for answer in read]

    def what(self) -> dict[str, Any]:
        """What this rank can capture: its layers, and the number of heads seen so far."""
        most = max((number for _, number in self._watches.heads.values()), default=0)
        return {"layers": self._places.layers(), "heads": most}

    def status(self) -> list[dict[str, Any]]:
        """What each watch has captured, and its cost_ns (training thread) and drain_ns."""
        return [active.status() for active in list(self._watches.active)]

    def take_tokens(self, ids: Any) -> None:
        """Take the ids that the script gives for the tokens of this step."""
        if self._due_content and not self._is_replica():
            with torch.no_grad(), charged(self._due_content):
                self._tokens.take_given(self._watches_for_ids(), ids)

    def step_begin(self) -> None:
        """Decide about the new step by its number: the same on all ranks but for thinning."""
        watches = self._watches
        if watches.change():
            self._listen()
        if not watches.active:
            return
        self._frames.release()
        self._seen.clear()
        self._tokens.step_begin()
        if watches.begin_step(self.rank_state.step):
            self._listen()
        with charged(watches.due):
            self._coordinates = coordinates(self.rank_state.layout) if watches.due else {}
            self._due_content = [
                active for active in watches.due if active.watch.what not in PARAMETERS
            ]
            self.context.models.on_content = self._output if self._due_content else None
            due_parameters = [active for active in watches.due if active.watch.what in PARAMETERS]
            self._parameters.step_begin(due_parameters, self._coordinates)

    def step_end(self) -> None:
        """Queue what was held for the end of the step."""
        with charged(self._due_content):
            self._tokens.step_end()
        self._frames.release()

    def _listen(self) -> None:
        """Install the hooks that the watches need, and remove the others."""
        active = self._watches.active
        CALLS.unlisten(self._attention)
        if active:
            CALLS.listen(self._attention)
        self._frames.forget_sizes()
        self._parameters.listen(
            any(active_watch.watch.what in PARAMETERS for active_watch in active)
        )
        self._tokens.listen(any(active_watch.watch.what == "logits" for active_watch in active))
        if not active:
            self._watches.due, self._due_content = [], []
            self._parameters.step_begin([], {})
            self.context.models.on_content = None
            self._frames.release()

    @guarded("inspection.attention")
    def _attention(self, call: AttentionCall) -> None:
        """Capture from a call of attention that is about to run on this thread."""
        if self._due_content and is_grad_enabled():
            with charged(self._due_content):
                self._capture_call(call)

    @unseen
    def _capture_call(self, call: AttentionCall) -> None:
        place = self._places.attention(call)
        if place is None or not place.part.module.training or hasattr(call.query_BHSD, "fake_mode"):
            return
        layer = place.layer
        self._watches.heads[layer] = (place.head_begin, call.num_heads)
        self._length[place.stage, layer] = call.num_rows
        due = [
            active
            for active in self._due_content
            if active.watch.what in HEADS and active.wants(layer)
        ]
        if not due or not self._is_wanted("attention", place.part, place.mark):
            return
        if self._is_replica() or (place.shard == "whole" and self._coordinates.get("tp", 0)):
            return
        for active in due:
            make = attention_of if active.watch.what == "attention" else qkv_of
            self._frames.keep(active, place.part, place.stage, make(active, call, place))

    @guarded("inspection.output")
    def _output(self, part: Part, stage: int | None, output: Any, args: Any) -> None:
        """Capture the output of a part in a forward with gradients."""
        if self._due_content and part.module.training and not self._is_replica():
            with charged(self._due_content):
                self._capture(part, stage, output, args)

    @unseen
    def _capture(self, part: Part, stage: int | None, output: Any, args: Any) -> None:
        if args and self._tokens.is_ids(args[0]):
            self._capture_ids(part, stage, args[0])
        self._capture_output(part, stage, output)

    def _capture_ids(self, part: Part, stage: int | None, ids: Any) -> None:
        if self._is_split():
            return
        if self._places.layer(part, stage) == NO_LAYER and self._is_wanted("ids", part, object()):
            self._tokens.embedded(self._watches_for_ids(), part, stage, ids)

    def _watches_for_ids(self) -> list[ActiveWatch]:
        """Watches for which this rank captures ids: only TP rank 0 does, since all have them."""
        return [] if self._coordinates.get("tp", 0) else self._due_content

    def _capture_output(self, part: Part, stage: int | None, output: Any) -> None:
        place = output_place(part.name, type(part.module).__name__)
        what, layer = place.tensor, self._places.layer(part, stage)
        if layer == NO_LAYER:
            what = "logits" if HEAD.search(place.name) else ""
        due = [
            active for active in self._due_content if active.watch.what == what and what in OUTPUTS
        ]
        due = [active for active in due if what == "logits" or active.wants(layer)]
        if not due or not self._is_wanted(what, part, object()):
            return
        tensor = next(iter(tensors_in(output)), None)
        own = own_part(tensor)
        if own is None or hasattr(own[0], "fake_mode"):
            return
        shard, first = self._rows_here(part, stage, layer, tensor, own[1])
        if not shard:
            return
        columns = {
            "what": what,
            "layer": layer,
            "name": place.name,
            "shard": shard,
            "chunk": self.rank_state.chunk if stage is None else stage,
            "microbatch": self.rank_state.microbatch,
        }
        for active in due:
            own_columns = {**columns, "watch": active.watch.id}
            self._frames.keep(active, part, stage, output_of(active, own[0], own_columns, first))
            if what == "logits" and has_all_columns(tensor, shard):
                own_columns["what"] = "probabilities"
                made = probabilities_of(active, own[0], own_columns, first)
                self._frames.keep(active, part, stage, made)
                self._tokens.returned(active, part, stage, own[0], own_columns, first)
            elif what == "logits":
                first_id, num_parts = part_here(tensor, own[0], part, self.rank_state.layout)
                own_columns["shard"] = f"{shard} of {num_parts}"
                self._tokens.returned(active, part, stage, own[0], own_columns, first, first_id)

    def _rows_here(
        self, part: Part, stage: int | None, layer: int, tensor: Any, shard: str
    ) -> tuple[str, int]:
        """(shard, first token) of an output; an empty shard where another rank captures it."""
        if shard:  # a DTensor carries its placement
            is_first = holds_first_copy(tensor, self._coordinates)
            return (shard if is_first else ""), first_index(tensor, -2) if tensor.dim() > 1 else 0
        block = part if part.block is None else part.block
        index, size = tensor_parallel(block.module, self.rank_state.layout)
        num_rows = tensor.shape[-2] if tensor.dim() > 1 else 1
        if size > 1 and num_rows * size == self._length.get((stage, layer)):
            return f"tp={index}", index * num_rows  # sequence parallelism with plain tensors
        if size > 1 and layer == NO_LAYER:  # a head whose vocabulary is spread
            return f"tp={index}", 0
        return "" if self._coordinates.get("tp", 0) else "whole", 0

    def _is_split(self) -> bool:
        """Whether no rank has a whole sequence (context parallelism)."""
        layout = self.rank_state.layout
        return layout is not None and layout.size("cp") > 1

    def _is_replica(self) -> bool:
        """Whether this is a data-parallel copy, whose content replica 0 captures."""
        return self._coordinates.get("dp", 0) > 0

    def _is_wanted(self, kind: str, part: Part, forward: Any) -> bool:
        """Whether a forward is the part's first in the step, or the same as before.

        A forward of a micro-batch replaces one without: torch's pipelining finds the shapes of a
        stage by a forward on made-up numbers, outside of any micro-batch.
        """
        microbatch = self.rank_state.microbatch
        before = self._seen.get((kind, id(part)))
        if before is not None:
            if before[0] is forward:
                return True
            if before[1] >= 0 or microbatch < 0:
                return False
            self._frames.forget(part)
        self._seen[kind, id(part)] = forward, microbatch
        return True

    def poll(self) -> None:
        """Deliver the frames that have arrived (drain thread)."""
        self._frames.deliver()
