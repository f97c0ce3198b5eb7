"""(h) Jobs in which something goes wrong: hooks do not change how they end.

Each job runs in a process of its own, without hooks, without hooks again (the noise), with hooks
at their default level, and with statistics and all watches in every step.

oom: a batch in the middle of the job does not fit; the job catches torch.cuda.OutOfMemoryError and
continues. graph: forward and backward under torch.cuda.graph in its default mode, in which a query
of an event by any thread ends the capture with an error; the capture stays open for longer than the
hooks' thread pauses. Both must end well, with bitwise the same losses.

assert: an index outside of a tensor on the device, after which every call to the device fails. The
job must fail with the same exception and the same exit code, and its run folder must have the
error. With hooks it may take some seconds longer to end, because they write the last rows. A job
that has not ended within its limit is killed and counts as failed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.gpu.children import Ended, run_job
from benchmarks.gpu.figures import Figure, Place
from benchmarks.gpu.jobs.failing import ASSERTS
from benchmarks.gpu.parts.losses import differing

LIMIT_S = 75.0
SLOWER_S = 15.0
"""By which a job with hooks may end later after its device has failed."""

WAYS = ("none", "again", "hooks", "all")


def measure(place: Place) -> None:
    """Each kind, each way."""
    for what in ("oom", "graph", "assert"):
        ended = {way: _run(place, what, way) for way in WAYS}
        folders = {way: _folder(place, what, way) for way in WAYS}
        figures = assert_figures if what == "assert" else going_on_figures
        for figure in figures(what, ended, folders):
            place.say(figure)


def _folder(place: Place, what: str, way: str) -> Path:
    return place.folder / f"{what}-{way}"


def _run(place: Place, what: str, way: str) -> Ended:
    folder = _folder(place, what, way)
    folder.mkdir()
    hooks = "none" if way == "again" else way
    environment = {"TRACE_HOOKS_RING_DIR": str(folder / "rings")}
    return run_job("failing", (what, place.device, folder, hooks), LIMIT_S, environment)


def going_on_figures(
    what: str, ended: Mapping[str, Ended], folders: Mapping[str, Path]
) -> list[Figure]:
    """Of a job that goes on: it ends well, with the same losses, and no hook has failed."""
    results = []
    alone = ended["none"].found or []
    noise = differing(alone, ended["again"].found or [])
    for way, job in ended.items():
        remark = "" if job.code == 0 else job.raised or job.last_line
        ends = "ends well" if job.code == 0 else f"ended with {job.code}"
        results.append(Figure(f"{what}, {way}: the job", ends, holds=job.code == 0, note=remark))
        if way == "none" or job.code != 0:
            continue
        differ = differing(alone, job.found or [])
        # where losses differ without hooks, too, there is no verdict
        holds = None if way == "again" or noise else differ == 0
        results.append(
            Figure(f"{what}, {way}: losses that differ", differ, f"of {len(alone)}", holds)
        )
        if way != "again":
            results.append(_hook_errors(what, way, folders[way]))
    if what == "oom":
        results.append(_out_of_memory(ended))
    return results


def _out_of_memory(ended: Mapping[str, Ended]) -> Figure:
    times = {way: job.text.count("out of memory 1 times") for way, job in ended.items()}
    holds = all(times.values())
    return Figure("oom: the job ran out of memory once", str(times), holds=holds)


def _rank_file(folder: Path) -> dict[str, Any] | None:
    paths = list(folder.glob("runs/failing/ranks/*.json"))
    answer: dict[str, Any] | None = json.loads(paths[0].read_text("utf-8")) if paths else None
    return answer


def _hook_errors(what: str, way: str, folder: Path) -> Figure:
    rank = _rank_file(folder)
    errors = "no rank file was written" if rank is None else rank["hooks"]["errors"]
    return Figure(f"{what}, {way}: errors of hooks", str(errors or "none"), holds=not errors)


def assert_figures(
    what: str, ended: Mapping[str, Ended], folders: Mapping[str, Path]
) -> list[Figure]:
    """Of a job whose device fails: it fails the same way, ends, and the run folder says why."""
    alone = ended["none"]
    results = [
        Figure(
            f"{what}, without hooks", alone.raised or alone.last_line, holds=ASSERTS in alone.raised
        )
    ]
    for way in ("hooks", "all"):
        job = ended[way]
        same = (job.code, job.raised) == (alone.code, alone.raised)
        later_s = job.seconds - alone.seconds
        noise_s = abs(ended["again"].seconds - alone.seconds)
        results += [
            Figure(
                f"{what}, {way}: exit code and exception",
                f"{job.code}, {job.raised or job.last_line}",
                holds=same,
                note=f"without hooks {alone.code}",
            ),
            Figure(
                f"{what}, {way}: ends later by",
                later_s,
                "s",
                holds=job.code is not None and later_s < SLOWER_S,
                note=f"less than {SLOWER_S:g} s; the same without hooks again: {noise_s:.1f} s",
            ),
            reason_figure(f"{what}, {way}: the run folder", _rank_file(folders[way])),
        ]
    return results


def reason_figure(name: str, rank: dict[str, Any] | None) -> Figure:
    """Whether the rank's file says that it failed, and of what."""
    end = (rank or {}).get("end")
    if not end:
        return Figure(name, "does not have the end", holds=False)
    errors = (rank or {})["hooks"]["errors"]
    return Figure(
        name,
        f"{end['status']}, with the error" if ASSERTS in (end["error"] or "") else "no error",
        holds=end["status"] == "failed" and ASSERTS in (end["error"] or ""),
        note=f"errors of hooks: {errors or 'none'}",
    )
