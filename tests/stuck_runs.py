"""Small runs of jobs that make no progress, as hooks and watchdogs record them."""

from __future__ import annotations

from pathlib import Path

from tests.runs_builder import T0, RunBuilder
from trace_hooks.layout import ParallelLayout

SECOND = 1_000_000_000
STEPS = 6
QUIET_S = 20
"""How long ranks have stood still at the last look."""
SCRIPT = "<script>alert(1)</script>"
QUOTED = 'node"0\' onload="alert(2)'
TRACEBACK = "\n".join(
    (
        "Traceback (most recent call last):",
        '  File "train.py", line 3, in main',
        f"KeyError: {SCRIPT}",
    )
)

_IN_ALL_REDUCE = (
    "wait trace_hooks/sources/communication/collectives.py:216\n"
    "all_reduce site-packages/torch/distributed/distributed_c10d.py:3252\n"
    "step job/train.py:40\nmain job/train.py:90"
)
_IN_CODE = (
    "prepare job/a_folder_with_a_rather_long_name/and_another_one/train.py:12\n"
    "step job/train.py:31\nmain job/train.py:90"
)


def stuck_run(folder: Path, num_ranks: int = 4, circle: bool = False) -> RunBuilder:
    """All but rank 2 are in all-reduce 31; with `circle`, ranks 2 and 3 wait for each other in two
    groups. Hosts have HTML in their names, rank 1 has written a line of HTML.
    """
    layout = ParallelLayout.from_sizes(pp=2, dp=num_ranks // 2)
    run = RunBuilder(folder, num_ranks, layout, hosts=[QUOTED] * num_ranks)
    ranks = list(range(num_ranks))
    run.group(7, ranks, "unknown")
    run.group(8, [2, 3], "dp")
    for rank in ranks:
        for step in range(STEPS):
            run.step(rank, step, step * 1e5, (step + 1) * 1e5)
        _stands(run, rank, circle)
        run.add("heartbeats", rank, STEPS, ts_ns=_end_ns() - SECOND)
    _lines(run, f"slow {SCRIPT}", level="warning", label="", template="slow <script>")
    run.rank_files()
    run.publish()
    return run


def failed_run(folder: Path) -> RunBuilder:
    """Rank 1 of two has raised an exception after some steps, as its log shows."""
    run = RunBuilder(folder, 2, hosts=[QUOTED] * 2)
    for rank in range(2):
        for step in range(STEPS):
            run.step(rank, step, step * 1e5, (step + 1) * 1e5)
        run.add("heartbeats", rank, STEPS, ts_ns=T0 + SECOND)
    _lines(run, TRACEBACK, level="error", label="exception", template="KeyError: <n>")
    run.rank_files()
    run.publish()
    return run


def _end_ns() -> int:
    return T0 + (QUIET_S + 1) * SECOND


def _stands(run: RunBuilder, rank: int, circle: bool) -> None:
    """What the watchdog of the host saw of a rank at two looks."""
    is_missing = rank == 2 and not circle
    for at_ns in (_end_ns() - 5 * SECOND, _end_ns()):
        quiet_ns = at_ns - T0 - SECOND
        run.add(
            "looks",
            rank,
            STEPS,
            ts_ns=at_ns,
            pid=4000 + rank,
            process="S",
            beat_age_ns=SECOND // 2,
            quiet_ns=quiet_ns,
            longest_ns=0,
            num_entered=31,
            cpu_ns=SECOND,
            io_bytes=0,
            call="do_poll",
            stack=_IN_CODE if is_missing else _IN_ALL_REDUCE,
        )
    in_all = ("completed", 30) if rank == 2 else ("entered", 31)
    _entered(run, rank, 7, *in_all)
    if rank in (2, 3):
        in_pair = ("entered", 5) if circle and rank == 2 else ("completed", 4)
        _entered(run, rank, 8, *in_pair)


def _entered(run: RunBuilder, rank: int, group_id: int, state: str, seq: int) -> None:
    run.add(
        "entered",
        rank,
        STEPS,
        ts_ns=_end_ns(),
        group_id=group_id,
        seq=seq,
        num_bytes=4000,
        peer=-1,
        enqueue_ns=T0 + SECOND,
        state=state,
        source="ring",
    )


def _lines(run: RunBuilder, last: str, **about: str) -> None:
    """A line per step of two ranks, and the last one of rank 1."""
    given = {"timed": "own", "host": QUOTED, "stream": "stderr", "file": "stderr", "count": 1}
    for step in range(STEPS):
        row = given | {"line": step + 1, "level": "info", "label": "", "template": "step <n> done"}
        for rank in range(2):
            at_ns = T0 + step * SECOND // 10
            run.add("log_lines", rank, step, ts_ns=at_ns, text=f"step {step} done", **row)
    run.add("log_lines", 1, STEPS, ts_ns=T0 + SECOND, text=last, line=9, **given, **about)
