-- Steps in which the device allocator of a rank freed its cached memory and allocated it again.
-- reads: memory
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = newest
-- column: rank  global rank
-- column: step  optimizer step
-- column: num_retries  by how much its count of retries rose in the step
-- empty: no allocator did, or none was counted
WITH counts AS (
    SELECT rank, step, max(retries) AS num FROM rows_of($memory)
    WHERE attempt = $attempt AND retries >= 0 AND step BETWEEN greatest($step_min, 0) - 1 AND $step_max
    GROUP BY rank, step
),
rises AS (
    SELECT rank, step, num - lag(num, 1, 0) OVER (PARTITION BY rank ORDER BY step) AS num_retries
    FROM counts
)
SELECT rank, step, num_retries FROM rises
WHERE num_retries > 0 AND step >= $step_min ORDER BY rank, step
