"""Provenance of a run: where its data came from, what was guessed, what could not be read.

Sentences of an import are shown as the importer wrote them; similar ones are folded into one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.views.run.runs import importing_words
from ingest.errors import printable
from ingest.layout_correction import refusal
from ingest.readers import format_facts
from ingest.run import Run
from ingest.run_folder.run_files import read_correction
from ingest.summary import LAYOUT_WORDS, layout_from

RECORDED = {"hooks": "recorded by hooks", "synthetic": "generated"}
"""Sources of runs that no file of another tool was read for, in words."""
METHOD_WORDS = {
    "matched_collectives": "by the ends of collectives that all their members recorded",
    "store_ping_pong": "by messages between the ranks",
    "same_host": "one host, one clock",
    "reference": "the clock with which the others are compared",
    "imported": "as recorded in the files",
}
MOST_CLOCKS = 64
"""Ranks in the table of clocks, the least accurate first."""
MOST_FOLDED = 200
"""At most this many sentences of one kind, and files, are listed."""
_FEWEST_SIMILAR = 3
_MOST_NAMED = 8
_CONTENT_HASH = re.compile(r"-([0-9a-f]{12})$")
"""The end of an import's id."""
_VARYING = re.compile(r"\d[\d,._]*|'[^']*'|\"[^\"]*\"")
_FILE_NAME = re.compile(r"^\S+\.\w+:? ")


@dataclass(frozen=True)
class Sentence:
    """One sentence, or the first of several similar ones, with the others."""

    text: str
    others: tuple[str, ...] = ()
    num_others: int = 0
    """including those that are not listed"""


@dataclass(frozen=True)
class ClockRow:
    """Accuracy of one rank's clock; `method` None: it is not aligned."""

    rank: int
    host: str
    offset_us: float | None
    err_us: float | None
    drift_ppm: float | None
    method: str | None


@dataclass(frozen=True)
class Clocks:
    """`sentence` summarises them; `worst_err_us` is None if an error is not known."""

    sentence: str
    is_unaligned: bool = False
    worst_err_us: float | None = None
    rows: tuple[ClockRow, ...] = ()
    num_rows: int = 0


@dataclass(frozen=True)
class AboutRun:
    """Content of the panel about a run."""

    source: str
    is_import: bool
    ranks: str
    framework: str
    imported: str | None
    content_hash: str | None
    files: tuple[str, ...]
    num_files: int
    layout: str | None
    layout_from: str
    corrected_ns: int | None
    can_be_corrected: bool
    clocks: Clocks
    guesses: tuple[Sentence, ...]
    num_guesses: int
    problems: tuple[Sentence, ...]
    num_problems: int
    importing: str | None = None
    """progress of the import, as text; None: complete"""


def about_run(run: Run, attempt: int | None = None) -> AboutRun:
    """Everything about a run, for an attempt (default: the newest); raises UserError."""
    info = run.info
    source = info["source"]
    is_import = source not in RECORDED
    layout, known_from = run.layout(attempt), layout_from(run, attempt)
    correction = read_correction(run.folder) if known_from == "hand" else None
    files, imported = _provenance(info.get("provenance", []))
    problems, guesses = run.problems, info.get("guesses", [])
    digest = _CONTENT_HASH.search(info["run"])
    return AboutRun(
        source=RECORDED.get(source) or format_facts(source).title,
        is_import=is_import,
        ranks=_ranks(run, attempt),
        framework=_framework(info.get("framework", ""), info.get("versions", {})),
        imported=imported,
        content_hash=digest[1] if is_import and digest else None,
        files=tuple(files[:MOST_FOLDED]),
        num_files=len(files),
        layout=None if layout is None else str(layout),
        layout_from="" if known_from is None else LAYOUT_WORDS[known_from],
        corrected_ns=correction.corrected_ns if correction else None,
        can_be_corrected=refusal(run) is None,
        clocks=clocks(run, attempt),
        guesses=summed(guesses),
        num_guesses=len(guesses),
        problems=summed(problems),
        num_problems=len(problems),
        importing=importing_words(run),
    )


def _provenance(lines: Sequence[str]) -> tuple[list[str], str | None]:
    """Files, and when they were imported, from the lines of an import."""
    stamps = [line for line in lines if line.startswith("imported ")]
    files = [printable(line) for line in lines if line not in stamps]
    return files, stamps[-1].removeprefix("imported ") if stamps else None


def _ranks(run: Run, attempt: int | None) -> str:
    wanted = run.newest_attempt if attempt is None else attempt
    ranks = [info for info in run.ranks if info["attempt"] == wanted]
    world_size = max((info["world_size"] for info in ranks), default=-1)
    if world_size <= 0:
        return f"{len(ranks)}; how many the job had is unknown"
    if len(ranks) == world_size:
        return f"all {world_size}" if world_size > 1 else "one"
    return f"{len(ranks)} of {world_size}"


def _framework(name: str, versions: Mapping[str, Any]) -> str:
    known = [f"{tool} {version}" for tool, version in versions.items() if version]
    return ", ".join(known) or name


def summed(sentences: Sequence[str]) -> tuple[Sentence, ...]:
    """Sentences in order; three or more that differ only in names and numbers are folded into
    one.
    """
    similar: dict[str, list[str]] = {}
    for sentence in sentences:
        text = printable(sentence)
        similar.setdefault(_VARYING.sub("#", _FILE_NAME.sub("", text)), []).append(text)
    sentences_shown = []
    for texts in similar.values():
        if len(texts) < _FEWEST_SIMILAR:
            sentences_shown += [Sentence(text) for text in texts]
        else:
            others = texts[1:]
            sentences_shown.append(Sentence(texts[0], tuple(others[:MOST_FOLDED]), len(others)))
    return tuple(sentences_shown)


def clocks(run: Run, attempt: int | None = None) -> Clocks:
    """How the clocks of an attempt's ranks compare, in a sentence and rank by rank."""
    kind = run.info["clock"]
    if kind == "per_step_relative":
        return Clocks(
            "Times start at 0 again in each step: times of different steps cannot be compared."
        )
    rows = [_clock_row(row) for row in run.ask("clock_error", attempt=attempt).to_pylist()]
    if len(rows) < 2:
        return Clocks("One rank: there is no other clock to compare with.", num_rows=len(rows))
    unaligned = [row.rank for row in rows if row.method is None]
    errors = [row.err_us for row in rows]
    worst = None if None in errors or unaligned else max(e for e in errors if e is not None)
    sentence = _unaligned(unaligned, len(rows)) if unaligned else _aligned(rows, worst)
    if kind == "unknown":
        sentence += " The files do not say from when their times count."
    by_error = sorted(rows, key=lambda row: (row.method is not None, -(row.err_us or 0), row.rank))
    listed = tuple(sorted(by_error[:MOST_CLOCKS], key=lambda row: row.rank))
    return Clocks(sentence, bool(unaligned), worst, listed, len(rows))


def _clock_row(row: Mapping[str, Any]) -> ClockRow:
    drift_ppb = row["drift_ppb"]
    return ClockRow(
        rank=row["rank"],
        host=printable(row["host"] or ""),
        offset_us=row["offset_us"],
        err_us=row["err_us"],
        drift_ppm=None if drift_ppb is None else drift_ppb / 1e3,
        method=row["method"],
    )


def _unaligned(unaligned: Sequence[int], num_ranks: int) -> str:
    if len(unaligned) == num_ranks:
        who = f"The clocks of the {num_ranks} ranks here are not aligned"
    else:
        shown = ", ".join(map(str, unaligned[:_MOST_NAMED]))
        num_more = len(unaligned) - _MOST_NAMED
        noun = "rank" if len(unaligned) == 1 else "ranks"
        verb = "clock" if len(unaligned) == 1 else "clocks"
        are = "is" if len(unaligned) == 1 else "are"
        also = f" and {num_more} more" if num_more > 0 else ""
        who = f"The {verb} of {noun} {shown}{also} {are} not aligned with the others"
    return f"{who}: lanes show each rank's own times, and no rank is reported as late."


def _aligned(rows: Sequence[ClockRow], worst_err_us: float | None) -> str:
    methods = {row.method for row in rows if row.method not in (None, "reference")}
    how = "; ".join(sorted(METHOD_WORDS.get(str(method), str(method)) for method in methods))
    if methods <= {"imported", "same_host"}:
        return f"Clocks of the {len(rows)} ranks: {how}."
    within = "" if worst_err_us is None else f", within {worst_err_us:,.1f} µs"
    drifting = [row for row in rows if row.drift_ppm]
    drift = ""
    if drifting:
        most = max(drifting, key=lambda row: abs(row.drift_ppm or 0))
        drift = f" Rank {most.rank} drifts most, by {most.drift_ppm:.2f} ppm."
    return f"The clocks of the {len(rows)} ranks are aligned {how}{within}.{drift}"
