"""Statistics of outputs, gradients, weights and updates, in one step of every `statistics_every`.

Sees: what blocks, attention, MLP and the parts beside them return in their first forward of the
step that records gradients (in a pipeline: of the first micro-batch), through the hooks of
`modules`, which deal with compiled and copied modules; a recomputation counts only where it is the
first. The parameters of every optimizer by layer, as it gets them: gradients (clipped, summed over
replicas), weights before, and what the step changed. Of tensors in shards each rank tells its own
part; ingest/sql/tensor_health.sql puts them together.
Misses: outputs inside a compiled region or under no_grad, other devices than CPU and CUDA, sparse
and 8-bit tensors, sums that are still to be made over ranks (DTensor's Partial), gradients kept
outside `.grad` (Megatron's main_grad), and what runs while a CUDA graph is captured. Without the
source `pipeline` the forward in which torch finds a stage's shapes is taken for training.
Costs: on the device, for each tensor a pass that finds its greatest size and a gather of at most
8,192 values (histograms.py); one copy to the host a step, which nobody waits for. The rest is
the drain thread's. No communication, no random number, nothing is written to a tensor of the job.
See benchmarks/tensor_statistics.py.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from trace_hooks.recording.guard import guarded
from trace_hooks.schema import UNKNOWN
from trace_hooks.sources.base import Source
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.tensors.histograms import statistics
from trace_hooks.sources.tensors.tensor_names import NO_LAYER, Place, output_place, parameter_place
from trace_hooks.sources.tensors.tensor_samples import (
    POLL_S,
    Copies,
    Copy,
    DueStep,
    TensorSample,
    checksum_of,
    own_part,
    peak_of,
    sampled,
    stride_of,
    tensors_in,
)
from trace_hooks.sources.training.module_parts import Part

MAX_TENSORS = 2_000
"""Tensors of one step at most, 66 MB of values; what comes beyond is dropped and counted."""

is_compiling = torch.compiler.is_compiling


class Statistics(Source):
    """Tensor statistics, see the module's docstring."""

    name = "statistics"
    poll_s = POLL_S

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self._due: DueStep | None = None
        self._copies = Copies(context.recorder)
        self._chunks: dict[Any, int] = {}  # by layer, or by name outside of layers
        self._handles: list[Any] = []

    def install(self) -> None:
        """Watch optimizers, if statistics are wanted at all."""
        if self.context.options.statistics_every:
            self._handles = [
                register_optimizer_step_pre_hook(self._before_step),
                register_optimizer_step_post_hook(self._after_step),
            ]

    def uninstall(self) -> None:
        """Take the hooks away and hand on what is there."""
        self.context.models.on_output = None
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self.step_end()
        self._copies.wait_for_last(self.poll)

    def step_begin(self) -> None:
        """Decide about the new step by its number: the same on all ranks."""
        self.step_end()
        every = self.context.options.statistics_every
        due = every > 0 and self.rank_state.step % every == 0
        self._due = DueStep(self.rank_state.step) if due else None
        self.context.models.on_output = self._output if due else None

    def step_end(self) -> None:
        """Send what was looked at to the host; what an optimizer hook adds later follows."""
        if self._due is not None:
            self._copies.send(self._due)

    def poll(self) -> None:
        """Make rows of what has arrived (drain thread)."""
        for copy in self._copies.arrived():
            self._publish(copy)

    def _publish(self, copy: Copy) -> None:
        for one, values, peak, checksum in copy.values():
            found = statistics(values, one.count, peak)
            one.rms = found.get("rms")
            before = one.before.rms if one.before is not None else None
            if one.rms is not None and before:
                found["update_ratio"] = one.rms / before
            self.recorder.add_row(
                "tensor_stats",
                step=copy.step,
                ts_ns=one.ts_ns,
                microbatch=one.microbatch,
                chunk=one.chunk,
                tensor=one.tensor,
                layer=one.place.layer,
                name=one.place.name,
                shard=one.shard,
                checksum=checksum,
                **found,
            )

    def _add(self, due: DueStep, one: TensorSample) -> None:
        if len(due.tensors) < MAX_TENSORS:
            due.tensors.append(one)
        else:
            self.recorder.dropped += 1

    @guarded("statistics.output")
    @torch.no_grad()
    def _output(self, part: Part, chunk: int, output: Any) -> None:
        """A part of a model has returned."""
        due = self._due
        microbatch = self.rank_state.microbatch
        if due is None or not part.module.training or not due.wants(part, microbatch):
            return
        found = next((own for tensor in tensors_in(output) if (own := own_part(tensor))), None)
        if found is None:
            return
        tensor, shard = found
        place = output_place(part.name, type(part.module).__name__)
        self._chunks[_chunk_key(place)] = chunk
        stride = stride_of([tensor])
        one = TensorSample(
            place.tensor,
            place,
            shard,
            chunk,
            microbatch,
            tensor.numel(),
            sampled([tensor], stride),
            peak_of([tensor]),
            part=id(part),
        )
        self._add(due, one)

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._due is not None and not is_compiling():
            self._begin(optimizer)

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._due is not None and not is_compiling():
            self._end(optimizer)

    @guarded("statistics.optimizer_begin")
    @torch.no_grad()
    def _begin(self, optimizer: Any) -> None:
        """An optimizer is about to step: its gradients and weights."""
        due = self._due
        if due is None or due.optimizer is not None or id(optimizer) in due.optimizers:
            return  # inside another one (ZeRO), or for the second time in this step
        due.optimizers.add(id(optimizer))
        due.optimizer = id(optimizer)
        for (place, chunk, shard), parameters in self._groups(optimizer).items():
            weights = [own for own, _ in parameters]
            gradients = [own[0] for _, grad in parameters if (own := own_part(grad))]
            stride = stride_of(weights)
            before = self._group(due, "weight", weights, (place, chunk, shard), stride)
            before.checksum = checksum_of(weights)
            due.changing.append((before, before.sample, weights, stride))
            if gradients:
                self._group(due, "gradient", gradients, (place, chunk, shard), stride)

    @guarded("statistics.optimizer_end")
    @torch.no_grad()
    def _end(self, optimizer: Any) -> None:
        """The optimizer has stepped: what it changed."""
        due = self._due
        if due is None or due.optimizer != id(optimizer):
            return
        due.optimizer = None
        changing, due.changing = due.changing, []
        for before, sample, weights, stride in changing:
            change = sampled(weights, stride) - sample
            one = TensorSample(
                "update",
                before.place,
                before.shard,
                before.chunk,
                UNKNOWN,
                before.count,
                change,
                None,
                before,
            )
            self._add(due, one)

    def _group(
        self,
        due: DueStep,
        tensor: str,
        parts: list[Tensor],
        where: tuple[Place, int, str],
        stride: int,
    ) -> TensorSample:
        place, chunk, shard = where
        count = sum(part.numel() for part in parts)
        sample, peak = sampled(parts, stride), peak_of(parts)
        one = TensorSample(tensor, place, shard, chunk, UNKNOWN, count, sample, peak)
        self._add(due, one)
        return one

    def _groups(
        self, optimizer: Any
    ) -> dict[tuple[Place, int, str], list[tuple[Tensor, Tensor | None]]]:
        """(own part, gradient) of the parameters that have a gradient, by place and shard."""
        owners = self._owners()
        groups: dict[Any, list[tuple[Tensor, Tensor | None]]] = defaultdict(list)
        for parameter in (p for group in optimizer.param_groups for p in group["params"]):
            own = None if parameter.grad is None else own_part(parameter)
            if own is not None:
                place, chunk = owners.get(id(parameter), _NAMELESS)
                groups[place, chunk, own[1]].append((own[0], parameter.grad))
        return groups

    def _owners(self) -> dict[int, tuple[Place, int]]:
        """Place and chunk of every parameter of the watched models, by id.

        Made anew each time: FSDP2 and others put new parameters in a model's place.
        """
        owners: dict[int, tuple[Place, int]] = {}
        for model, stage in list(self.context.models.roots.values()):
            for path, parameter in model.named_parameters():
                place = parameter_place(path)
                chunk = self._chunks.get(_chunk_key(place), UNKNOWN) if stage is None else stage
                owners[id(parameter)] = place, chunk
        return owners


_NAMELESS = (Place(NO_LAYER, "parameters", "output"), UNKNOWN)
"""Of parameters that are in no watched model (copies that an optimizer made for itself)."""


def _chunk_key(place: Place) -> Any:
    return place.name if place.layer == NO_LAYER else place.layer
