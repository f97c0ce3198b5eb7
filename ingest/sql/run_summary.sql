-- What a run holds, one row per attempt.
-- column: attempt  start of the job, from 0
-- column: world_size  ranks of the job, as it recorded; NULL where no rank file has it
-- column: num_ranks  ranks that left data
-- column: num_hosts  hosts that are known by name
-- column: first_step  first step with data (-1 is what came before the first)
-- column: last_step  last step with data, other than a batch alone
-- column: num_steps  steps that at least one rank finished
-- column: num_spans  spans of all ranks
-- column: num_files  data files in the manifest
-- column: num_bytes  their size, bytes
-- column: started_ns  when the first rank started, Unix ns on its clock
-- column: ended_ns  when the last rank ended, Unix ns on its clock; NULL while one runs
-- empty: the run has no data file yet
WITH per_file AS (
    SELECT attempt, count(*) AS num_files, sum(num_bytes) AS num_bytes,
        min(step_min) FILTER (table_name IN ('spans', 'steps', 'collectives')) AS first_step,
        max(step_max) FILTER (table_name IN ('spans', 'steps', 'collectives')) AS step_max,
        sum(num_rows) FILTER (table_name = 'spans') AS num_spans
    FROM files WHERE problem IS NULL GROUP BY attempt
),
per_rank AS (
    SELECT attempt, max(world_size) AS world_size,
        count(DISTINCT host) FILTER (host <> '') AS num_hosts, min(started_ns) AS started_ns,
        CASE WHEN bool_and(ended_ns IS NOT NULL) THEN max(ended_ns) END AS ended_ns
    FROM ranks GROUP BY attempt
),
per_step AS (
    SELECT attempt, count(DISTINCT rank) AS num_ranks,
        count(DISTINCT step) FILTER (finished) AS num_steps
    FROM step_rollup GROUP BY attempt
),
newest AS (
    SELECT attempt, max(step) AS step FROM (
        SELECT attempt, step FROM step_rollup UNION ALL SELECT attempt, step FROM collective_rollup
    ) GROUP BY attempt
)
SELECT attempt, world_size, coalesce(num_ranks, 0) AS num_ranks,
    coalesce(num_hosts, 0) AS num_hosts, first_step, coalesce(newest.step, step_max) AS last_step,
    coalesce(num_steps, 0) AS num_steps,
    CAST(coalesce(num_spans, 0) AS BIGINT) AS num_spans, num_files,
    CAST(num_bytes AS BIGINT) AS num_bytes, started_ns, ended_ns
FROM per_file LEFT JOIN per_rank USING (attempt) LEFT JOIN per_step USING (attempt)
    LEFT JOIN newest USING (attempt)
ORDER BY attempt
