"""All measurements of the hooks that need a CUDA device, part by part.

python -m benchmarks.gpu [--only a,e] [--again] [--results FOLDER] [--page docs/gpu.md] [--rehearse]

Each part is a separate process, ends within 8 minutes, and stores its figures at once; a part that
has ended well is not run again (--again runs it). Without a CUDA device every part is skipped.
--rehearse runs the same code on the CPU with tiny sizes: it stores nothing and says nothing about a
GPU.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.gpu import report
from benchmarks.gpu.machine import Machine, this_machine
from benchmarks.gpu.parts import PARTS, Part
from benchmarks.gpu.runs import Result, ResultFiles, run_part


def main() -> int:
    options = _options()
    parts = [part for part in PARTS if options.only is None or part.letter in options.only]
    machine = this_machine()
    if machine is None and not options.rehearse:
        for part in parts:
            print(f"({part.letter}) {part.shows}: skipped: no CUDA device")
        _write_page(options)
        return 0
    if options.rehearse:
        print("Rehearsal on the CPU with tiny sizes: nothing here is a result of a GPU.")
        with tempfile.TemporaryDirectory() as folder:
            results = [run_part(part, "cpu", Path(folder)) for part in parts]
        return _ended(results, "rehearsed on the CPU, ")
    assert machine is not None
    return _measured(machine, parts, ResultFiles(options.results, machine), options)


def _measured(
    machine: Machine, parts: list[Part], files: ResultFiles, options: argparse.Namespace
) -> int:
    print(machine.in_words())
    results = []
    for part in parts:
        known = None if options.again else files.ended_well(part)
        if known is None:
            known = run_part(part, "cuda", files.folder)
            files.keep(known)
        else:
            print(f"({part.letter}) {part.shows}: {known.state} on {known.date}, not run again")
        results.append(known)
    print(f"\nResults: {files.folder}; docs/gpu.md says how to send them back.")
    _write_page(options)
    return _ended(results)


def _write_page(options: argparse.Namespace) -> None:
    """Results of all machines, including those that were sent in."""
    if options.page is not None:
        report.write(options.page, ResultFiles.all_below(options.results))


def _ended(results: list[Result], how: str = "") -> int:
    """Prints how each part ended; the exit code says whether all went well."""
    print()
    for result in results:
        print(f"({result.part.letter}) {result.part.shows}: {how}{result.in_words()}")
    return int(any(result.is_bad for result in results))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    letters = "".join(part.letter for part in PARTS)
    parser.add_argument("--only", type=lambda text: _letters(text, letters), metavar="a,b,...")
    parser.add_argument("--again", action="store_true", help="run parts that have ended well again")
    parser.add_argument("--results", type=Path, default=Path("gpu-results"), metavar="FOLDER")
    parser.add_argument("--page", type=Path, help="write the tables into this page")
    parser.add_argument("--rehearse", action="store_true", help="the same code, tiny, on the CPU")
    return parser.parse_args()


def _letters(text: str, known: str) -> set[str]:
    wanted = {one.strip() for one in text.split(",")}
    if not wanted <= set(known):
        raise argparse.ArgumentTypeError(f"{text!r}: parts are {', '.join(known)}")
    return wanted


if __name__ == "__main__":
    sys.exit(main())
