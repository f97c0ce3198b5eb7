-- Memory of the ranks over the steps.
-- reads: memory
-- param: step_min int = -1 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: rank int = null one rank only
-- param: attempt int = newest
-- column: step  optimizer step
-- column: rank  global rank
-- column: allocated_mb  device memory allocated, 1e6 B; NULL unknown
-- column: reserved_mb  held by the allocator, 1e6 B; NULL unknown
-- column: peak_mb  allocated at most since the start, 1e6 B; NULL unknown
-- column: retries  allocator retries so far; NULL unknown
-- column: rss_mb  resident memory of the process, 1e6 B; NULL unknown
-- empty: memory was not recorded in these steps
SELECT step, rank, nullif(allocated, -1) / 1e6 AS allocated_mb,
    nullif(reserved, -1) / 1e6 AS reserved_mb, nullif(peak, -1) / 1e6 AS peak_mb,
    nullif(retries, -1) AS retries, nullif(rss, -1) / 1e6 AS rss_mb
FROM rows_of($memory)
WHERE attempt = $attempt AND step BETWEEN $step_min AND $step_max AND ($rank IS NULL OR rank = $rank)
ORDER BY step, rank, ts_ns
