-- The job's steps: how long each took, and what the job logged. A step's time is the median over the
-- ranks of its slowest pipeline group (ranks with the same coordinates except pp).
-- param: step_min int = -1 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = null which attempt; default: the newest attempt of each step
-- column: step  optimizer step
-- column: attempt  start of the job
-- column: step_ms  step time of the job, ms; NULL until a rank has finished it, or not recorded
-- column: num_ranks  ranks with data of this step
-- column: num_finished  ranks that finished it
-- column: loss  mean of what ranks logged
-- column: grad_norm  mean of what ranks logged
-- column: lr  greatest learning rate logged
-- column: tokens  tokens of the step, each data-parallel replica once
-- column: tokens_per_s  tokens / step time, 1/s
-- column: flops  model FLOPs of the whole step, as logged
-- empty: no step in this range has data
WITH placed AS (
    SELECT s.step, s.attempt, s.rank, s.finished, s.window_ns, r.pp, coalesce(r.dp, 0) AS dp,
        coalesce(r.tp, 0) AS tp, coalesce(r.cp, 0) AS cp,
        CASE WHEN r.dp IS NULL AND r.pp IS NULL AND r.tp IS NULL THEN s.rank ELSE dp END AS replica
    FROM chosen_steps($attempt) s LEFT JOIN ranks r USING (attempt, rank)
    WHERE s.step BETWEEN $step_min AND $step_max AND s.step >= 0
),
pipelines AS (
    SELECT step, attempt, median(window_ns) FILTER (finished) AS window_ns
    FROM placed GROUP BY step, attempt, dp, tp, cp
),
job AS (SELECT step, attempt, max(window_ns) AS step_ns FROM pipelines GROUP BY step, attempt),
replicas AS (
    SELECT p.step, p.attempt, replica, max(w.tokens) AS tokens
    FROM placed p JOIN step_rows w USING (attempt, rank, step) GROUP BY p.step, p.attempt, replica
),
tokens AS (SELECT step, attempt, sum(tokens) AS tokens FROM replicas GROUP BY step, attempt),
logged AS (
    SELECT step, attempt, count(*) AS num_ranks, count(*) FILTER (finished) AS num_finished,
        avg(w.loss) AS loss, avg(w.grad_norm) AS grad_norm, max(w.lr) AS lr, max(w.flops) AS flops
    FROM placed LEFT JOIN step_rows w USING (attempt, rank, step) GROUP BY step, attempt
)
SELECT step, attempt, nullif(step_ns, 0) / 1e6 AS step_ms, num_ranks, num_finished, loss, grad_norm, lr,
    tokens, tokens / (nullif(step_ns, 0) / 1e9) AS tokens_per_s, flops
FROM logged JOIN job USING (step, attempt) LEFT JOIN tokens USING (step, attempt)
ORDER BY step, attempt
