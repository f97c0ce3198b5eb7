-- Tokens per second and model FLOPs utilisation of each step, where the job logged tokens and FLOPs.
-- param: peak_tflops float = null peak of one device, 1e12 FLOP/s; without it MFU is not shown
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = null newest attempt of each step
-- column: step  optimizer step
-- column: step_ms  median over the ranks of the slowest pipeline group, ms
-- column: tokens_per_s  tokens over all replicas / step time, 1/s; NULL where not logged
-- column: tflops_per_s  model FLOPs of the whole step / step time, 1e12/s; NULL where not logged
-- column: mfu_ratio  model FLOPs / (step time x ranks x peak); NULL without FLOPs or peak
-- empty: no step in this range is finished
WITH placed AS (
    SELECT s.step, s.attempt, s.rank, s.window_ns, coalesce(r.dp, 0) AS dp, coalesce(r.tp, 0) AS tp,
        coalesce(r.cp, 0) AS cp, r.world_size, w.tokens, w.flops,
        CASE WHEN r.dp IS NULL AND r.pp IS NULL AND r.tp IS NULL THEN s.rank ELSE dp END AS replica
    FROM chosen_steps($attempt) s LEFT JOIN ranks r USING (attempt, rank)
        LEFT JOIN step_rows w USING (attempt, rank, step)
    WHERE s.step BETWEEN $step_min AND $step_max AND s.step >= 0 AND s.finished
),
pipelines AS (SELECT step, median(window_ns) AS window_ns FROM placed GROUP BY step, dp, tp, cp),
job AS (SELECT step, max(window_ns) AS step_ns FROM pipelines GROUP BY step),
replicas AS (SELECT step, replica, max(tokens) AS tokens FROM placed GROUP BY step, replica),
tokens AS (SELECT step, sum(tokens) AS tokens FROM replicas GROUP BY step),
flops AS (
    SELECT step, max(flops) AS flops, coalesce(max(world_size), count(*)) AS world
    FROM placed GROUP BY step
)
SELECT step, step_ns / 1e6 AS step_ms, tokens / (step_ns / 1e9) AS tokens_per_s,
    flops / (step_ns / 1e9) / 1e12 AS tflops_per_s,
    flops / ((step_ns / 1e9) * world * $peak_tflops * 1e12) AS mfu_ratio
FROM job JOIN tokens USING (step) JOIN flops USING (step) ORDER BY step
