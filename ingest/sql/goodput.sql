-- Where the run's wall time went over its attempts. Productive: steps whose result was kept, without
-- their checkpoints; from the step on at which a later attempt began, they count as rewound. One row per
-- attempt; its parts add up to its wall time but for pauses between steps of different ranks.
-- reads: startup
-- column: attempt  start of the job
-- column: started_ns  when the first of its processes started, or its hooks where that is not recorded,
--   Unix ns; NULL unknown
-- column: wall_s  from its start to the next attempt's start (the last: to its last sign of life), s;
--   NULL where the start is unknown
-- column: start_up_s  from its start to the begin of its first step, or to its last sign of life where it
--   finished none, s
-- column: productive_s  step time of steps before those of all later attempts, without checkpoints, s
-- column: rewound_s  step time of steps from which a later attempt began again, or which come after these,
--   s: their result is lost, even if that attempt has not come so far
-- column: checkpoint_s  checkpoint time inside kept steps not hidden by compute, of the slowest rank, s
-- column: evaluation_s  evaluations of the model before kept steps and after the last one, of the rank
--   that takes longest, s
-- column: stalled_s  from the end of its last finished step to its last sign of life, without evaluations,
--   s: a step that did not end, a hang, the end of the job
-- column: restart_s  from then to the next attempt's start, s; 0 of the last
-- column: goodput_ratio  productive / wall; NULL where the start is unknown
-- column: first_step  first finished step; NULL none
-- column: last_step  last finished step; NULL none
-- column: num_saves  steps in which checkpoints were saved
-- column: save_s  what a save costs, of the slowest rank, mean, s; NULL without saves
-- column: interval_s  from one save to the next, median, s; NULL with fewer than two
-- column: num_ranks  ranks of the job, as it recorded; NULL unknown
-- column: num_finished  ranks that ended in order
-- column: num_failed  ranks that ended with an error
-- column: num_stopped  ranks that a signal ended in order
-- empty: no attempt has a finished step or the file of a rank
WITH per_step AS (
    SELECT attempt, step, min(begin_ns) AS begin_ns, max(end_ns) AS end_ns,
        median(window_ns) AS window_ns, median(end_ns - begin_ns) AS whole_ns
    FROM step_rollup WHERE finished AND step >= 0 GROUP BY attempt, step
),
saves AS (
    SELECT attempt, step, max(exposed_ns) AS save_ns, max(time_ns) AS saved_ns
    FROM kind_rollup WHERE kind = 'checkpoint' GROUP BY attempt, step
),
evaluated AS (
    SELECT attempt, step, max(time_ns) AS evaluation_ns
    FROM kind_rollup WHERE kind = 'evaluation' GROUP BY attempt, step
),
apart AS (
    SELECT attempt, end_ns - lag(end_ns) OVER (PARTITION BY attempt ORDER BY step) AS apart_ns
    FROM per_step JOIN saves s USING (attempt, step) WHERE s.saved_ns > 0
),
intervals AS (SELECT attempt, median(apart_ns) AS interval_ns FROM apart GROUP BY attempt),
begins AS (
    SELECT attempt, min(min(step)) OVER (
        ORDER BY attempt ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS again_step
    FROM step_rollup WHERE step >= 0 GROUP BY attempt
),
-- a rank that evaluates alone is waited for in the step after
steps AS (
    SELECT p.attempt, p.step, begin_ns, end_ns, again_step IS NULL OR p.step < again_step AS is_kept,
        save_ns, saved_ns, coalesce(evaluation_ns, 0) AS evaluation_ns,
        least(window_ns, greatest(whole_ns - coalesce(evaluation_ns, 0), 0)) AS step_ns
    FROM per_step p JOIN begins USING (attempt)
        LEFT JOIN saves s ON s.attempt = p.attempt AND s.step = p.step
        LEFT JOIN evaluated e ON e.attempt = p.attempt AND e.step = p.step
),
sums AS (
    SELECT p.attempt, min(p.begin_ns) AS first_ns, max(p.end_ns) AS last_ns,
        min(p.step) AS first_step, max(p.step) AS last_step,
        sum(step_ns - coalesce(save_ns, 0)) FILTER (is_kept) AS productive_ns,
        sum(step_ns + evaluation_ns) FILTER (NOT is_kept) AS rewound_ns,
        sum(save_ns) FILTER (is_kept) AS save_ns,
        sum(evaluation_ns) FILTER (is_kept) AS evaluation_ns,
        count(*) FILTER (saved_ns > 0) AS num_saves, avg(save_ns) FILTER (saved_ns > 0) AS each_ns
    FROM steps p GROUP BY p.attempt
),
starts AS (
    SELECT attempt, min(started_ns) AS hooks_ns, max(ended_ns) AS ended_ns,
        max(world_size) AS num_ranks, count(*) FILTER (status = 'finished') AS num_finished,
        count(*) FILTER (status = 'failed') AS num_failed,
        count(*) FILTER (status = 'stopped') AS num_stopped
    FROM ranks GROUP BY attempt
),
processes AS (
    SELECT attempt, min(ts_ns) AS process_ns, max(ts_ns + dur_ns) AS starting_ns
    FROM rows_of($startup) GROUP BY attempt
),
beats AS (
    SELECT attempt, max(ts_max) AS beat_ns FROM files WHERE table_name = 'heartbeats' GROUP BY attempt
),
-- after the last step of all ranks
later AS (
    SELECT attempt, max(evaluation_ns) AS later_ns, max(end_ns) AS evaluated_ns FROM (
        SELECT attempt, rank, sum(e.end_ns - greatest(e.begin_ns, last_ns)) AS evaluation_ns,
            max(e.end_ns) AS end_ns
        FROM evaluations e JOIN sums USING (attempt) WHERE e.end_ns > last_ns GROUP BY attempt, rank
    ) GROUP BY attempt
),
known AS (
    SELECT *, coalesce(least(process_ns, hooks_ns), hooks_ns, process_ns) AS known_ns
    FROM starts FULL JOIN sums USING (attempt) LEFT JOIN processes USING (attempt)
        LEFT JOIN beats USING (attempt) LEFT JOIN intervals USING (attempt)
        LEFT JOIN later USING (attempt)
),
-- clocks of hosts differ: the first step may seem to begin before the job
begun AS (
    SELECT *, CASE WHEN first_ns < known_ns THEN first_ns ELSE known_ns END AS started_ns FROM known
),
walls AS (
    SELECT *, lead(started_ns) OVER (ORDER BY attempt) AS next_ns,
        greatest(ended_ns, last_ns, evaluated_ns, beat_ns, starting_ns, started_ns) AS sign_ns,
        least(sign_ns, coalesce(next_ns, sign_ns)) AS alive_ns, coalesce(next_ns, sign_ns) AS until_ns
    FROM begun
)
SELECT attempt, started_ns, (until_ns - started_ns) / 1e9 AS wall_s,
    (coalesce(first_ns, alive_ns) - started_ns) / 1e9 AS start_up_s,
    coalesce(productive_ns, 0) / 1e9 AS productive_s, coalesce(rewound_ns, 0) / 1e9 AS rewound_s,
    coalesce(save_ns, 0) / 1e9 AS checkpoint_s,
    (coalesce(evaluation_ns, 0) + coalesce(later_ns, 0)) / 1e9 AS evaluation_s,
    greatest(alive_ns - coalesce(last_ns, alive_ns) - coalesce(later_ns, 0), 0) / 1e9 AS stalled_s,
    greatest(until_ns - greatest(alive_ns, coalesce(last_ns, alive_ns)), 0) / 1e9 AS restart_s,
    coalesce(productive_ns, 0) / nullif(until_ns - started_ns, 0) AS goodput_ratio,
    first_step, last_step, coalesce(num_saves, 0) AS num_saves, each_ns / 1e9 AS save_s,
    interval_ns / 1e9 AS interval_s, num_ranks, coalesce(num_finished, 0) AS num_finished,
    coalesce(num_failed, 0) AS num_failed, coalesce(num_stopped, 0) AS num_stopped
FROM walls ORDER BY attempt
