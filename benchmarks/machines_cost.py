"""CPU time of one call of faulty_machine over 1,536 machines, 15 minutes and 20 metrics.

python -m benchmarks.machines_cost
"""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

from diagnosis.detectors.faulty_machine import detect
from diagnosis.detectors.faulty_machine.watch import MachineWatch

MACHINES, SECONDS, METRICS = 1_536, 900, 20


def main() -> None:
    random = np.random.default_rng(0)
    size = (METRICS, SECONDS, MACHINES)
    values = random.standard_normal(size, np.float32)
    values += 100
    values[3, 400:, 77] -= 10
    values[random.random(size, np.float32) < 0.03] = np.nan
    tables = tables_of(values)
    begin = time.process_time()
    verdict = detect(tables, attempt=0)
    used_s = time.process_time() - begin
    assert verdict is not None
    named = [finding.hosts for finding in verdict.findings]
    print(f"one call, {MACHINES:,} x {SECONDS} s x {METRICS}: {used_s:.2f} s of CPU; named {named}")
    watch = MachineWatch([str(i) for i in range(MACHINES)], [f"m{i}" for i in range(METRICS)])
    watch.push(values[:, :300])
    begin = time.process_time()
    for second in range(300, 420):
        watch.push(values[:, second : second + 1])
    each_ms = (time.process_time() - begin) / 120 * 1e3
    print(f"second by second: {each_ms:.1f} ms of CPU per second")


def tables_of(values_MTN: np.ndarray) -> dict[str, pa.Table]:
    """Answers of the detector's questions, as SQL gives them."""
    series = values_MTN.transpose(0, 2, 1).reshape(-1, values_MTN.shape[1])
    known = ~np.isnan(series)
    ends = np.concatenate([[0], np.cumsum(known.sum(axis=1))]).astype(np.int32)
    seconds = np.broadcast_to(np.arange(series.shape[1]), series.shape)[known]
    num_metrics, _, num_machines = values_MTN.shape
    offsets = pa.array(ends)
    rows = {
        "host": pa.array(np.tile([f"n{i:04d}" for i in range(num_machines)], num_metrics)),
        "metric": pa.array(np.repeat([f"m{i}" for i in range(num_metrics)], num_machines)),
        "of": pa.array([""] * len(series)),
        "seconds": pa.ListArray.from_arrays(offsets, pa.array(seconds)),
        "values": pa.ListArray.from_arrays(offsets, pa.array(series[known].astype(np.float64))),
    }
    empty = pa.table({"rank": pa.array([], pa.int32()), "host": pa.array([], pa.string())})
    clock = {name: pa.array([], pa.int64()) for name in ("step", "begin_ns", "end_ns")}
    return {
        "machine_seconds": pa.table(rows),
        "rank_places": empty,
        "step_clock": pa.table(clock),
    }


if __name__ == "__main__":
    main()
