"""Statistics of outputs, gradients, weights and updates, in one step of every `statistics_every`.

Sees: outputs of blocks, attention, MLP and the modules outside the blocks in their first forward of
the step that records gradients (in a pipeline: of the first micro-batch), through the hooks of
`modules`, which handle compiled and copied modules; a recomputation counts only where it is the
first. The parameters of every optimizer by layer, as it gets them: gradients (clipped, summed over
replicas), weights before, and their change by the step. Of sharded tensors each rank records its
own part; ingest/sql/tensor_health.sql combines them. Misses: outputs inside a compiled region or
under no_grad, other devices than CPU and CUDA, sparse and 8-bit tensors, tensors not yet summed
over ranks (DTensor's Partial), gradients kept outside `.grad` (Megatron's main_grad), and work
during the capture of a CUDA graph. Without the source `pipeline`, the forward in which torch finds
a stage's shapes is mistaken for training. Costs: on the device, for each tensor a pass that finds
its greatest size and a gather of at most 8,192 values (histograms.py); one copy to the host a step,
which nothing waits for. The drain thread does the rest. No communication, no random number, nothing
is written to a tensor of the job. See benchmarks/tensor_statistics.py.
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
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.tensors.histograms import statistics
from trace_hooks.sources.tensors.sampled_source import SampledSource
from trace_hooks.sources.tensors.tensor_names import NO_LAYER, Place, output_place, parameter_place
from trace_hooks.sources.tensors.tensor_samples import (
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
from trace_hooks.sources.unseen import unseen

MAX_TENSORS = 2_000
"""Most tensors of one step, 66 MB of values; further ones are dropped and counted."""

is_compiling = torch.compiler.is_compiling


class Statistics(SampledSource):
    """Tensor statistics, see the module's docstring."""

    name = "statistics"

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self._chunks: dict[Any, int] = {}  # by layer, or by name outside of layers
        self._handles: list[Any] = []

    def install(self) -> None:
        """Hook optimizers, if statistics are on."""
        if self.context.options.statistics_every:
            self._handles = [
                register_optimizer_step_pre_hook(self._before_step),
                register_optimizer_step_post_hook(self._after_step),
            ]

    def uninstall(self) -> None:
        """Remove the hooks, and write what is there."""
        self.context.models.on_output = None
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        super().uninstall()

    def step_begin(self) -> None:
        """Decide about the new step by its number: the same on all ranks."""
        self.step_end()
        every = self.context.options.statistics_every
        due = every > 0 and self.rank_state.step % every == 0
        self._due = DueStep(self.rank_state.step) if due else None
        self.context.models.on_output = self._output if due else None

    def _publish(self, copy: Copy) -> None:
        for sample, values, peak, checksum in copy.values():
            columns = statistics(values, sample.count, peak)
            sample.rms = columns.get("rms")
            before = sample.before.rms if sample.before is not None else None
            if sample.rms is not None and before:
                columns["update_ratio"] = sample.rms / before
            self.recorder.add_row(
                "tensor_stats",
                step=copy.step,
                tensor=sample.tensor,
                **sample.columns(),
                checksum=checksum,
                **columns,
            )

    def _add(self, due: DueStep, sample: TensorSample) -> None:
        if len(due.tensors) < MAX_TENSORS:
            due.tensors.append(sample)
        else:
            self.recorder.dropped += 1

    @guarded("statistics.output")
    @unseen
    def _output(self, part: Part, chunk: int, output: Any) -> None:
        """Sample the output of a part."""
        due = self._due
        microbatch = self.rank_state.microbatch
        if due is None or not part.module.training or not due.wants(part, microbatch):
            return
        part_and_shard = next(
            (own for tensor in tensors_in(output) if (own := own_part(tensor))), None
        )
        if part_and_shard is None:
            return
        tensor, shard = part_and_shard
        place = output_place(part.name, type(part.module).__name__)
        self._chunks[_chunk_key(place)] = chunk
        stride = stride_of([tensor])
        sample = TensorSample(
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
        self._add(due, sample)

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._due is not None and not is_compiling():
            self._begin(optimizer)

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._due is not None and not is_compiling():
            self._end(optimizer)

    @guarded("statistics.optimizer_begin")
    @torch.no_grad()
    def _begin(self, optimizer: Any) -> None:
        """Sample gradients and weights of an optimizer that is about to step."""
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
        """Sample what the optimizer step has changed."""
        due = self._due
        if due is None or due.optimizer != id(optimizer):
            return
        due.optimizer = None
        changing, due.changing = due.changing, []
        for before, sample, weights, stride in changing:
            change = sampled(weights, stride) - sample
            update = TensorSample(
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
            self._add(due, update)

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
        values, peak = sampled(parts, stride), peak_of(parts)
        sample = TensorSample(tensor, place, shard, chunk, UNKNOWN, count, values, peak)
        self._add(due, sample)
        return sample

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

        Made again each time: FSDP2 and others replace the parameters of a model.
        """
        owners: dict[int, tuple[Place, int]] = {}
        for model, stage in list(self.context.models.roots.values()):
            for path, parameter in model.named_parameters():
                place = parameter_place(path)
                chunk = self._chunks.get(_chunk_key(place), UNKNOWN) if stage is None else stage
                owners[id(parameter)] = place, chunk
        return owners


_NAMELESS = (Place(NO_LAYER, "parameters", "output"), UNKNOWN)
"""Place of parameters outside the watched models (an optimizer's own copies)."""


def _chunk_key(place: Place) -> Any:
    return place.name if place.layer == NO_LAYER else place.layer
