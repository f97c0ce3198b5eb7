"""Tables of what is inside the model: statistics of its tensors and heads, frames of content."""

from __future__ import annotations

import pyarrow as pa

from trace_hooks.schema.columns import (
    INT,
    LAYER,
    PART_OF_STEP,
    TS,
    Column,
    Table,
    integer,
    optional_float,
    optional_text,
    table,
    text,
)

MODEL_TABLES: tuple[Table, ...] = (
    table(
        "tensor_stats",
        "statistics of one tensor of the model, or of one rank's part of it",
        TS,
        *PART_OF_STEP,
        text("tensor", "residual, attention, mlp, output, gradient, weight or update"),
        Column("layer", pa.int32(), "layer as its name counts it, from 0; -1 not in a layer"),
        text("name", "module whose output it is, or which the parameters belong to"),
        text("shard", "part of the whole tensor, such as dp=0,tp=1; or whole; empty: unknown"),
        integer("count", "values of this part"),
        integer(
            "sampled",
            "values looked at, evenly spread; except for updates, absmax and whether any value "
            "is not finite come from all values",
        ),
        optional_float("mean", "of the finite values"),
        optional_float("std", "of the finite values"),
        optional_float("rms", "of the finite values"),
        optional_float("absmax", "greatest finite absolute value"),
        Column("zero_ratio", pa.float64(), "share of values that are 0"),
        integer(
            "nonfinite",
            "values that are NaN or infinite, estimated from those looked at; at least 1 where "
            "any value is not finite",
        ),
        Column(
            "log2_counts",
            pa.list_(pa.int32()),
            "values looked at with 2^i <= absolute value < 2^(i+1), i from -40 to 23, ends open; "
            "no zeros",
        ),
        optional_float("update_ratio", "rms of an update / rms of its weights before it"),
        Column(
            "checksum",
            INT,
            "of weights: sum of the bits of all values, equal on copies",
            nullable=True,
        ),
    ),
    table(
        "attention_stats",
        "statistics of one attention head over some query rows of one forward",
        TS,
        *PART_OF_STEP,
        LAYER,
        Column("head", pa.int32(), "query head, counted over all TP ranks, from 0"),
        text("name", "attention module"),
        text("shard", "this rank's heads, such as tp=1; or whole; empty: unknown"),
        optional_float("max_logit", "greatest scaled logit of the positions not masked"),
        optional_float("entropy", "of the attention weights, mean over the rows, nats"),
        integer("rows", "query rows looked at"),
    ),
    table(
        "frames",
        "content: values of one tensor of the model (or a part of it) that a watch requested",
        TS,
        *PART_OF_STEP,
        text("watch", "id of the watch that requested it"),
        text(
            "what",
            "attention, query, key, value, mlp, residual, logits, probabilities, gradients, "
            "weights, tokens, token_loss or vocabulary_part",
        ),
        LAYER,
        Column("head", pa.int32(), "head, counted over all TP ranks, from 0; -1 none"),
        text("name", "module, or parameter"),
        text("shard", "this rank's part, such as tp=1; or whole; empty: unknown"),
        Column("sample", pa.int32(), "sequence of the batch; -1 mean over the batch, or no batch"),
        integer(
            "row_begin", "its first row: a token; of gradients and weights in this rank's part"
        ),
        Column("row_every", pa.int32(), "1: it has every row; 2: every second one; ..."),
        Column("shape", pa.list_(pa.int32()), "of the values, row by row"),
        text("dtype", "of the stored numbers: float16, uint8, or float32 (ids and losses)"),
        Column("scale", pa.float64(), "value = zero + scale * stored number"),
        Column("zero", pa.float64(), "value of the stored number 0"),
        Column("data", pa.binary(), "stored numbers, little-endian, row-major"),
        optional_text(
            "labels", "JSON list: name of each column, or of each value: text, id, [id, text]"
        ),
        integer("cost_ns", "CPU time of the training thread that this frame took"),
    ),
    table(
        "expert_load",
        "choices that one rank's router made in a step of a layer with experts",
        TS,
        Column("chunk", pa.int32(), "virtual stage (global stage index); -1 none"),
        LAYER,
        text("name", "module that routes"),
        Column("top_k", pa.int32(), "experts that a token is sent to; -1 unknown"),
        integer("batch_tokens", "tokens that were routed, over all micro-batches; -1 unknown"),
        Column(
            "tokens",
            pa.list_(INT),
            "tokens by expert, from the first expert of the layer to the last, wherever they are",
        ),
        integer("dropped", "choices left out because an expert was full; -1 unknown"),
        Column("first_expert", pa.int32(), "first expert that lies on this rank; -1 unknown"),
        Column("local_experts", pa.int32(), "experts that lie on this rank; -1 unknown"),
        Column("bias", pa.list_(pa.float32()), "added to the scores, by expert", nullable=True),
        optional_float("aux_loss", "load-balancing loss, mean over micro-batches; NULL unknown"),
    ),
)
