"""Collectives of one rank from communication kernels and the calls that enqueued them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from ingest.readers.kineto.events import COMM_ANNOTATION, Columns, CommEvent
from ingest.readers.parsing.trace_events import MAX_COUNT
from ingest.readers.tables.process_groups import DistributedInfo, Group, whole
from ingest.readers.tables.torch_names import CommArgs, op_name, op_of_name
from trace_hooks.schema import UNKNOWN


@dataclass
class Instance:
    """One collective as this rank saw it."""

    group: Group
    seq: int
    op: str
    args: CommArgs
    peer: int
    enqueue_ns: int
    start_ns: int
    end_ns: int
    state: str
    row: int
    """its span, -1 none"""
    is_counted: bool = False
    """its number is its position in the file, as PyTorch wrote none that all members share"""


def instances(
    columns: Columns, info: DistributedInfo, rank: int, first_number: int = 0
) -> tuple[list[Instance], tuple[int, ...]]:
    """Collectives in order of start, and the ranks of the group assumed where none was named.
    Numbers that PyTorch did not write count from `first_number`.

    Kernels show when a collective really ran. Without any, gloo's annotations do (they block);
    NCCL's annotations and calls only show when it was enqueued.
    """
    kernels = sorted(columns.kernels, key=lambda kernel: kernel.ts_ns)
    calls = _calls(columns)
    chosen = kernels or calls
    collectives: list[Instance] = []
    assumed: tuple[int, ...] = ()
    for event in chosen:
        group = info.group_of(event.args)
        without_group = group is None
        if group is None:
            group = info.only_group() or Group("", "unnamed", (rank,), "unknown")
        named_op = op_name(str(event.args.op or ""))
        op = named_op or (op_of_name(event.name) if kernels else _op_of_call(event.name))
        runs = bool(kernels) or event.name.startswith("gloo:")
        if kernels or (op and (len(group.ranks) != 1 or without_group)):
            assumed = group.ranks if without_group else assumed
            collectives.append(_instance(event, group, op or "unknown", runs))
    if kernels:
        _find_calls(collectives, calls, info)
    _number(collectives, rank, first_number)
    return collectives, assumed


def _instance(event: CommEvent, group: Group, op: str, runs: bool) -> Instance:
    end = event.args.destination if op == "send" else event.args.source if op == "recv" else None
    peer = whole(end)
    return Instance(
        group=group,
        seq=UNKNOWN,
        op=op,
        args=event.args,
        peer=UNKNOWN if peer is None else peer,
        enqueue_ns=event.ts_ns,
        start_ns=event.ts_ns,
        end_ns=event.end_ns if runs else UNKNOWN,
        state="completed" if runs else "enqueued",
        row=event.row if runs else UNKNOWN,
    )


def _op_of_call(name: str) -> str:
    match = COMM_ANNOTATION.fullmatch(name)
    return op_name(match[2]) if match else ""


def _calls(columns: Columns) -> list[CommEvent]:
    """Calls that enqueued communication, in order: with metadata where PyTorch wrote any."""
    annotations = [a for a in columns.annotations if _op_of_call(a.name)]
    annotations.sort(key=lambda event: event.ts_ns)
    with_metadata = [call for call in columns.calls if op_name(str(call.args.op or ""))]
    with_metadata.sort(key=lambda event: event.ts_ns)
    if with_metadata and len(with_metadata) == len(annotations):
        return [
            CommEvent(a.row, a.name, a.ts_ns, a.dur_ns, call.args)
            for a, call in zip(annotations, with_metadata, strict=True)
        ]
    return with_metadata or annotations


def _find_calls(
    collectives: list[Instance], calls: Sequence[CommEvent], info: DistributedInfo
) -> None:
    """Give each collective the moment it was enqueued, where calls and kernels are one to one."""
    queues: dict[tuple[int, str], list[CommEvent]] = defaultdict(list)
    for call in calls:
        group = info.group_of(call.args)
        op = op_name(str(call.args.op or "")) or _op_of_call(call.name)
        queues[(group.group_id, op) if group else (0, "")].append(call)
    parts: dict[tuple[int, str], list[Instance]] = defaultdict(list)
    for instance in collectives:
        named = instance.args.op is not None
        parts[(instance.group.group_id, instance.op) if named else (0, "")].append(instance)
    for key, part in parts.items():
        queue = queues.get(key, [])
        matches = len(queue) == len(part) and all(
            call.ts_ns <= instance.start_ns for call, instance in zip(queue, part, strict=True)
        )
        if not matches:
            continue
        for call, instance in zip(queue, part, strict=True):
            instance.enqueue_ns = call.ts_ns
            if not key[1]:  # the call knows what a kernel's name does not: SendRecv is all_to_all
                instance.op = _op_of_call(call.name) or instance.op


def _number(collectives: list[Instance], rank: int, first_number: int) -> None:
    """Number collectives per group, point-to-point per (group, source, destination).

    PyTorch's own number is taken where every collective of the group has one; its numbers of
    point-to-point operations differ between the two sides.
    """
    parts: dict[tuple[int, int, int], list[Instance]] = defaultdict(list)
    for instance in collectives:
        pair = (UNKNOWN, UNKNOWN)
        if instance.op in ("send", "recv"):
            pair = (rank, instance.peer) if instance.op == "send" else (instance.peer, rank)
        parts[(instance.group.group_id, *pair)].append(instance)
    for key, part in parts.items():
        numbers = [instance.args.seq for instance in part]
        own = key[1] != UNKNOWN or key[2] != UNKNOWN or not all(_is_seq(n) for n in numbers)
        are_counted = own or len(set(numbers)) != len(numbers)
        if are_counted:
            numbers = list(range(first_number, first_number + len(part)))
        for instance, seq in zip(part, numbers, strict=True):
            instance.seq, instance.is_counted = seq, are_counted


def _is_seq(value: object) -> bool:
    return type(value) is int and 0 <= value < MAX_COUNT
