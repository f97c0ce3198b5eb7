-- One metric for every rank and finished step, in no order: what grids and heat maps are made of.
-- param: metric text required one of step_time, compute, cpu, exposed_comm, exposed_tp, exposed_pp,
--   exposed_dp, exposed_ep, data_wait, bubble, not_visible, wait, wait_caused, or work: compute as
--   slowdowns compare it, CPU time where the job ran on CPU and recorded it. Waits: within one
--   pipeline stage, because later stages wait by the schedule, too
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = null which attempt; default: the newest attempt of each step
-- column: rank  global rank
-- column: step  optimizer step
-- column: value_ms  the metric, ms
-- empty: no step in this range is finished, the metric was not recorded, or it has another name
WITH wanted AS (
    SELECT * FROM chosen_steps($attempt)
    WHERE step BETWEEN $step_min AND $step_max AND step >= 0 AND finished
),
kinds AS (
    SELECT attempt, rank, step, exposed_ns AS value_ns FROM chosen_kinds($attempt)
    WHERE kind = CASE $metric WHEN 'exposed_tp' THEN 'tp_comm' WHEN 'exposed_pp' THEN 'pp_comm'
                              WHEN 'exposed_dp' THEN 'dp_comm' WHEN 'exposed_ep' THEN 'ep_comm' END
        AND step BETWEEN $step_min AND $step_max
),
waits AS (
    SELECT attempt, rank, step,
        CASE $metric WHEN 'wait' THEN sum(wait_ns) ELSE sum(wait_caused_ns) END AS value_ns
    FROM collectives_of($attempt, NULL)
    WHERE $metric IN ('wait', 'wait_caused') AND step BETWEEN $step_min AND $step_max
    GROUP BY attempt, rank, step
),
valued AS (
    SELECT w.attempt, w.rank, w.step, CASE $metric
        WHEN 'step_time' THEN window_ns WHEN 'compute' THEN compute_ns
        WHEN 'cpu' THEN compute_cpu_ns WHEN 'exposed_comm' THEN exposed_comm_ns
        WHEN 'data_wait' THEN data_wait_ns WHEN 'bubble' THEN bubble_ns
        WHEN 'not_visible' THEN window_ns - covered_ns
        WHEN 'work' THEN CASE WHEN compute_ns > 0 THEN
            if(starts_with(coalesce(r.device, ''), 'cpu') AND coalesce(compute_cpu_ns, 0) > 0,
               compute_cpu_ns, compute_ns) END
        END AS value_ns
    FROM wanted w LEFT JOIN ranks r USING (attempt, rank)
    WHERE $metric NOT IN ('exposed_tp', 'exposed_pp', 'exposed_dp', 'exposed_ep', 'wait', 'wait_caused')
    UNION ALL SELECT k.* FROM kinds k SEMI JOIN wanted USING (attempt, rank, step)
    UNION ALL SELECT w.* FROM waits w SEMI JOIN wanted USING (attempt, rank, step)
)
SELECT rank, step, CAST(value_ns / 1e6 AS FLOAT) AS value_ms FROM valued WHERE value_ns IS NOT NULL
