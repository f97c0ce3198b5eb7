"""(f) Content that is watched: attention of fused kernels, activations, logits, gradients, weights.

A small GPT trains under a watch of each kind while the job keeps copies of its own tensors. Then
each frame that the hooks wrote is compared with the copy: attention weights, which fused kernels
do not store, with a softmax of Q and K in float64; everything else with the tensor itself. Frames
hold float16 with a scale, so a value may be off by 2^-11 of itself; bfloat16 fits in completely, so
the count of values that differ in any bit should be 0. Each backend of scaled_dot_product_attention
is forced in turn; the note says which operator torch ran. With TF32 for float32 products the
logits, and so the weights, would be less exact; it is off here, as is torch's default.

fp8: an MLP whose product runs in float8 (torch._scaled_mm) and returns bfloat16, as fp8 training
does. Tensors of 8 bits themselves are not captured (docs/hooks.md).

Last, the part counts the calls that wait for the device, and copies to memory of the host that is
not pinned, in the profiler's trace of steps with all watches; those of the same steps without hooks
are subtracted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.gpu.figures import Figure, Place
from benchmarks.gpu.profiled import Counts, counts, profiled, profiled_kernels
from benchmarks.gpu.training import Training, Workload, hooked, rows_of
from sample_traces.jobs.model import GPTSizes
from trace_hooks.recording import guard

KINDS = ("attention", "qkv", "mlp", "residual", "logits", "gradients", "weights")
WATCHES = [
    {"id": kind, "what": kind, "layers": [0], "every": 1, "rows": 4096, "bytes_per_s": 64 << 20}
    for kind in KINDS
]
SIZES = GPTSizes(num_layers=2, width=256, num_heads=4, vocabulary=512, seq_len=256)
BACKENDS = (
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.MATH,
)
HALF = 2.0**-11
"""Relative error of float16."""

Values = npt.NDArray[np.float64]


def measure(place: Place) -> None:
    """Each type under each backend, then fp8, then the copies."""
    for dtype in (torch.bfloat16, torch.float32):
        for backend in BACKENDS:
            _backend(place, dtype, backend)
    _fp8(place)
    place.attempt("waits for the device in watched steps", partial(_copies, place))


def _workload(dtype: torch.dtype) -> Workload:
    return Workload("content", SIZES, 2, dtype)


@dataclass
class Own:
    """Copies of the job's own tensors, by (what, name or head)."""

    tensors: dict[tuple[str, Any], Tensor] = field(default_factory=dict)

    def keep(self, what: str, name: Any, tensor: Tensor) -> None:
        """Only the first of a step counts, as for the hooks."""
        self.tensors.setdefault((what, name), tensor.detach().double().cpu())


@contextlib.contextmanager
def _kept(model: nn.Module) -> Iterator[Own]:
    """Copies of what layer 0 and the head of a model compute, while it is open."""
    own, original = Own(), functional.scaled_dot_product_attention

    def attention(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        for what, tensor in (("query", query), ("key", key), ("value", value)):
            own.keep(what, "layer 0", tensor)
        return original(query, key, value, **options)

    def output(what: str) -> Callable[[Any, Any, Tensor], None]:
        return lambda module, args, out: own.keep(what, "layer 0", out)

    block: Any = model.get_submodule("blocks.0")
    handles = [
        block.register_forward_hook(output("residual")),
        block.mlp.register_forward_hook(output("mlp")),
        model.get_submodule("head").register_forward_hook(output("logits")),
        model.get_submodule("embedding").register_forward_pre_hook(
            lambda module, args: own.keep("tokens", "all", args[0])
        ),
    ]
    functional.scaled_dot_product_attention = attention
    try:
        yield own
    finally:
        functional.scaled_dot_product_attention = original
        for handle in handles:
            handle.remove()


def _backend(place: Place, dtype: torch.dtype, backend: SDPBackend) -> None:
    name = f"{str(dtype).removeprefix('torch.')}, {backend.name.lower().removesuffix('_attention')}"
    training = Training(place, _workload(dtype))
    try:
        with sdpa_kernel(backend):
            training.step()  # raises where the backend does not take this
            operator = _operator(place, training)
    except RuntimeError as error:
        place.say(Figure(name, f"not here: {str(error).splitlines()[0][:120]}"))
        return
    folder = place.folder / f"frames-{len(list(place.folder.iterdir()))}"
    folder.mkdir()
    with sdpa_kernel(backend), _kept(training.model) as own:
        _watched_step(training, folder, own)
    for figure in frame_figures(name, rows_of(folder, "frames").to_pylist(), own.tensors, operator):
        place.say(figure)
    place.say(_errors(name))


def _watched_step(training: Training, folder: Path, own: Own) -> None:
    """One step under all watches; what the optimizer gets is kept before it steps."""
    optimizer = training.optimizer

    def keep(*_: Any) -> None:
        for name, parameter in training.model.named_parameters():
            own.keep("weights", name, parameter)
            if parameter.grad is not None:
                own.keep("gradients", name, parameter.grad)

    handle = optimizer.register_step_pre_hook(keep)
    try:
        with hooked(training, folder, WATCHES, allow_content=True) as step:
            step()
            training.place.wait()
    finally:
        handle.remove()


def _operator(place: Place, training: Training) -> str:
    """What torch ran for attention."""
    names = [n for n in profiled(place, training.step).operators if "scaled_dot_product" in n]
    inner = [name for name in names if name != "aten::scaled_dot_product_attention"]
    return ", ".join(dict.fromkeys(name for name in inner if "backward" not in name)) or "unknown"


def frame_figures(
    name: str, rows: list[dict[str, Any]], own: dict[tuple[str, Any], Tensor], note: str
) -> list[Figure]:
    """What the frames of each kind are off by; a kind without frames does not hold."""
    found = []
    for what in (
        "attention",
        "query",
        "key",
        "value",
        "mlp",
        "residual",
        "logits",
        "gradients",
        "weights",
        "token_loss",
    ):
        frames = [row for row in rows if row["what"] == what]
        errors = [compared(values_of(row), truth_of(row, own)) for row in frames]
        remark = note if what == "attention" else ""
        if not frames:
            found.append(Figure(f"{name}: {what}", "no frame", holds=False, note=remark))
            continue
        off = max(error.excess for error in errors)
        differ = sum(error.num_differ for error in errors)
        total = sum(error.num_values for error in errors)
        remark = "; ".join(
            filter(
                None, (remark, f"{differ} of {total} values differ, worst by {_worst(errors):.2g}")
            )
        )
        found.append(Figure(f"{name}: {what}, frames", len(frames), "", off <= 0, remark))
    return found


def _worst(errors: list[Compared]) -> float:
    return max(error.worst for error in errors)


@dataclass(frozen=True)
class Compared:
    """`excess`: by how much the worst value is further off than a frame may be; <= 0 is well."""

    num_values: int
    num_differ: int
    worst: float
    excess: float


def compared(values: Values, truth: Values | None) -> Compared:
    """A frame against what it should be; one of another shape, or of nothing known, is all off."""
    if truth is None or values.shape != truth.shape:
        return Compared(values.size, values.size, float("inf"), float("inf"))
    off = np.abs(values - truth)
    least = 1e-6 * float(np.abs(truth).max(initial=0.0))  # what float32 loses on the way
    return Compared(
        values.size,
        int((off > 0).sum()),
        float(off.max(initial=0.0)),
        float((off - 2 * HALF * np.abs(truth) - least).max(initial=-1.0)),
    )


def values_of(row: dict[str, Any]) -> Values:
    """Numbers of a frame, in its shape; of ids and losses the losses only."""
    stored = np.frombuffer(row["data"], np.dtype(row["dtype"]).newbyteorder("<"))
    values: Values = stored.astype(np.float64) * row["scale"] + row["zero"]
    return values.reshape(row["shape"])


def truth_of(row: dict[str, Any], own: dict[tuple[str, Any], Tensor]) -> Values | None:
    """What the frame should hold, from the job's copies."""
    what, head, sample = row["what"], row["head"], row["sample"]
    if what == "attention":
        query, key = own["query", "layer 0"][sample, head], own["key", "layer 0"][sample, head]
        return causal_weights(query, key).numpy()
    if what == "token_loss":
        return _losses(own, sample)
    tensor = own.get((what, "layer 0"), own.get((what, row["name"])))
    if tensor is None:
        return None
    if head >= 0:
        tensor = tensor[sample, head]
    elif sample >= 0:
        tensor = tensor[sample]
    elif tensor.dim() < 2:
        tensor = tensor[None]
    return tensor.numpy().reshape(row["shape"])


def causal_weights(query_SD: Tensor, key_TD: Tensor) -> Tensor:
    """softmax(Q K^T / sqrt(D)) of one head, each row up to its own column; float64."""
    logits_ST = query_SD @ key_TD.T * query_SD.shape[-1] ** -0.5
    later_ST = torch.ones_like(logits_ST, dtype=torch.bool).triu(1)
    return logits_ST.masked_fill(later_ST, -torch.inf).softmax(-1)


def _losses(own: dict[tuple[str, Any], Tensor], sample: int) -> Values:
    """-log p of the tokens that the job calls true."""
    logits_RV, token_R = own["logits", "layer 0"][sample], own["tokens", "all"][sample]
    loss_R = functional.cross_entropy(logits_RV, token_R.long(), reduction="none")
    return loss_R[:, None].numpy()


def _errors(name: str) -> Figure:
    errors = dict(guard.account.errors)
    return Figure(f"{name}: errors of hooks", str(errors or "none"), holds=not errors)


def _fp8(place: Place) -> None:
    """An MLP that multiplies in fp8."""
    name = "fp8 MLP, bfloat16 outside"
    training = Training(place, _workload(torch.bfloat16))
    try:
        for module in training.model.modules():
            if hasattr(module, "up") and hasattr(module, "down"):
                module.up, module.down = Fp8Linear(module.up), Fp8Linear(module.down)
        training.step()
    except (RuntimeError, NotImplementedError) as error:
        place.say(Figure(name, f"not here: {str(error).splitlines()[0][:120]}"))
        return
    folder = place.folder / "fp8"
    folder.mkdir()
    with _kept(training.model) as own:
        _watched_step(training, folder, own)
    for figure in frame_figures(name, rows_of(folder, "frames").to_pylist(), own.tensors, ""):
        place.say(figure)
    place.say(_errors(name))


class Fp8Linear(nn.Module):
    """A linear layer whose forward product runs in float8_e4m3fn; its backward in bfloat16."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight = linear.weight

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        return _Fp8Product.apply(x, self.weight)


class _Fp8Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        one = torch.ones((), device=x.device)
        x8, weight8 = (t.to(torch.float8_e4m3fn) for t in (x.flatten(0, -2), weight))
        out = torch._scaled_mm(x8, weight8.t(), scale_a=one, scale_b=one, out_dtype=x.dtype)
        return out.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        return grads[0] @ weight, grads[0].flatten(0, -2).T @ x.flatten(0, -2)


def _copies(place: Place) -> None:
    """Calls that wait for the device, in steps with all watches and in steps without hooks."""
    steps = 5
    training = Training(place, _workload(torch.bfloat16))

    def run(step: Callable[[], object]) -> Counts:
        for _ in range(steps):  # the first ones allocate pinned memory
            step()
        return counts(profiled_kernels(place, step, steps))

    alone = run(training.step)
    with hooked(training, place.folder / "copies", WATCHES, allow_content=True) as step:
        watched = run(step)
    more = watched.waits - alone.waits
    place.say_of_gpu(
        Figure(
            "waits for the device in watched steps",
            more,
            f"more in {steps} steps",
            holds=more <= 0,
            note=f"{alone.waits} without hooks; copies {watched.copies}, without "
            f"hooks {alone.copies}",
        )
    )
