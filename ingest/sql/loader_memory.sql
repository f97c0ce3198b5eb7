-- Memory of the workers of data loaders: how it has grown in three equal parts of the time.
-- reads: loader_memory, host_metrics
-- param: attempt int = newest
-- column: rank  global rank
-- column: worker  number of the worker, from 0
-- column: pid  its process
-- column: host  where it runs; NULL unknown
-- column: is_shared  whether shared pages are divided by their users (else: resident memory)
-- column: samples  how often it was looked at
-- column: seconds  from the first look to the last
-- column: first_step  step of the first look
-- column: last_step  step of the last look
-- column: begin_mb  median of the first third, MB
-- column: middle_mb  of the second third, MB
-- column: end_mb  of the last third, MB
-- column: free_mb  memory that the host had left when it was last sampled, MB; NULL not recorded
-- empty: no data loader had workers for long enough, or the run is older than this table
WITH looked AS (
    SELECT rank, worker, loader, pid, step, ts_ns, true AS is_shared, pss_bytes / 1e6 AS mb
    FROM rows_of($loader_memory) WHERE attempt = $attempt AND pss_bytes >= 0
    UNION ALL
    SELECT rank, worker, loader, pid, step, ts_ns, false, rss_bytes / 1e6
    FROM rows_of($loader_memory) WHERE attempt = $attempt
),
placed AS (
    SELECT *, min(ts_ns) OVER w AS first_ns, max(ts_ns) OVER w AS last_ns FROM looked
    WINDOW w AS (PARTITION BY rank, worker, loader, pid, is_shared)
),
thirds AS (
    SELECT *, least(floor(3 * (ts_ns - first_ns) / greatest(last_ns - first_ns, 1)), 2) AS third FROM placed
),
free AS (
    SELECT host, arg_max(value, ts_ns) / 1e6 AS free_mb FROM machine_samples($host_metrics, $attempt)
    WHERE metric = 'memory_available_bytes' GROUP BY host
)
SELECT t.rank, t.worker, t.pid, nullif(any_value(r.host), '') AS host, t.is_shared, count(*) AS samples,
    any_value(t.last_ns - t.first_ns) / 1e9 AS seconds, min(step) AS first_step, max(step) AS last_step,
    median(mb) FILTER (third = 0) AS begin_mb,
    median(mb) FILTER (third = 1) AS middle_mb, median(mb) FILTER (third = 2) AS end_mb,
    any_value(f.free_mb) AS free_mb
FROM thirds t LEFT JOIN (SELECT rank, host FROM ranks WHERE attempt = $attempt) r ON r.rank = t.rank
LEFT JOIN free f ON f.host = r.host
GROUP BY t.rank, t.worker, t.loader, t.pid, t.is_shared HAVING count(*) >= 3
ORDER BY t.rank, t.worker, t.pid, t.is_shared
