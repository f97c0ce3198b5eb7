-- Magnitudes of the values of one layer's tensor, step by step: shares by powers of two, of the whole
-- tensor as tensor_health puts it together.
-- reads: tensor_stats
-- param: tensor text required residual, attention, mlp, output, gradient, weight or update
-- param: layer int required layer of the whole model, from 0; -1 what is in no layer
-- param: module text = null name of the module, where a layer has several
-- param: step_min int = -1 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = newest
-- column: step  optimizer step
-- column: exponent  values with 2^exponent <= absolute value < 2^(exponent + 1); -40 and 23 have open
--   ends
-- column: share  of all values of the tensor, 0 to 1; zeros and what is not finite make up the rest
-- empty: this tensor has no statistics in these steps, or none but zeros
WITH parts AS (
    SELECT step, count, any_value(sampled) AS sampled, log2_counts
    FROM rows_by_layer($tensor_stats, $attempt, $step_min, $step_max)
    WHERE tensor = $tensor AND ($module IS NULL OR name = $module) AND layer = $layer
    GROUP BY step, name, shard, count, absmax, zero_ratio, nonfinite, log2_counts
),
bins AS (
    SELECT step, unnest(range(-40, 24)) AS exponent,
        unnest(log2_counts) * (count / sampled::DOUBLE) AS num_values
    FROM parts
),
whole AS (SELECT step, sum(count) AS count FROM parts GROUP BY step)
SELECT step, exponent::INTEGER AS exponent, sum(num_values) / any_value(count) AS share
FROM bins JOIN whole USING (step)
GROUP BY step, exponent HAVING sum(num_values) > 0
ORDER BY step, exponent
