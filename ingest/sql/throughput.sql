-- Tokens per second and model FLOPs utilisation of each step. FLOPs: what the job logged, else 6 N
-- tokens + 12 L h s tokens, where the model in run.json is a dense decoder of N `parameters`,
-- L `layers`, h `hidden` and s `seq` (PaLM, arXiv:2204.02311, appendix B).
-- param: peak_tflops float = null peak of one device, 1e12 FLOP/s; default: from the data sheet of
--   the ranks' devices, dense bf16, where all of them are known
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = null which attempt; default: the newest attempt of each step
-- column: step  optimizer step
-- column: step_ms  median over the ranks of the slowest pipeline group, ms; NULL not recorded
-- column: tokens_per_s  tokens over all replicas / step time, 1/s; NULL where not logged
-- column: tflops_per_s  model FLOPs of the whole step / step time, 1e12/s; NULL unknown
-- column: mfu_ratio  model FLOPs / (step time x ranks x peak); NULL without FLOPs or peak
-- column: flops_from  logged or model: where the FLOPs come from; NULL unknown
-- column: peak_tflops  the peak taken, mean over the devices, 1e12 FLOP/s; NULL unknown
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
logged AS (
    SELECT step, attempt, max(flops) AS flops, coalesce(max(world_size), count(*)) AS world
    FROM placed GROUP BY step, attempt
),
peaks AS (
    SELECT attempt, CASE WHEN count(*) = count(tflops) THEN avg(tflops) END AS tflops
    FROM (SELECT attempt, peak_tflops_of(device) AS tflops FROM ranks) GROUP BY attempt
),
known AS (
    SELECT step, nullif(step_ns, 0) / 1e9 AS step_s, tokens, world, coalesce($peak_tflops, p.tflops) AS peak,
        tokens * (6.0 * $model_parameters + 12.0 * $model_layers * $model_hidden * $model_seq)
            AS by_model,
        coalesce(l.flops, by_model) AS flops,
        CASE WHEN l.flops IS NOT NULL THEN 'logged' WHEN by_model IS NOT NULL THEN 'model' END
            AS flops_from
    FROM job JOIN tokens USING (step) JOIN logged l USING (step) LEFT JOIN peaks p USING (attempt)
)
SELECT step, step_s * 1e3 AS step_ms, tokens / step_s AS tokens_per_s,
    flops / step_s / 1e12 AS tflops_per_s,
    flops / (step_s * world * nullif(peak, 0) * 1e12) AS mfu_ratio, flops_from, peak AS peak_tflops
FROM known ORDER BY step
