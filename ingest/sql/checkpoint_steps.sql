-- The steps in which a checkpoint was saved, and what it cost.
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = null which attempt; default: the newest attempt of each step
-- column: step  optimizer step
-- column: checkpoint_ms  saving not hidden by compute, of the slowest rank, ms
-- column: num_ranks  ranks that saved
-- empty: no checkpoint was recorded in these steps
SELECT step, max(exposed_ns) / 1e6 AS checkpoint_ms, count(DISTINCT rank) AS num_ranks
FROM chosen_kinds($attempt)
WHERE kind = 'checkpoint' AND time_ns > 0 AND step BETWEEN $step_min AND $step_max
GROUP BY step ORDER BY step
