"""Every table and file of a run folder, spelled once: the contract between writer and reader.

A run folder holds::

    run.json                      what the run is (RunInfo), written once by rank 0
    ranks/ATTEMPT-RANK.json       what one rank is (RankInfo), rewritten when more becomes known
    layout.json                   the layout as somebody corrected it by hand (LayoutInfo)
    segments/TABLE-ATTEMPT-RANK-NUMBER.parquet   whole files, published by rename, never changed
    compacted/                    merged segments (ingest)
    index/                        manifest and rollups (ingest)
    rings/ATTEMPT-RANK.ring       what a lost rank had entered last (watchdog)
    stacks/ATTEMPT-RANK-NUMBER.txt  stacks of a silent rank (watchdog)
    watchdog-HOST.json            newest report on each rank of a host that had one (watchdog)
    attempts/ATTEMPT              empty; made by who takes this number for an attempt (hooks)
    agents/KEY                    empty; a launcher's key, by which a restart finds its run (hooks)
    kernels/ATTEMPT-rank-RANK-step-STEP.json.gz  torch.profiler's trace of steps that were asked for

Times are int64 nanoseconds of Unix UTC on the rank's own clock (`clock: absolute`); the table
`clocks` holds what to add to compare ranks. All rows of a Parquet file belong to one table.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA_MAJOR = 1
SCHEMA_MINOR = 1
SCHEMA_VERSION = f"{SCHEMA_MAJOR}.{SCHEMA_MINOR}"

COMPUTE_KINDS = ("forward", "backward", "wgrad", "optimizer")
COMM_KINDS = ("tp_comm", "pp_comm", "dp_comm", "ep_comm", "other_comm")
OTHER_KINDS = ("data_fetch", "data_wait", "checkpoint", "gc", "host", "kernel", "memcpy")
KINDS = COMPUTE_KINDS + COMM_KINDS + OTHER_KINDS

TENSORS = ("residual", "attention", "mlp", "output", "gradient", "weight", "update")
"""What of a model has statistics: outputs of blocks, of attention and MLP inside them, of what
stands beside the blocks; of parameters the gradients, the weights before and the change by a step
of the optimizer."""

FRAME_KINDS = (
    "attention", "query", "key", "value", "mlp", "residual", "logits", "probabilities",
    "gradients", "weights", "tokens", "token_loss",
)  # fmt: skip
"""What a frame may be: attention weights; what modules return; logits of the head and the softmax
of them; of the parameters of a layer the gradients and the weights; ids of the tokens that the
model reads, and -log p of the true next one."""

MODES = ("eager", "compiled", "graphed", "imported")
"""How a span became visible: eager Python, around a compiled or graphed region, or imported."""

BEFORE_FIRST_STEP = -1
UNKNOWN = -1
"""Value of micro-batch, chunk, peer, seq and num_bytes where a row has none."""

INT = pa.int64()
TEXT = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True)
class Column:
    """One column: name, Arrow type, unit or meaning; nullable ones came with a schema minor."""

    name: str
    type: pa.DataType
    doc: str
    nullable: bool = False


@dataclass(frozen=True)
class Table:
    """One table: its name, what one row is, its columns in file order."""

    name: str
    doc: str
    columns: tuple[Column, ...]

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema with table name and schema version in its metadata."""
        fields = [pa.field(c.name, c.type, c.nullable) for c in self.columns]
        metadata = {b"rankscope.table": self.name.encode(), b"rankscope.schema": VERSION_BYTES}
        return pa.schema(fields, metadata=metadata)


VERSION_BYTES = SCHEMA_VERSION.encode()

_WHERE = (
    Column("attempt", pa.int16(), "start of the job this row belongs to, from 0"),
    Column("rank", pa.int32(), "global rank"),
    Column("step", INT, "optimizer step; -1 before the first"),
)


def _table(name: str, doc: str, *columns: Column) -> Table:
    return Table(name, doc, _WHERE + columns)


def _int(name: str, doc: str) -> Column:
    return Column(name, INT, doc)


def _text(name: str, doc: str) -> Column:
    return Column(name, TEXT, doc)


def _optional_text(name: str, doc: str) -> Column:
    return Column(name, TEXT, doc, nullable=True)


def _optional_float(name: str, doc: str) -> Column:
    return Column(name, pa.float64(), doc, nullable=True)


_TS = _int("ts_ns", "Unix ns on the rank's clock")

_ALL = (
    _table(
        "spans",
        "something a rank did for a while; it belongs to the step it began in",
        _TS,
        _int("dur_ns", "wall time"),
        _int("cpu_ns", "CPU time of the thread in between; -1 unknown"),
        _text("kind", "one of KINDS"),
        _text("name", "what ran"),
        _text("track", "thread or stream"),
        Column("depth", pa.int16(), "nesting on the track, 0 outermost"),
        Column("microbatch", pa.int32(), "micro-batch; -1 none"),
        Column("chunk", pa.int32(), "virtual stage (global stage index); -1 none"),
        Column("recompute", pa.bool_(), "forward repeated for activation checkpointing"),
        _int("group_id", "group of a communication span; 0 none"),
        _int("coll_seq", "collectives.seq of a communication span; -1 none"),
        Column("peer", pa.int32(), "other global rank of a point-to-point span; -1 none"),
        _int("num_bytes", "bytes moved or sent; -1 unknown"),
        _text("mode", "one of MODES"),
        _optional_text("args", "JSON, rare"),
    ),
    _table(
        "collectives",
        "one collective or point-to-point instance as one member saw it",
        _int("group_id", "groups.group_id"),
        _int("seq", "number of this instance in its group; point-to-point: per (src, dst, tag)"),
        _text("op", "all_reduce, all_gather, reduce_scatter, broadcast, send, recv, ..."),
        _text("dtype", "torch dtype name, empty unknown"),
        _int("num_bytes", "bytes of this member's input (recv, scatter: output); -1 unknown"),
        Column("peer", pa.int32(), "other global rank of a send or recv; -1 none"),
        Column("tag", pa.int32(), "tag of a send or recv; -1 none"),
        _int("enqueue_ns", "when the call began"),
        _int("start_ns", "when this member was ready to communicate"),
        _int("end_ns", "when it was seen to be complete; -1 not yet"),
        _text("state", "enqueued, started, completed, failed"),
        _text("source", "wrapper, functional, flight_recorder, or a reader's name"),
    ),
    _table(
        "groups",
        "a process group; identical on all members",
        _int("group_id", "hash of the ordered ranks and the ordinal of that rank list"),
        _text("name", "name the framework gave it"),
        _text("desc", "its description, such as mesh_tp"),
        _text("axis", "tp, pp, dp, cp, ep, world, mixed or unknown"),
        Column("ranks", pa.list_(pa.int32()), "global ranks in group order"),
    ),
    _table(
        "steps",
        "one optimizer step of one rank",
        _int("start_ns", "Unix ns on the rank's clock"),
        _int("dur_ns", "wall time"),
        _optional_float("loss", "as logged by the job"),
        _optional_float("grad_norm", "as logged by the job"),
        _optional_float("tokens", "tokens this rank processed"),
        _optional_float("flops", "model FLOPs of the step"),
        _optional_float("lr", "learning rate"),
    ),
    _table(
        "memory",
        "memory counters, once a step",
        _TS,
        _int("allocated", "bytes; -1 unknown"),
        _int("reserved", "bytes; -1 unknown"),
        _int("peak", "bytes allocated at most since the start; -1 unknown"),
        _int("retries", "allocator retries so far; -1 unknown"),
        _int("rss", "resident bytes of the process"),
    ),
    _table(
        "clocks",
        "one estimate of a rank's clock against rank 0",
        _TS,
        _int("offset_ns", "add to this rank's times to get rank 0's"),
        _int("err_ns", "uncertainty of offset_ns; -1 unknown"),
        _int("drift_ppb", "offset grows by this per second, in 1e-9"),
        _text("method", "store_ping_pong, matched_collectives, same_host, none, imported"),
    ),
    _table(
        "heartbeats",
        "a sign of life, each second",
        _TS,
        _text("phase", "init, step, data, checkpoint, ending"),
        _text("last_op", "last collective entered"),
        _int("self_ns", "CPU time the hooks have spent so far"),
        _int("dropped", "rows dropped so far"),
        _int("hook_errors", "errors inside hooks so far"),
    ),
    _table(
        "marks",
        "something that happened to a run: a fault injected, a restart, an error",
        _TS,
        _text(
            "kind",
            "fault, restart, error, hook_error, silent, lost, perturbation, kernel_capture, "
            "prompt, note",
        ),
        _text("text", "one sentence"),
        _optional_text("args", "JSON"),
    ),
    _table(
        "host_metrics",
        "one metric of one host",
        _text("host", "host name"),
        _TS,
        _text("metric", "name with unit"),
        Column("value", pa.float64(), "value"),
    ),
    _table(
        "data_batches",
        "one batch a rank was given",
        _TS,
        _text("source", "dataset or loader"),
        _int("fetch_ns", "the loader's own work, may be hidden"),
        _int("exposed_ns", "time the step was blocked on it"),
        _int("tokens", "tokens in it; -1 unknown"),
        _int("sum_sq_len", "sum of squared sequence lengths; -1 unknown"),
    ),
    _table(
        "tensor_stats",
        "statistics of one tensor of the model, or of one rank's part of it",
        _TS,
        Column("microbatch", pa.int32(), "micro-batch; -1 none"),
        Column("chunk", pa.int32(), "virtual stage (global stage index); -1 none"),
        _text("tensor", "one of TENSORS"),
        Column("layer", pa.int32(), "layer as its name counts it, from 0; -1 not in a layer"),
        _text("name", "module whose output it is, or which the parameters belong to"),
        _text("shard", "such as dp=0,tp=1: part of the whole tensor; whole; empty unknown"),
        _int("count", "values of this part"),
        _int("sampled", "values looked at, evenly spread; absmax and nonfinite see all"),
        _optional_float("mean", "of the finite values"),
        _optional_float("std", "of the finite values"),
        _optional_float("rms", "of the finite values"),
        _optional_float("absmax", "greatest finite size"),
        Column("zero_ratio", pa.float64(), "share of values that are 0"),
        _int("nonfinite", "values that are NaN or infinite; exact where 0 or nothing was left out"),
        Column(
            "log2_counts",
            pa.list_(pa.int32()),
            "values looked at with 2^i <= size < 2^(i+1), i from -40 to 23, ends open; no zeros",
        ),
        _optional_float("update_ratio", "rms of an update / rms of its weights before it"),
        Column(
            "checksum",
            INT,
            "of weights: sum of the bits of all values, equal on copies",
            nullable=True,
        ),
    ),
    _table(
        "attention_stats",
        "statistics of one attention head over some query rows of one forward",
        _TS,
        Column("microbatch", pa.int32(), "micro-batch; -1 none"),
        Column("chunk", pa.int32(), "virtual stage (global stage index); -1 none"),
        Column("layer", pa.int32(), "layer of the whole model, from 0; -1 not in a layer"),
        Column("head", pa.int32(), "query head, counted over all TP ranks, from 0"),
        _text("name", "attention module"),
        _text("shard", "such as tp=1: this rank's heads; whole; empty unknown"),
        _optional_float("max_logit", "greatest scaled logit of the positions not masked"),
        _optional_float("entropy", "of the attention weights, mean over the rows, nats"),
        _int("rows", "query rows looked at"),
    ),
    _table(
        "frames",
        "content: values of one tensor of the model (or a part of it) that somebody asked to see",
        _TS,
        Column("microbatch", pa.int32(), "micro-batch; -1 none"),
        Column("chunk", pa.int32(), "virtual stage (global stage index); -1 none"),
        _text("watch", "id of the watch that asked for it"),
        _text("what", "one of FRAME_KINDS"),
        Column("layer", pa.int32(), "layer of the whole model, from 0; -1 not in a layer"),
        Column("head", pa.int32(), "head, counted over all TP ranks, from 0; -1 none"),
        _text("name", "module, or parameter"),
        _text("shard", "such as tp=1: this rank's part; whole; empty unknown"),
        Column("sample", pa.int32(), "sequence of the batch; -1 mean over the batch, or no batch"),
        _int("row_begin", "first row: token; of gradients and weights counted in this part"),
        Column("row_every", pa.int32(), "rows from one that is in the frame to the next"),
        Column("shape", pa.list_(pa.int32()), "of the values, row by row"),
        _text("dtype", "of the stored numbers: float16, uint8, or float32 (ids and losses)"),
        Column("scale", pa.float64(), "value = zero + scale * stored number"),
        Column("zero", pa.float64(), "value of the stored number 0"),
        Column("data", pa.binary(), "stored numbers, little-endian, row-major"),
        _optional_text(
            "labels", "JSON list: name of each column, or of each value: text, id, [id, text]"
        ),
        _int("cost_ns", "CPU time of the training thread that this frame took"),
    ),
)

TABLES: dict[str, Table] = {table.name: table for table in _ALL}


class RunInfo(TypedDict):
    """run.json: what the run is. Written once, by rank 0 of the first attempt or by an import."""

    schema: str
    run: str
    created_ns: int
    """t0: browser and URLs carry ns relative to it"""
    clock: str
    """absolute | per_step_relative | unknown"""
    source: str
    """hooks | synthetic | a reader's name"""
    framework: str
    versions: dict[str, str]
    model: NotRequired[dict[str, Any]]
    provenance: NotRequired[list[str]]
    guesses: NotRequired[list[str]]
    problems: NotRequired[list[str]]
    events_per_rank: NotRequired[dict[str, int]]
    """elements of each imported file's traceEvents, where the format has them"""
    importing: NotRequired[bool]
    """files are still read into it: ranks are missing, clocks are not compared yet"""
    truth: NotRequired[dict[str, Any]]
    """what was injected, in recorded samples and synthetic runs"""


class LayoutInfo(TypedDict):
    """layout.json: the layout as somebody corrected it by hand, beside what was read."""

    schema: str
    layout: dict[str, Any]
    """ParallelLayout.to_json()"""
    corrected_ns: int
    """when, Unix ns"""


class RankInfo(TypedDict):
    """ranks/ATTEMPT-RANK.json: what one rank of one attempt is."""

    schema: str
    attempt: int
    rank: int
    world_size: int
    host: str
    pid: int
    local_rank: int
    device: str
    device_uuid: str
    started_ns: int
    layout: dict[str, Any] | None
    """ParallelLayout.to_json(), None unknown"""
    coords: dict[str, int] | None
    end: dict[str, Any] | None
    """{"ts_ns", "status": finished | failed | stopped, "error"}; None while it runs or if killed"""
    hooks: dict[str, Any]
    """level, sources, errors per hook, dropped rows"""


_SEGMENT = re.compile(r"([a-z_]+)-(\d{4,})-(\d{5,})-(\d{8,})\.parquet")


@dataclass(frozen=True)
class SegmentName:
    """File name of one segment; `number` counts per (table, attempt, rank) from 0."""

    table: str
    attempt: int
    rank: int
    number: int

    def __str__(self) -> str:
        return f"{self.table}-{self.attempt:04d}-{self.rank:05d}-{self.number:08d}.parquet"

    @classmethod
    def parse(cls, name: str) -> SegmentName | None:
        """Segment a file name stands for; None for anything else (a temporary file, say)."""
        match = _SEGMENT.fullmatch(name)
        if match is None or match[1] not in TABLES:
            return None
        return cls(match[1], int(match[2]), int(match[3]), int(match[4]))


def rank_file_name(attempt: int, rank: int) -> str:
    """Name of a rank's file below ranks/."""
    return f"{attempt:04d}-{rank:05d}.json"


def check_version(text: str, where: str | Path) -> None:
    """Raise ValueError when `text` ("major.minor") is not a version this code can read.

    Another minor is fine: it only adds nullable columns.
    """
    major = text.partition(".")[0]
    if not major.isdecimal():
        raise ValueError(f"{where}: schema version {text!r} is no version; the file is damaged")
    if int(major) > SCHEMA_MAJOR:
        raise ValueError(
            f"{where}: written with schema {text}, this rankscope reads up to "
            f"{SCHEMA_VERSION}; upgrade rankscope to open it"
        )


def column_encodings(table: str) -> dict[str, str]:
    """Parquet encodings of the integer time and sequence columns (specs: 6 bytes an event)."""
    return {
        c.name: "DELTA_BINARY_PACKED"
        for c in TABLES[table].columns
        if c.type == INT and (c.name.endswith("_ns") or c.name in ("seq", "coll_seq", "step"))
    }


def dictionary_columns(table: str) -> list[str]:
    """Columns to write with a Parquet dictionary: all but bytes and what column_encodings names."""
    encoded = column_encodings(table)
    return [
        f"{c.name}.list.element" if pa.types.is_list(c.type) else c.name
        for c in TABLES[table].columns
        if c.name not in encoded and c.type != pa.binary()
    ]


def publish_table(rows: pa.Table, path: Path, row_group_size: int | None = None) -> int:
    """Write a table whole under a temporary name, then rename it to `path`; returns its bytes.

    `rows` must have the schema of the table its metadata names. No reader ever sees half a file.
    """
    name = (rows.schema.metadata or {})[b"rankscope.table"].decode()
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        pq.write_table(
            rows,
            temporary,
            row_group_size=row_group_size,
            compression="zstd",
            compression_level=1,
            use_dictionary=dictionary_columns(name),
            column_encoding=column_encodings(name),
        )
        num_bytes = temporary.stat().st_size
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return num_bytes


def publish_json(data: Any, path: Path) -> None:
    """Write a JSON file whole under a temporary name, then rename it to `path`."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
