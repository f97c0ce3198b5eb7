"""From tensors of a model to frames: rows are picked and pooled on the device, the copy to the host
is asynchronous (on a CPU one pass into memory that is there already), and the drain thread does
what costs time on the host (scaling, encoding).

Shapes: N frames, R rows, C columns.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from trace_hooks.protocol.frames import MAX_VALUES, Frame, stored
from trace_hooks.protocol.watches import Watch
from trace_hooks.recording.clock import now, thread_cpu
from trace_hooks.recording.cuda.pinned_memory import PinnedCopy
from trace_hooks.sources.inspection.host_buffers import HostBuffers
from trace_hooks.sources.inspection.token_names import TokenNames


@dataclass(frozen=True)
class Rows:
    """Watched rows of a tensor. `slice`: among this rank's; `begin`: in the whole tensor."""

    slice: slice
    begin: int
    every: int

    def of(self, num_rows: int) -> int:
        """Number of these rows in a tensor of `num_rows`."""
        return len(range(num_rows)[self.slice])


def wanted_rows(watch: Watch, num_rows: int, num_columns: int, first: int = 0) -> Rows | None:
    """Watched ones of `num_rows` rows, which begin with row `first` of the whole; or None."""
    low, high = (0, num_rows) if watch.tokens is None else (watch.tokens[0], watch.tokens[1] + 1)
    if watch.tokens is not None:
        low, high = max(0, low - first), min(num_rows, high - first)
    most = min(watch.rows, MAX_VALUES // max(1, num_columns))
    if low >= high or most < 1:
        return None
    every = math.ceil((high - low) / most)
    return Rows(slice(low, high, every), first + low, every)


def size_of(watch: Watch, num_rows: int, num_columns: int) -> tuple[int, int]:
    """Rows and columns of a frame after pooling."""
    most = watch.size or max(num_rows, num_columns)
    return min(num_rows, most), min(num_columns, most)


def pooled(values_NRC: Tensor, size: int | None) -> Tensor:
    """Means over blocks, float32, so that `size` rows and columns remain; small ones as given."""
    num_rows, num_columns = values_NRC.shape[-2:]
    if size is None or (num_rows <= size and num_columns <= size):
        return values_NRC
    rows, columns = min(num_rows, size), min(num_columns, size)
    values_NRC = values_NRC.float()
    if num_rows % rows or num_columns % columns:
        return torch.nn.functional.adaptive_avg_pool2d(values_NRC.contiguous(), (rows, columns))
    small_NRC = values_NRC.unflatten(-2, (rows, -1)).mean(-2)  # twice as fast
    return small_NRC.unflatten(-1, (columns, -1)).mean(-1)


@dataclass(eq=False)
class Capture:
    """Frames of one hooked call, being copied to the host.

    `common`: columns with the same value in all frames; `each`: N dicts of the others; `values`:
    (N, R, C), the job's own memory until `to_host` has begun to copy it, float32 from then on.
    `names`: where the token ids of the labels are: "second half" of the columns, which then label
    the first half, or "values" themselves, for those that have a text.
    """

    common: dict[str, Any]
    each: list[dict[str, Any]]
    values: Tensor
    dtype: str = "float16"
    names: str = ""
    part: int = 0  # id of the captured part
    active: ActiveWatch | None = None  # the watch it is for
    is_counted: bool = True  # among the frames of the watch
    ts_ns: int = field(default_factory=now)
    _pinned: PinnedCopy | None = None

    def to_host(self, buffers: HostBuffers) -> None:
        """Begin to copy, before the job goes on and writes to its tensors again."""
        device = self.values
        if device.is_cuda:
            self._pinned = PinnedCopy(device.float().contiguous())
            self.values = self._pinned.values
        else:
            self.values = buffers.take(device.shape).copy_(device)

    def release(self, buffers: HostBuffers) -> None:
        """Give the memory of the values back; torch reuses pinned memory by itself."""
        if self._pinned is None:
            buffers.give(self.values)

    def is_ready(self) -> bool:
        """Whether the values have arrived."""
        return self._pinned is None or self._pinned.is_ready()

    @property
    def is_lost(self) -> bool:
        """Whether they never will, because the device has failed."""
        return self._pinned is not None and self._pinned.is_lost

    def frames(self, texts: TokenNames) -> Iterator[Frame]:
        """The frames (drain thread, after is_ready); `texts`: of tokens."""
        unix_ns = self.ts_ns + time.time_ns() - now()
        values_NRC, labels = self.values.numpy(), None
        ids_NRC = values_NRC
        if self.names == "second half":
            values_NRC, ids_NRC = np.split(values_NRC, 2, axis=-1)
        if self.names and (texts.has_texts or self.names != "values"):
            labels = [texts.labels(ids.astype(int).ravel().tolist()) for ids in ids_NRC]
        for index, (differing, values) in enumerate(zip(self.each, values_NRC, strict=True)):
            yield Frame(
                **self.common,
                **differing,
                ts_ns=unix_ns,
                shape=values.shape,
                **stored(values, self.dtype, _halved).columns(),
                labels=None if labels is None else labels[index],
            )


def _halved(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float16]:
    """Rounding to float16 as numpy does it, in a tenth of the time."""
    halves: npt.NDArray[np.float16] = torch.from_numpy(values).half().numpy()
    return halves.astype("<f2", copy=False)


MAX_STEP_BYTES = 64 << 20
"""Most bytes of one watch in one step, on one rank."""


@contextmanager
def charged(due: Sequence[ActiveWatch]) -> Iterator[None]:
    """Charge a whole hook to the watches that are due.

    They share the time that none of them has counted as its own: finding out where a call belongs
    and which watch captures it.
    """
    begun_ns, own_ns = thread_cpu(), sum(active.cost_ns for active in due)
    try:
        yield
    finally:
        own_ns -= sum(active.cost_ns for active in due)
        shared_ns = thread_cpu() - begun_ns + own_ns
        for active in due:
            active.cost_ns += shared_ns // len(due)


NOTHING_SEEN = (
    "this rank has captured nothing of it: attention in compiled regions, or computed without a "
    "fused kernel, is not visible; and where several ranks hold the same tensor, only one of them "
    "captures it"
)


class ActiveWatch:
    """A watch in progress and what it has cost."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.steps = 0  # captured
        self.thinned = 0  # steps left out to keep within bytes_per_s
        self.left_out = 0  # frames left out of captured steps, which were too large
        self.frames = 0
        self.num_bytes = 0
        self.cost_ns = 0  # CPU time of the training thread
        self.drain_ns = 0  # CPU time of the drain thread: encoding and writing
        self.note = ""  # what is not captured, and why
        self._owed = 0.0  # bytes above what bytes_per_s has allowed so far
        self._at_s = monotonic()
        self._step_bytes = 0

    def is_due(self, step: int) -> bool:
        """Whether to capture this step, by its number: the same on all ranks but for thinning."""
        watch = self.watch
        if step < 0 or step % watch.every or self.is_over(step):
            return False
        seconds = monotonic()
        self._owed = max(0.0, self._owed - (seconds - self._at_s) * watch.bytes_per_s)
        self._at_s = seconds
        self._step_bytes = 0
        if self._owed > 0:
            self.thinned += 1
            return False
        self.steps += 1
        return True

    def is_over(self, step: int) -> bool:
        """Whether it has ended by itself."""
        return self.watch.until is not None and step > self.watch.until

    def wants(self, layer: int) -> bool:
        """Whether it includes a layer."""
        return self.watch.layers is None or layer in self.watch.layers

    def allows(self, num_frames: int, num_bytes: int) -> bool:
        """Account for frames of this many bytes; False, and a count, where they exceed the step."""
        if self._step_bytes + num_bytes > MAX_STEP_BYTES:
            self.left_out += num_frames
            return False
        self._step_bytes += num_bytes
        self._owed += num_bytes
        self.num_bytes += num_bytes
        self.frames += num_frames
        return True

    def forget(self, num_frames: int) -> None:
        """Uncount frames that were dropped again; their cost stays."""
        self.frames -= num_frames

    def status(self) -> dict[str, Any]:
        """What it has captured and cost so far, as JSON."""
        return {
            "id": self.watch.id,
            "steps": self.steps,
            "thinned": self.thinned,
            "left_out": self.left_out,
            "frames": self.frames,
            "bytes": self.num_bytes,
            "cost_ns": self.cost_ns,
            "drain_ns": self.drain_ns,
            "text": self.note or ("" if self.frames or not self.steps else NOTHING_SEEN),
        }
