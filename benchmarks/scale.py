"""Every question of the pages at the size of a large job: how long, how much memory, who is named.

    python -m benchmarks.scale [--size default sums] [--asks 30] [--write docs/benchmarks.md]

Generates a job of TP 8, PP 8 and as many replicas as the size has (192 of wide, sums and full),
with interleaved 1F1B of 2 chunks and 32 micro-batches, in which 0.5 % of the machines compute 10 %
more slowly; indexes it; asks each kind of question `asks` times at random, cold and warm, and some
of them and a glob over a file for each rank; diagnoses it; replays it; opens it in Chromium. Of
`sums` only sums per step are recorded, of the others every operation. `--keep FOLDER` keeps the
runs and goes on with those that are there.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.browser import conditions
from benchmarks.page_part import write_part
from benchmarks.scale_parts import judging, pages
from benchmarks.scale_parts.asking import ask_all
from benchmarks.scale_parts.own_process import in_own_process
from benchmarks.scale_parts.report import report
from benchmarks.scale_parts.runs import (
    bytes_of,
    index_run,
    make_job,
    make_run,
    slow_hosts,
    table_files,
    write_rank_files,
)

BEGIN = "<!-- benchmarks.scale replaces what follows -->"
END = "<!-- end of scale -->"
SEED = 1


@dataclass(frozen=True)
class Size:
    """Ranks and steps of a run, and whether it has every operation or sums per step."""

    ranks: int
    steps: int
    level: str = "spans"


SIZES = {
    "small": Size(1_024, 4),
    "default": Size(2_048, 4),  # a slow rank has to be slow for four steps
    "wide": Size(12_288, 4),
    "sums": Size(12_288, 50, "steps"),
    "full": Size(12_288, 50),
}


def made(folder: Path, size: Size) -> dict[str, Any]:
    """Generate and index the run; what both took. What an earlier run did is not done again."""
    job = make_job(size.ranks, size.steps, size.level, SEED)
    num_spans, generated = _once(folder, "generated", make_run, job, folder)
    _, indexed = _once(folder, "indexed", index_run, folder)
    spans, collectives = (bytes_of(table_files(folder, name)) for name in ("spans", "collectives"))
    return {
        "spans": num_spans,
        "generate": generated,
        "index": indexed,
        "span_bytes": spans / num_spans,
        "collective_bytes": collectives / num_spans,
        "index_bytes": bytes_of(path for path in (folder / "index").rglob("*") if path.is_file()),
    }


def _once(
    run: Path, name: str, make: Callable[..., Any], *given: Any
) -> tuple[Any, dict[str, Any]]:
    """Call it, unless an earlier run of this did; what it returned and cost stays in a file."""
    file = run.parents[1] / f"{name}.json"
    if not file.exists():
        returned, cost = in_own_process(make, *given)
        file.write_text(json.dumps([returned, asdict(cost)]), encoding="utf-8")
    returned, cost = json.loads(file.read_text(encoding="utf-8"))
    return returned, cost


def measured(folder: Path, size: Size, options: argparse.Namespace) -> dict[str, Any]:
    """All parts, in the order in which their numbers are printed."""
    run, raw = folder / "runs" / "job", folder / "rank_files"
    result: dict[str, Any] = {
        "conditions": conditions(**asdict(size)),
        "made": made(run, size),
    }
    if options.raw_asks and not raw.exists():
        in_own_process(write_rank_files, run, raw)
    result["questions"], _ = in_own_process(
        ask_all, run, raw if options.raw_asks else None, options.asks, options.raw_asks, SEED
    )
    shutil.rmtree(raw, ignore_errors=True)
    found, cost = in_own_process(judging.diagnosed, run, slow_hosts(size.ranks, SEED))
    result["diagnosis"] = asdict(cost) | found
    found, cost = in_own_process(judging.replayed, run)
    result["whatif"] = asdict(cost) | found
    result["pages"] = {}
    if options.loads:
        result["pages"] = pages.measured(folder / "runs", run.name, options.loads)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--size", choices=SIZES, nargs="+", default=["default", "sums"], help="%(default)s")
    add("--asks", type=int, default=30, help="questions of each kind (%(default)s)")
    add("--raw-asks", type=int, default=3, help="of them also of files of ranks (%(default)s)")
    add("--loads", type=int, default=10, help="of each page in Chromium (%(default)s; 0: none)")
    add("--keep", type=Path, help="folder for the run, which stays there")
    add("--write", type=Path, help="page whose table is replaced")
    options = parser.parse_args()
    parts = []
    for name in options.size:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) if options.keep is None else options.keep / name
            parts.append(report(measured(folder, SIZES[name], options)))
        print(parts[-1], end="\n\n", flush=True)
    text = "\n\n".join(parts)
    if options.write is not None:
        write_part(options.write, BEGIN, END, text)


if __name__ == "__main__":
    main()
