"""What dumps of PyTorch's Flight Recorder alone say of a stuck job: torch's fr_trace and rankscope.

python -m benchmarks.stuck.dumps FOLDER ..

Each folder has one dump per rank (a pickle whose name ends in the rank). Of fr_trace the ranks
count that it lists as missing or as mismatched, over all groups; it names no cause. It unpickles
the files, so give it only dumps that you trust.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from app.analysis.diagnosis import diagnose_run
from benchmarks.stuck.viewers import KINDS
from ingest.errors import UserError
from ingest.imports.importer import open_any

_LONGEST_S = 120
_MISSING = re.compile(r"^missing ranks: \{([\d, ]+)\}", re.MULTILINE)
_MISMATCHED = re.compile(r"Culprit rank (\d+)")
_DUMP = re.compile(r"\d+$")


def ranks_of_fr_trace(folder: Path) -> list[int] | None:
    """Global ranks that torch's own tool lists; None where it ends with an error."""
    command = [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace"]
    with tempfile.TemporaryDirectory() as only_dumps:
        for path in folder.iterdir():
            if _DUMP.search(path.name):
                (Path(only_dumps) / path.name).symlink_to(path.resolve())
        done = subprocess.run(
            [*command, only_dumps], capture_output=True, text=True, timeout=_LONGEST_S, check=False
        )
    if done.returncode:
        return None
    text = done.stdout + done.stderr
    named = {int(rank) for ranks in _MISSING.findall(text) for rank in ranks.split(",")}
    named |= {int(rank) for rank in _MISMATCHED.findall(text)}
    return sorted(named)


def ranks_of_rankscope(folder: Path) -> list[int]:
    """Global ranks of our findings about hangs; none where they name nobody."""
    try:
        with open_any(folder) as run:
            findings = [one for one in diagnose_run(run).findings if one.kind in KINDS]
    except UserError:  # no dump that can be read
        return []
    return sorted({place.rank for one in findings for place in one.culprits})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    print("| dumps | fr_trace | rankscope |")
    print("|---|---|---|")
    for folder in parser.parse_args().folders:
        listed = ranks_of_fr_trace(folder)
        theirs = "error" if listed is None else listed
        print(f"| {folder.name} | {theirs} | {ranks_of_rankscope(folder)} |", flush=True)


if __name__ == "__main__":
    main()
