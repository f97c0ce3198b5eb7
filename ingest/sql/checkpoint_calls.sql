-- Saves and reads of checkpoints: how long they took, on which rank longest, and how many bytes.
-- reads: checkpoints
-- param: attempt int = newest
-- column: step  optimizer step that ran or had ended; -1 before the first
-- column: action  save: it blocked training; background: after async_save had returned; read
-- column: name  what was called
-- column: num_ranks  ranks that did it
-- column: longest_s  of the slowest rank, s
-- column: slowest_rank  that rank
-- column: median_s  of the ranks, s
-- column: num_bytes  of all ranks; NULL where one is unknown
-- column: mb_per_s  bytes of the slowest rank by its time, 1e6 bytes/s; NULL unknown
-- column: num_failed  ranks where it failed
-- empty: no save or read was recorded: hooks before 1.7, or other libraries' savers
WITH by_rank AS (
    SELECT step, action, name, rank, sum(dur_ns) / 1e9 AS seconds,
        CASE WHEN min(num_bytes) >= 0 THEN sum(num_bytes) END AS num_bytes,
        count(*) FILTER (state = 'failed') AS num_failed
    FROM rows_of($checkpoints) WHERE attempt = $attempt GROUP BY step, action, name, rank
)
SELECT step, action, name, count(*) AS num_ranks, max(seconds) AS longest_s,
    arg_max(rank, seconds) AS slowest_rank, median(seconds) AS median_s,
    CASE WHEN count(num_bytes) = count(*) THEN CAST(sum(num_bytes) AS BIGINT) END AS num_bytes,
    arg_max_null(num_bytes / 1e6 / nullif(seconds, 0), seconds) AS mb_per_s,
    CAST(sum(num_failed) AS BIGINT) AS num_failed
FROM by_rank GROUP BY step, action, name ORDER BY step, action, name
