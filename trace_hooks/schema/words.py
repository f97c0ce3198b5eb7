"""The words that columns may hold, and what stands where a row has no value."""

from __future__ import annotations

COMPUTE_KINDS = ("forward", "backward", "wgrad", "optimizer")
COMM_KINDS = ("tp_comm", "pp_comm", "dp_comm", "ep_comm", "other_comm")
OTHER_KINDS = ("data_fetch", "data_wait", "checkpoint", "gc", "host", "kernel", "memcpy")
KINDS = COMPUTE_KINDS + COMM_KINDS + OTHER_KINDS

TENSORS = ("residual", "attention", "mlp", "output", "gradient", "weight", "update")
"""What of a model has statistics: outputs of blocks, of attention and MLP inside them, of what
stands beside the blocks; of parameters the gradients, the weights before and the change by a step
of the optimizer."""

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
"""What a frame may be: attention weights; what modules return; logits of the head and the softmax
of them; of the parameters of a layer the gradients and the weights; ids of the tokens that the
model reads, and -log p of the true next one; of a vocabulary that is spread over ranks what each
tells of its part of the logits."""

MODES = ("eager", "compiled", "graphed", "imported")
"""How a span became visible: eager Python, around a compiled or graphed region, or imported."""

BEFORE_FIRST_STEP = -1
UNKNOWN = -1
"""Value of micro-batch, chunk, peer, seq and num_bytes where a row has none."""
