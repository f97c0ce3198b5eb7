-- One run in the list of runs: size, progress, when data last arrived and how it ended. One row.
-- column: num_attempts  starts of the job that left data or rank files
-- column: attempt  the newest of them; what follows up to num_hosts is of this attempt
-- column: world_size  ranks of the job, as it recorded; NULL where no rank file has it
-- column: num_ranks  ranks that left data or a rank file
-- column: num_hosts  hosts known by name
-- column: first_step  first optimizer step of any attempt with data; NULL none yet
-- column: last_step  last one; NULL none yet
-- column: num_steps  different steps at least one rank finished
-- column: num_finished  steps that ranks have finished, each rank's counted
-- column: step_ms  median step time (as in `steps`) of the newest finished steps, at most five, ms
-- column: num_bytes  size of the data files, bytes
-- column: num_problems  files that were set aside, and what else could not be read
-- column: arrived_ns  when data last arrived, Unix ns on the indexer's clock; NULL unknown
-- column: ended_ns  when the last rank of the newest attempt ended, Unix ns; NULL while one has not
-- column: num_open  ranks of the newest attempt without an end record
-- column: oldest_seen_ns  of these: last report of the rank silent for longest, Unix ns, and the time after
--   which its collector publishes again; NULL none reported
-- column: newest_seen_ns  of these: the newest report, in the same way
-- column: num_failed  ranks that ended with an error
-- column: num_stopped  ranks that were stopped by a signal
-- column: failed_rank  first rank that failed; NULL none
-- column: error  what ended it
-- empty: the run has neither a data file nor a rank file yet
WITH starts AS (SELECT attempt FROM files UNION SELECT attempt FROM ranks),
newest AS (SELECT max(attempt) AS attempt FROM starts),
own AS (
    SELECT r.*, coalesce(arrived_ns, started_ns) + publish_every_ns AS seen_ns
    FROM ranks r LEFT JOIN arrivals USING (attempt, rank)
    WHERE attempt = (SELECT attempt FROM newest)
),
reporting AS (
    SELECT rank FROM own UNION
    SELECT rank FROM step_rollup WHERE attempt = (SELECT attempt FROM newest)
),
of_ranks AS (
    SELECT nullif(greatest(max(world_size), 0), 0) AS world_size,
        count(DISTINCT host) FILTER (host <> '') AS num_hosts,
        if(bool_and(ended_ns IS NOT NULL), max(ended_ns), NULL) AS ended_ns,
        count(*) FILTER (ended_ns IS NULL) AS num_open,
        min(seen_ns) FILTER (ended_ns IS NULL) AS oldest_seen_ns,
        max(seen_ns) FILTER (ended_ns IS NULL) AS newest_seen_ns,
        count(*) FILTER (status = 'failed') AS num_failed,
        count(*) FILTER (status = 'stopped') AS num_stopped,
        min(rank) FILTER (status = 'failed') AS failed_rank,
        arg_min(error, rank) FILTER (status = 'failed') AS error
    FROM own
),
of_steps AS (
    SELECT min(step) AS first_step, max(step) AS last_step,
        count(DISTINCT step) FILTER (finished) AS num_steps,
        count(*) FILTER (finished) AS num_finished
    FROM step_rollup WHERE step >= 0
),
newest_finished AS (
    SELECT DISTINCT attempt, step FROM step_rollup WHERE finished AND step >= 0
    ORDER BY attempt DESC, step DESC LIMIT 5
),
pipelines AS (
    SELECT attempt, step, median(window_ns) AS window_ns
    FROM step_rollup JOIN newest_finished USING (attempt, step) LEFT JOIN ranks r USING (attempt, rank)
    WHERE finished GROUP BY attempt, step, coalesce(r.dp, 0), coalesce(r.tp, 0), coalesce(r.cp, 0)
),
step_time AS (
    SELECT median(step_ns) / 1e6 AS step_ms
    FROM (SELECT max(window_ns) AS step_ns FROM pipelines GROUP BY attempt, step)
),
of_files AS (
    SELECT coalesce(sum(num_bytes), 0) AS num_bytes,
        count(*) FILTER (problem IS NOT NULL) + (SELECT count(*) FROM problems) AS num_problems
    FROM files
)
SELECT (SELECT count(*) FROM starts) AS num_attempts, attempt, world_size,
    (SELECT count(*) FROM reporting) AS num_ranks, num_hosts, first_step, last_step,
    num_steps, num_finished, step_ms, CAST(num_bytes AS BIGINT) AS num_bytes, num_problems,
    (SELECT max(arrived_ns) FROM arrivals) AS arrived_ns, ended_ns, num_open, oldest_seen_ns,
    newest_seen_ns, num_failed, num_stopped, failed_rank, error
FROM newest, of_ranks, of_steps LEFT JOIN step_time ON true, of_files WHERE attempt IS NOT NULL
