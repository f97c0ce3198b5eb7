"""Which rank HolisticTraceAnalysis calls the straggler. Runs in its own environment.

python hta_stragglers.py FOLDER: reads FOLDER/JOB/rank*.json (Kineto), prints {JOB: {"ranks": [..]}
or {"error": text}}. Its finder names the latest of each step whatever happens; here a rank counts
as named where it is the latest in more than half of the steps.
"""

import contextlib
import json
import logging
import sys
from pathlib import Path


def stragglers(folder):
    from hta.trace_analysis import TraceAnalysis

    files = {int(path.stem[4:]): str(path) for path in folder.glob("rank*.json")}
    analysis = TraceAnalysis(trace_files=files, include_last_profiler_step=True)
    counts = analysis.get_potential_stragglers(num_candidates=1)
    counts = counts if hasattr(counts, "items") else dict.fromkeys(counts, 1)
    most = len(analysis.get_profiler_steps()) / 2
    return sorted(int(rank) for rank, count in counts.items() if count > most)


def main():
    logging.disable(logging.CRITICAL)
    answers = {}
    for folder in sorted(path for path in Path(sys.argv[1]).iterdir() if path.is_dir()):
        try:
            with contextlib.redirect_stdout(sys.stderr):
                answers[folder.name] = {"ranks": stragglers(folder)}
        except Exception as error:  # noqa: BLE001  # its errors are results
            answers[folder.name] = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
