-- What the workers of each rank's data loaders did, by source and worker: how long a sample took, and
-- how much of that they computed. Workers are those of torch's DataLoader.
-- reads: loader_fetches
-- param: step_min int = 0 first step wanted; of a fetch the step in which the rank read of it
-- param: step_max int = 9223372036854775806 last step wanted
-- param: rank int = null only this rank
-- param: attempt int = newest
-- column: rank  global rank
-- column: worker  number of the worker, from 0
-- column: source  dataset; of a ConcatDataset one of its own
-- column: fetches  fetches with samples of this source
-- column: samples  samples of this source
-- column: sample_ms  wall time of a sample: median over fetches, ms
-- column: sample_p99_ms  its 99th percentile, ms
-- column: fetch_ms  mean wall time of a fetch's samples of this source, ms
-- column: cpu_ratio  share of the wall time in which the worker computed
-- column: transform_ratio  share of the wall time in transforms that the dataset marks
-- column: transform  the one that was longest most often; empty none
-- column: read_mb  bytes read by a sample, cached or not, MB; NULL unknown
-- empty: no data loader had workers, or the run is older than this table
SELECT rank, worker, source, count(*) AS fetches, CAST(sum(samples) AS BIGINT) AS samples,
    median(wall_ns / greatest(samples, 1)) / 1e6 AS sample_ms,
    quantile_cont(wall_ns / greatest(samples, 1), 0.99) / 1e6 AS sample_p99_ms,
    avg(wall_ns) / 1e6 AS fetch_ms, sum(cpu_ns) / greatest(sum(wall_ns), 1) AS cpu_ratio,
    sum(transform_ns) / greatest(sum(wall_ns), 1) AS transform_ratio, coalesce(mode(transform), '') AS transform,
    sum(read_bytes) FILTER (read_bytes >= 0) / greatest(sum(samples) FILTER (read_bytes >= 0), 1) / 1e6 AS read_mb
FROM rows_of($loader_fetches)
WHERE attempt = $attempt AND step BETWEEN $step_min AND $step_max AND ($rank IS NULL OR rank = $rank)
GROUP BY rank, worker, source ORDER BY rank, worker, source
