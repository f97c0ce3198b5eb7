"""The closed list of operation types, as the paper's artifact names them."""

from __future__ import annotations

FORWARD, BACKWARD = "forward-compute", "backward-compute"
FORWARD_SEND, FORWARD_RECV = "forward-send", "forward-recv"
BACKWARD_SEND, BACKWARD_RECV = "backward-send", "backward-recv"
ALL_GATHER, REDUCE_SCATTER = "params-all-gather", "grads-reduce-scatter"
SEPARATE_ALL_REDUCE = "separate-grads-all-reduce"
LAYERNORM, EMBEDDING = "layernorm-grads-all-reduce", "embedding-grads-all-reduce"
CLIP, OPTIMIZER, GC = "optimizer-clip-main-grad", "optimizer", "gc"

COMPUTE = (FORWARD, BACKWARD)
POINT_TO_POINT = (FORWARD_SEND, FORWARD_RECV, BACKWARD_SEND, BACKWARD_RECV)
OPTYPES = (
    FORWARD,
    BACKWARD,
    FORWARD_SEND,
    FORWARD_RECV,
    BACKWARD_SEND,
    BACKWARD_RECV,
    ALL_GATHER,
    REDUCE_SCATTER,
    SEPARATE_ALL_REDUCE,
    LAYERNORM,
    EMBEDDING,
    CLIP,
    OPTIMIZER,
    GC,
)

IDEAL_BY_MEAN = frozenset((FORWARD, BACKWARD, OPTIMIZER, GC))
"""Their ideal duration is the mean; of all other types the median."""

FORWARD_PP, BACKWARD_PP = "forward-pp-comm", "backward-pp-comm"
_REPORTED_AS = {
    FORWARD_SEND: FORWARD_PP,
    FORWARD_RECV: FORWARD_PP,
    BACKWARD_SEND: BACKWARD_PP,
    BACKWARD_RECV: BACKWARD_PP,
}


def reported_as(optype: str) -> str:
    """Name under which S_t has a type: sends and receives of a direction are one."""
    return _REPORTED_AS.get(optype, optype)
