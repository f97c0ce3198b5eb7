-- Saves of checkpoints, by step, and what they cost. A save between two steps is of the step that has
-- ended; the time that it takes is part of the next step's.
-- reads: checkpoints
-- param: step_min int = 0 first step wanted, by longer_step where there is one
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = null which attempt; default: the newest attempt of each step
-- column: step  optimizer step that ran or had ended, as in checkpoint_calls
-- column: longer_step  step whose time the save is part of; NULL: none has begun after it
-- column: checkpoint_ms  saving not hidden by compute, of the slowest rank, ms
-- column: num_ranks  ranks that saved
-- empty: no checkpoint was recorded in these steps
WITH calls AS (
    SELECT c.attempt, c.rank, c.step, c.ts_ns, c.dur_ns
    FROM rows_of($checkpoints) c JOIN newest_steps n USING (step)
    WHERE c.action = 'save' AND c.attempt = coalesce($attempt, n.attempt)
        AND c.step BETWEEN $step_min - 1 AND $step_max
),
placed AS (
    SELECT c.attempt, c.rank, c.step, c.dur_ns,
        CASE WHEN c.ts_ns < own.end_ns THEN own.step WHEN c.ts_ns < after.end_ns THEN after.step END
            AS longer_step
    FROM calls c
        LEFT JOIN step_rollup own ON own.attempt = c.attempt AND own.rank = c.rank AND own.step = c.step
        LEFT JOIN step_rollup after
            ON after.attempt = c.attempt AND after.rank = c.rank AND after.step = c.step + 1
),
saved_before AS (
    SELECT attempt, rank, longer_step, min(step) AS step
    FROM placed WHERE longer_step IS NOT NULL GROUP BY attempt, rank, longer_step
),
costs AS (
    SELECT coalesce(s.step, k.step) AS step, k.step AS longer_step, k.rank, exposed_ns AS cost_ns
    FROM chosen_kinds($attempt) k LEFT JOIN saved_before s
        ON s.attempt = k.attempt AND s.rank = k.rank AND s.longer_step = k.step
    WHERE k.kind = 'checkpoint' AND k.time_ns > 0
    UNION ALL
    SELECT step, NULL, rank, sum(dur_ns) FROM placed WHERE longer_step IS NULL GROUP BY step, rank
)
SELECT step, longer_step, max(cost_ns) / 1e6 AS checkpoint_ms, count(DISTINCT rank) AS num_ranks
FROM costs WHERE coalesce(longer_step, step) BETWEEN $step_min AND $step_max
GROUP BY step, longer_step ORDER BY step, longer_step
