"""The words that columns may hold, and the values that stand for a missing one."""

from __future__ import annotations

COMPUTE_KINDS = ("forward", "backward", "wgrad", "optimizer")
COMM_KINDS = ("tp_comm", "pp_comm", "dp_comm", "ep_comm", "cp_comm", "other_comm")
OTHER_KINDS = (
    "data_fetch",
    "data_wait",
    "checkpoint",
    "evaluation",
    "gc",
    "host",
    "kernel",
    "memcpy",
)
KINDS = COMPUTE_KINDS + COMM_KINDS + OTHER_KINDS

TENSORS = ("residual", "attention", "mlp", "output", "gradient", "weight", "update")
"""Tensors with statistics: outputs of blocks, of attention and MLP inside them, and of modules
outside the blocks; gradients; weights before a step of the optimizer, and their change by it."""

FRAME_KINDS = (
    "attention",
    "query",
    "key",
    "value",
    "mlp",
    "residual",
    "logits",
    "probabilities",
    "gradients",
    "weights",
    "tokens",
    "token_loss",
    "vocabulary_part",
)
"""Kinds of frames: attention weights; outputs of modules; logits of the head and their softmax;
gradients and weights of a layer's parameters; ids of the tokens that the model reads, and -log p of
the true next token; one rank's part of the logits of a vocabulary that is spread over ranks."""

MODES = ("eager", "compiled", "graphed", "imported")
"""How a span became visible: eager Python, around a compiled or graphed region, or imported."""

BEFORE_FIRST_STEP = -1
UNKNOWN = -1
"""Value of micro-batch, chunk, peer, seq and num_bytes where a row has none."""

SPAN_DEFAULTS: dict[str, bool | int | str] = {
    "cpu_ns": UNKNOWN,
    "depth": 0,
    "microbatch": UNKNOWN,
    "chunk": UNKNOWN,
    "recompute": False,
    "group_id": 0,
    "coll_seq": UNKNOWN,
    "peer": UNKNOWN,
    "num_bytes": UNKNOWN,
    "mode": "eager",
}
"""Columns of a span of which nothing is known, or nothing out of the ordinary."""
