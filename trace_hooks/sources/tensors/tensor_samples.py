"""Samples of tensors on their device, and their copies to the host.

Nothing here waits for a device, communicates, or writes to a tensor of the job.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.utils import get_total_norm

from trace_hooks.recording.clock import now
from trace_hooks.recording.cuda.pinned_memory import PinnedCopy
from trace_hooks.recording.recorder import Recorder
from trace_hooks.sources.tensors.histograms import sample_stride
from trace_hooks.sources.tensors.tensor_names import Place
from trace_hooks.sources.training.module_parts import Part

MAX_COPIES = 4
"""Most copies in progress or not yet taken by the drain thread; newer ones are dropped and
counted."""

POLL_S = 0.2
"""Interval of looking for copies that have arrived: steps of 1/20 s lose none."""

MAX_ROWS_WAITING = 20_000
"""No rows are added while more rows than this wait to be written."""

LAST_COPY_S = 0.5
"""The end of training waits this long for the last copy."""


@dataclass(eq=False)
class TensorSample:
    """A sample of one tensor, or of this rank's part of it."""

    tensor: str  # one of schema.TENSORS
    place: Place
    shard: str
    chunk: int
    microbatch: int
    count: int
    sample: Tensor  # (N,), float32
    peak: Tensor | None  # (), the greatest size; None: not computed
    before: TensorSample | None = None  # of an update: the weights
    part: int = 0  # of an output: id of the part
    ts_ns: int = field(default_factory=now)
    rms: float | None = None  # once it is known
    checksum: Tensor | None = None  # (4,), float32: 16 bits each, lowest first
    stream: Any = None  # of the device, on which it was sampled

    def __post_init__(self) -> None:
        if self.sample.is_cuda:
            self.stream = torch.cuda.current_stream(self.sample.device)

    def columns(self) -> dict[str, Any]:
        """When and where it was taken, as rows of statistics name it."""
        return {
            "ts_ns": self.ts_ns,
            "microbatch": self.microbatch,
            "chunk": self.chunk,
            "layer": self.place.layer,
            "name": self.place.name,
            "shard": self.shard,
        }


@dataclass
class DueStep:
    """Samples of one step that are not being copied to the host yet."""

    step: int
    tensors: list[TensorSample] = field(default_factory=list)
    outputs: dict[int, int] = field(default_factory=dict)  # micro-batch by id of the part
    optimizers: set[int] = field(default_factory=set)  # ids of those that have begun
    optimizer: int | None = None  # id of the one that steps
    changing: list[tuple[TensorSample, Tensor, list[Tensor], int]] = field(default_factory=list)
    """(weights before, their sample, the weights, its stride) of the optimizer that steps."""

    def wants(self, part: Part, microbatch: int) -> bool:
        """Whether an output is the first of its part in the step.

        An output of a micro-batch replaces one without: torch's pipelining finds the shapes of a
        stage by a forward on made-up numbers, outside of any micro-batch.
        """
        before = self.outputs.get(id(part))
        if before is not None and (before >= 0 or microbatch < 0):
            return False
        self.outputs[id(part)] = microbatch
        if before is not None:
            self.tensors = [sample for sample in self.tensors if sample.part != id(part)]
        return True


class Arrived(NamedTuple):
    """A sample on the host: its values, greatest size and checksum."""

    sample: TensorSample
    values: npt.NDArray[np.float32]
    peak: float | None
    checksum: int | None


class Copy:
    """Values of a step on one device, being copied to the host."""

    def __init__(self, step: int, tensors: list[TensorSample]) -> None:
        self.step = step
        self.tensors = tensors
        flat = torch.cat([part for sample in tensors for part in _parts(sample)])
        self._pinned = PinnedCopy(flat) if flat.is_cuda else None
        self._values = flat if self._pinned is None else self._pinned.values
        self.sizes = [sample.sample.numel() for sample in tensors]
        for sample in tensors:  # do not keep the job's device memory
            sample.sample, sample.peak = _EMPTY, None if sample.peak is None else _EMPTY
            sample.checksum = None if sample.checksum is None else _EMPTY

    def is_ready(self) -> bool:
        """Whether the values have arrived."""
        return self._pinned is None or self._pinned.is_ready()

    @property
    def is_lost(self) -> bool:
        """Whether they never will, because the device has failed."""
        return self._pinned is not None and self._pinned.is_lost

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.tensors)

    def values(self) -> Iterator[Arrived]:
        """Each sample with its values; only after is_ready."""
        host, offset = self._values.numpy(), 0
        for sample, size in zip(self.tensors, self.sizes, strict=True):
            values, offset = host[offset : offset + size], offset + size
            peak = None
            if sample.peak is not None:
                peak, offset = float(host[offset]), offset + 1
            checksum = None
            if sample.checksum is not None:
                checksum, offset = _whole(host[offset : offset + _PIECES]), offset + _PIECES
            yield Arrived(sample, values, peak, checksum)


class OnItsWay(Protocol):
    """What is being copied to the host; its length: how much is lost if it does not arrive."""

    @property
    def is_lost(self) -> bool:
        """Whether it never will, because the device has failed."""

    def is_ready(self) -> bool:
        """Whether it has arrived, or never will."""

    def __len__(self) -> int: ...


C = TypeVar("C", bound=OnItsWay)


class CopyQueue(Generic[C]):
    """Copies in progress or not yet taken by the drain thread."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._waiting: deque[C] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, copy: C) -> None:
        """One more is in progress."""
        self._waiting.append(copy)

    def arrived(self) -> Iterator[C]:
        """Take the arrived copies in order; drop lost ones, and all while too many rows wait."""
        while self._waiting and self._waiting[0].is_ready():
            copy = self._waiting.popleft()
            if copy.is_lost or len(self._recorder.rows) > MAX_ROWS_WAITING:
                self._recorder.dropped += len(copy)
            else:
                yield copy

    def wait_for_last(self, poll: Callable[[], object]) -> None:
        """Poll until all have arrived, for LAST_COPY_S at most."""
        until_s = time.monotonic() + LAST_COPY_S
        while self._waiting and time.monotonic() < until_s:
            poll()
            if self._waiting:
                time.sleep(0.01)


class Copies(CopyQueue[Copy]):
    """Copies of samples; bounded, newer ones are dropped."""

    def send(self, due: DueStep) -> None:
        """Begin to copy the samples, stream by stream, each after the work that made it."""
        tensors, due.tensors = due.tensors, []
        if tensors and is_captured(tensors[0].sample):  # samples left from before the capture
            self._recorder.dropped += len(tensors)
            return
        by_stream: dict[Any, list[TensorSample]] = defaultdict(list)
        for sample in tensors:
            by_stream[sample.stream].append(sample)
        for stream, on_stream in by_stream.items():
            if len(self) < MAX_COPIES * len(by_stream):
                with torch.cuda.stream(stream):  # does nothing where it is None
                    self.add(Copy(due.step, on_stream))
            else:
                self._recorder.dropped += len(on_stream)


_EMPTY = torch.empty(0, device="cpu")


def _parts(sample: TensorSample) -> Iterator[Tensor]:
    yield sample.sample
    if sample.peak is not None:
        yield sample.peak.reshape(1)
    if sample.checksum is not None:
        yield sample.checksum


def tensors_in(output: Any) -> Iterator[Tensor]:
    """Tensors of a module's output, looking into tuples, lists and dicts once."""
    values: Iterable[Any] = (output,)
    if isinstance(output, dict):
        values = output.values()
    elif isinstance(output, (tuple, list)):
        values = output
    return (value for value in values if isinstance(value, Tensor))


def own_part(tensor: Tensor | None) -> tuple[Tensor, str] | None:
    """This rank's values of a tensor, and which part that is; None where they cannot be used.

    The part is named by the coordinates on the mesh axes over which the tensor is sharded, such as
    `dp=0,tp=1`; `whole` where every rank has all of it; empty where that is unknown.
    """
    if tensor is None:
        return None
    shard = ""
    if hasattr(tensor, "to_local"):  # a DTensor; importing its class takes long
        mesh: Any = tensor.device_mesh
        placements: Any = tensor.placements
        coordinates = mesh.get_coordinate()
        if coordinates is None or any(placement.is_partial() for placement in placements):
            return None
        names = mesh.mesh_dim_names or [f"axis {dim}" for dim in range(mesh.ndim)]
        along = zip(names, coordinates, placements, strict=True)
        shard = (
            ",".join(f"{name}={index}" for name, index, p in along if not p.is_replicate())
            or "whole"
        )
        tensor = tensor.to_local()
    plain = tensor.layout is torch.strided and tensor.is_floating_point() and tensor.itemsize > 1
    if not plain or not tensor.numel() or tensor.device.type not in ("cpu", "cuda"):
        return None
    if is_captured(tensor):
        return None
    return tensor.detach(), shard


def is_captured(tensor: Any) -> bool:
    """Whether work on a tensor would become part of a CUDA graph, to be replayed with it."""
    return bool(getattr(tensor, "is_cuda", False)) and torch.cuda.is_current_stream_capturing()


def is_capturing() -> bool:
    """Whether work on the current stream would become part of a CUDA graph."""
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


def stride_of(tensors: list[Tensor]) -> int:
    """Stride at which to sample tensors that count as one."""
    widths = {width for tensor in tensors for width in tensor.shape[-1:]}
    return sample_stride(sum(tensor.numel() for tensor in tensors), sorted(widths))


def sampled(tensors: list[Tensor], stride: int) -> Tensor:
    """Copy of every `stride`-th value of each of the tensors: (N,), float32."""
    samples = [tensor.reshape(-1)[::stride].to(torch.float32, copy=True) for tensor in tensors]
    return samples[0] if len(samples) == 1 else torch.cat(samples)


def peak_of(tensors: list[Tensor]) -> Tensor:
    """Greatest size of all values, (), float32; NaN or infinite where one of them is."""
    return get_total_norm(tensors, norm_type=float("inf")).to(torch.float32)


_PIECES = 4
"""A checksum is copied as this many numbers of 16 bits, which float32 holds exactly."""

_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def checksum_of(tensors: list[Tensor]) -> Tensor:
    """Sum of the bits of all values modulo 2^64, (4,), float32: 16 bits each, lowest first."""
    sums = [tensor.view(_BITS[tensor.itemsize]).sum(dtype=torch.int64) for tensor in tensors]
    total = torch.stack(sums).sum()
    pieces = [(total >> (16 * piece)) & 0xFFFF for piece in range(_PIECES)]
    return torch.stack(pieces).to(torch.float32)


def _whole(pieces: npt.NDArray[np.float32]) -> int:
    """The signed checksum made of its pieces."""
    checksum = sum(int(piece) << (16 * index) for index, piece in enumerate(pieces.tolist()))
    return checksum - (1 << 64) if checksum >> 63 else checksum
