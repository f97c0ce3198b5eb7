"""Lines of logs as the decision gets them, built by hand."""

from __future__ import annotations

import math

from diagnosis.first_cause.anchors import Episode, episode_of
from diagnosis.first_cause.cause import World
from diagnosis.first_cause.handled import Survival
from diagnosis.first_cause.lines import UNKNOWN_CLOCK_NS, Line
from trace_hooks.log_text.labels import LABELS, label_of
from trace_hooks.log_text.line_rows import level_of

S = 1_000_000_000
T0 = 1_790_000_000 * S


def raised(exception: str) -> str:
    """A traceback that ends with an exception."""
    return f'Traceback (most recent call last):\n  File "train.py", line 9, in step\n{exception}'


KEY_ERROR = raised("KeyError: 'labels'")
VALUE_ERROR = raised("ValueError: bad shape")
OOM = raised("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.")
XID = "NVRM: Xid (PCI:0000:cb:00): 79, pid=41200, name=python, GPU has fallen off the bus."
RESET = "NCCL WARN Call to recv from 10.0.0.2<4000> failed : Connection reset by peer"


def line(
    text: str,
    at_s: float = math.inf,
    rank: int = -1,
    *,
    host: str | None = None,
    lasts_s: float = 0.01,
    err_s: float = UNKNOWN_CLOCK_NS / S,
    stream: str = "stderr",
    file: str = "",
    number: int = 1,
    level: str = "",
    before: str = "",
    went_on_s: float = 0.0,
    went_on_lines: int = 0,
) -> Line:
    """A line at seconds after T0, or at an unknown time; `lasts_s`: how uncertain its time is."""
    is_timed = math.isfinite(at_s)
    name = label_of(text)
    return Line(
        rank=rank,
        host=host if host is not None or rank < 0 else f"n{rank // 8}",
        begin_ns=T0 + at_s * S if is_timed else -math.inf,
        end_ns=T0 + (at_s + lasts_s) * S if is_timed else math.inf,
        err_ns=err_s * S,
        stream=stream,
        file=file or f"rank_{rank}.log",
        number=number,
        level=level or level_of(text),
        label=LABELS.get(name),
        text=text,
        before=before,
        went_on_ns=went_on_s * S,
        went_on_lines=went_on_lines,
    )


def timed_out(rank: int, at_s: float, seq: int = 7, limit_s: int = 600, **more: object) -> Line:
    """A rank's watchdog gives up."""
    text = (
        f"[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, "
        f"OpType=ALLREDUCE, Timeout(ms)={limit_s * 1000}) ran for {limit_s * 1000} milliseconds "
        "before timing out."
    )
    return line(text, at_s, rank, **more)  # type: ignore[arg-type]


def world(num_ranks: int = 16, per_host: int = 8) -> World:
    """A job whose ranks have all left data."""
    return World({rank: f"n{rank // per_host}" for rank in range(num_ranks)})


def episode(*lines: Line, survival: Survival | None = None) -> Episode:
    """What is made of lines."""
    ordered = sorted(lines, key=lambda each: (each.begin_ns, each.file, each.number))
    return episode_of(ordered, survival)
