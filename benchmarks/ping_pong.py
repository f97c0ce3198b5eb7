"""Ping-pong in the real job with experts, against the time of diagnosis/experts/same_ranks.py.

    python benchmarks/ping_pong.py

Four ranks over gloo on this machine. Each forward of attention and of the experts waits as long as
given, for a device: on few cores computing of several ranks would be in each other's way. Ta, Te
and Tc are those that the hooks measured (saved query expert_times); the measured time is that of
the forward of a micro-batch, from the first attention to the final norm.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from diagnosis.experts.same_ranks import SameRanks
from ingest.run import Run, open_run

CASES = ((1, 150, 150), (2, 150, 150), (2, 200, 100), (3, 100, 100))
"""(groups of a micro-batch, ms of attention, ms of experts)"""

OPTIONS = (
    *("--nproc", "4", "--pp", "1", "--dp", "2", "--ep", "2", "--experts", "4", "--layers", "4"),
    *("--batch", "6", "--microbatches", "3", "--steps", "4"),
    *("--seq", "16", "--width", "32", "--heads", "2", "--device", "cpu"),
)

PASSES = """
SELECT (min(ts_ns) FILTER (name = 'norm') - min(ts_ns) FILTER (ends_with(name, '.attention'))) / 1e6
    AS ms
FROM spans WHERE kind = 'forward' AND step > 0 AND microbatch > 0 GROUP BY rank, step, microbatch
"""
"""Without the first micro-batch of a step, which gathers the parameters."""


def main() -> int:
    """Print a line for each case."""
    for groups, attention_ms, experts_ms in CASES:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "sample_traces.jobs.train_moe", *OPTIONS]
            command += ["--groups", str(groups), "--runs", folder]
            command += ["--wait-ms", str(attention_ms), str(experts_ms)]
            environ = os.environ | {"TRACE_HOOKS_RUN": "job", "OMP_NUM_THREADS": "1"}
            subprocess.run(command, env=environ, stdout=subprocess.DEVNULL, check=True)
            with open_run(Path(folder, "job")) as run:
                print(line(run), flush=True)
    return 0


def line(run: Run) -> str:
    """Predicted and measured time of a run."""
    ranks = run.ask("expert_times").to_pylist()

    def typical(name: str) -> float:
        return statistics.median(rank[name] for rank in ranks)

    attention, experts = typical("attention_ms"), typical("expert_ms")
    transfer = typical("transfer_ms")
    groups, layers = int(typical("micro_batches")), int(typical("layers"))
    predicted = SameRanks(attention, experts, transfer, groups, layers).total
    passes = run.sql(PASSES).column("ms").to_pylist()
    measured = statistics.median(passes)
    return (
        f"m {groups}, L {layers}, Ta {attention:.1f} ms, Te {experts:.1f} ms, "
        f"Tc {transfer:.1f} ms: "
        f"predicted {predicted:.0f} ms, measured {measured:.0f} ms (median of {len(passes)}), "
        f"{predicted / measured - 1:+.1%}"
    )


if __name__ == "__main__":
    sys.exit(main())
