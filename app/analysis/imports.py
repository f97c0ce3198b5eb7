"""The import step: readers write the tables as they are in the files, then clocks are aligned.

Files of processes on several hosts have a clock each. Where collectives were recorded by all their
members, or by enough of them, their ends say how far the clocks are apart
(diagnosis.clocks.alignment), and the run's clocks table is replaced; where they do not connect a
rank, its clock counts as unknown, and the run has a problem that says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from diagnosis.clocks.alignment import Alignment, MatchedEnds, RankClock, align
from ingest.errors import UserError
from ingest.imports import importer
from ingest.imports.importer import OnFile, OnShown, Progress
from ingest.process_tuning import prepare_meanwhile
from ingest.readers import format_facts
from ingest.readers.tables.rows import rows
from ingest.run_folder.run_writer import RunWriter

if TYPE_CHECKING:
    from ingest.run import Run

_MATCHING = "ingest.imports.matched_ends"
"""Module that matches collectives: DuckDB, whose loading takes as long as reading a few MB."""
_MOST_NAMED = 8
_UNKNOWN: Mapping[str, int | str] = {"offset_ns": 0, "drift_ppb": 0, "method": "none"}


def import_paths(
    paths: Sequence[Path | str],
    runs_folder: Path | str,
    progress: Progress | None = None,
    name: str | None = None,
    on_file: OnFile | None = None,
    on_shown: OnShown | None = None,
) -> Path:
    """ingest.imports.importer.import_paths, with clocks aligned."""
    prepare_meanwhile(_MATCHING)
    return importer.import_paths(
        paths, runs_folder, progress, name, align_clocks, on_file, on_shown
    )


def open_any(
    path: Path | str, progress: Progress | None = None, on_file: OnFile | None = None
) -> Run:
    """ingest.imports.importer.open_any, with clocks aligned where files are imported."""
    return importer.open_any(path, progress, align_clocks, on_file)


def align_clocks(writer: RunWriter, format_name: str) -> None:
    """Write the clocks table of an import of several ranks, and note what is known of it."""
    if len(writer.ranks) < 2 or not format_facts(format_name).has_own_clocks:
        return
    alignment = _alignment(writer)
    writer.remove_rows("clocks")
    if not alignment.clocks and _on_one_host(writer):
        writer.add_guess("the ranks ran on one host, so they are assumed to have the same clock")
        return
    for rank in sorted(writer.ranks):
        clock = alignment.clocks.get(rank)
        row = _row(clock) if clock else {"ts_ns": writer.ranks[rank]["started_ns"], **_UNKNOWN}
        writer.add_rows("clocks", rank, rows("clocks", 1, {"rank": rank, **row}))
    _note(alignment, writer)


def _row(clock: RankClock) -> Mapping[str, int | str]:
    return {
        "ts_ns": clock.ts_ns,
        "offset_ns": clock.offset_ns,
        "err_ns": clock.err_ns,
        "drift_ppb": clock.drift_ppb,
        "method": "matched_collectives",
    }


def _alignment(writer: RunWriter) -> Alignment:
    from ingest.imports.matched_ends import matched_ends

    ranks = sorted(writer.ranks)
    try:
        table = matched_ends(writer.folder / "segments")
    except UserError as error:
        writer.add_problem(str(error))
        return Alignment(None, {}, ranks)
    wanted = ("group_id", "instance", "rank", "end_ns", "spent_ns", "num_missing")
    columns = [table[name].to_numpy().astype(np.int64) for name in wanted]
    is_known = np.isin(columns[2], ranks)
    return align(MatchedEnds(*(column[is_known] for column in columns)), ranks)


def _on_one_host(writer: RunWriter) -> bool:
    hosts = {info["host"] for info in writer.ranks.values()}
    return len(hosts) == 1 and "" not in hosts


def _note(alignment: Alignment, writer: RunWriter) -> None:
    if alignment.clocks:
        writer.add_guess(_aligned(alignment))
    if alignment.unaligned:
        writer.add_problem(
            f"the clocks of {_named(alignment.unaligned)} could not be compared with those of the "
            "others: no group recorded enough of the same collectives (all of its members, or at "
            f"least three and half of them) with ends that agree{_unproven(alignment)}; no finding "
            "blames a rank on the basis of their times. Import the files of all ranks together, "
            "recorded at the same time"
        )
    for misfit in alignment.misfits:
        writer.add_problem(
            f"group {misfit.group}: rank {misfit.rank} saw its collectives end at other times than "
            f"the other members (by {misfit.residual_ns / 1e6:.1f} ms), so these ends were not "
            "used to compare clocks"
        )


def _aligned(alignment: Alignment) -> str:
    clocks = list(alignment.clocks.values())
    offset_ms = max(abs(clock.offset_ns) for clock in clocks) / 1e6
    err_us = max(clock.err_ns for clock in clocks) / 1e3
    drifts = [clock for clock in clocks if clock.drift_err_ppb is not None and clock.drift_ppb]
    widest = max(drifts, key=lambda clock: abs(clock.drift_ppb), default=None)
    drift = ""
    if widest is not None and widest.drift_err_ppb is not None:
        ppm, err_ppm = widest.drift_ppb / 1e3, widest.drift_err_ppb / 1e3
        drift = f"; rank {widest.rank} drifts most, by {ppm:.2f} ppm (error {err_ppm:.2f})"
    return (
        f"the clocks of {len(clocks)} ranks were compared with that of rank {alignment.reference} "
        f"by the ends of their collectives: they differ by up to {offset_ms:.3f} ms, which is "
        f"known to within {err_us:.1f} µs{drift}{_of_some(alignment)}"
    )


def _of_some(alignment: Alignment) -> str:
    """That of some groups not all members are here; empty where all are."""
    if not alignment.incomplete:
        return ""
    return (
        f"; members of {_counted(alignment.incomplete, 'group')} are missing, but the ends of the "
        "others agree only with the numbers they have, so they are used"
    )


def _unproven(alignment: Alignment) -> str:
    if not alignment.unproven:
        return ""
    return (
        f" (members of {_counted(alignment.unproven, 'group')} are missing, and the ends of the "
        "others do not prove that they are numbered the same way)"
    )


def _counted(things: Sequence[int], noun: str) -> str:
    return f"{len(things)} {noun}{'s' if len(things) > 1 else ''}"


def _named(ranks: Sequence[int]) -> str:
    shown = ", ".join(map(str, ranks[:_MOST_NAMED]))
    more = f" and {len(ranks) - _MOST_NAMED} more" if len(ranks) > _MOST_NAMED else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}{more}"
