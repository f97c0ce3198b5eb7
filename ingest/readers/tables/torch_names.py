"""Names that PyTorch and NCCL give to kernels, collectives, dtypes and ranges, and what they mean.

Formats of several tools take them over: torch.profiler, Flight Recorder, Nsight, xpu_timer.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from ingest.readers.parsing.trace_events import MAX_COUNT
from trace_hooks.schema import UNKNOWN

STEP_NAME = re.compile(r"ProfilerStep#\s?(\d{1,18})")
COMM_KERNEL = re.compile(r"(?:void )?(?:nccl|rccl|hccl|oneccl|msccl|mscclpp)\w*", re.IGNORECASE)
_KIND_BY_NAME: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"## forward ##|\w*DistributedDataParallel\.forward|FSDP::forward"), "forward"),
    (re.compile(r"## backward ##"), "backward"),
    (re.compile(r"Optimizer\.step#|## optimizer ##"), "optimizer"),
    (re.compile(r"enumerate\(DataLoader\)#"), "data_wait"),
)
DTYPES = {
    "float": ("float32", 4),
    "double": ("float64", 8),
    "half": ("float16", 2),
    "bfloat16": ("bfloat16", 2),
    "long": ("int64", 8),
    "int": ("int32", 4),
    "short": ("int16", 2),
    "char": ("int8", 1),
    "byte": ("uint8", 1),
    "bool": ("bool", 1),
    "float8_e4m3fn": ("float8_e4m3fn", 1),
    "float8_e5m2": ("float8_e5m2", 1),
}
"""c10's name of a dtype in small letters -> torch's name and bytes of an element."""
_OPS = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "allgatherbase": "all_gather",
    "allgatherintotensor": "all_gather",
    "reducescatter": "reduce_scatter",
    "reducescatterbase": "reduce_scatter",
    "reducescattertensor": "reduce_scatter",
    "alltoall": "all_to_all",
    "alltoallv": "all_to_all",
    "alltoallbase": "all_to_all",
    "broadcast": "broadcast",
    "broadcastoop": "broadcast",
    "reduce": "reduce",
    "reduceoop": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "send": "send",
    "recv": "recv",
    "recvanysource": "recv",
    "barrier": "barrier",
    "allreducebarrier": "barrier",
    "sendrecv": "send_recv",
}
"""Other names of record_param_comms (wait, init, start and end of coalescing) move no data."""

_COMPUTING = (
    "_addmm_activation _conv_depthwise2d _cudnn_attention_backward "
    "_cudnn_attention_forward _efficient_attention_backward "
    "_efficient_attention_forward _flash_attention_backward _flash_attention_forward "
    "_fused_rms_norm _log_softmax _log_softmax_backward_data "
    "_scaled_dot_product_cudnn_attention _scaled_dot_product_cudnn_attention_backward "
    "_scaled_dot_product_flash_attention_for_cpu "
    "_scaled_dot_product_flash_attention_for_cpu_backward _scaled_mm "
    "_slow_conv2d_forward _softmax _softmax_backward_data abs add add_ addcdiv "
    "addcdiv_ addcmul addcmul_ addmm amax amin baddbmm bmm clamp clamp_ clamp_min "
    "clamp_min_ clone convolution_backward convolution_overrideable copy_ cos "
    "cudnn_batch_norm cudnn_batch_norm_backward cudnn_convolution div div_ exp fill_ "
    "gelu gelu_backward linalg_vector_norm linear log maximum mean minimum "
    "miopen_batch_norm miopen_batch_norm_backward miopen_convolution "
    "mkldnn_convolution mm mul mul_ native_batch_norm native_batch_norm_backward "
    "native_layer_norm native_layer_norm_backward neg neg_ pow reciprocal relu relu_ "
    "rsqrt sigmoid sigmoid_backward silu silu_ silu_backward sin sqrt sqrt_ sub sub_ "
    "sum tanh tanh_backward threshold_backward zero_ "
)
COMPUTING_OPERATORS = frozenset(f"aten::{name}" for name in _COMPUTING.split())
"""Operators that compute themselves, whatever others they call: those whose FLOPs or bytes
diagnosis/roofline/work.py knows."""


def kind_of_annotation(name: str) -> str:
    """Kind of a range on the host by its name; host where the name means nothing."""
    return next((kind for pattern, kind in _KIND_BY_NAME if pattern.match(name)), "host")


def op_name(text: str) -> str:
    """The schema's name of an operation; empty for what moves no data."""
    plain = text.lower().replace("_", "").replace("coalesced", "").replace("symmetric", "")
    return _OPS.get(plain, "")


def op_of_name(name: str) -> str:
    """Operation in a name such as ncclDevKernel_AllReduce_Sum_f32_RING_LL; empty for none."""
    for word in re.split(r"[^A-Za-z]+", name)[1:]:
        if op := op_name(word):
            return op
    return ""


class CommArgs(msgspec.Struct, gc=False):
    """What PyTorch writes about a collective, on kernels and on record_param_comms."""

    op: Any = msgspec.field(name="Collective name", default=None)
    in_elements: Any = msgspec.field(name="In msg nelems", default=None)
    out_elements: Any = msgspec.field(name="Out msg nelems", default=None)
    group_size: Any = msgspec.field(name="Group size", default=None)
    dtype_name: Any = msgspec.field(name="dtype", default=None)
    group_name: Any = msgspec.field(name="Process Group Name", default=None)
    group_desc: Any = msgspec.field(name="Process Group Description", default=None)
    group_ranks: Any = msgspec.field(name="Process Group Ranks", default=None)
    rank_start: Any = msgspec.field(name="Global rank start", default=None)
    rank_stride: Any = msgspec.field(name="Global rank stride", default=None)
    source: Any = msgspec.field(name="Src Rank", default=None)
    destination: Any = msgspec.field(name="Dst Rank", default=None)
    seq: Any = msgspec.field(name="Seq", default=None)

    @property
    def dtype(self) -> str:
        """Torch's name of the dtype, empty where unknown."""
        return DTYPES.get(str(self.dtype_name).lower(), ("", 0))[0]

    @property
    def num_bytes(self) -> int:
        """Bytes of this member's input, of a recv's output; -1 unknown."""
        elements = self.out_elements if self.op == "recv" else self.in_elements
        size = DTYPES.get(str(self.dtype_name).lower(), ("", 0))[1]
        fits = isinstance(elements, int) and 0 <= elements < MAX_COUNT // 8
        return elements * size if fits and size else UNKNOWN
