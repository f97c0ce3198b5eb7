-- Statistics of whole tensors from those of their parts: outputs of the layers, gradients, weights
-- and updates by layer. Means are weighted by the number of values, extremes are those of all parts.
-- Rows of one shard with equal numbers are copies (replicas) and count once. A pipeline stage that
-- counts its layers from 0 again has them numbered on from the stages before it.
-- reads: tensor_stats
-- param: step_min int = -1 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: tensor text = null residual, attention, mlp, output, gradient, weight or update only
-- param: layer int = null one layer only, numbered over all stages; -1 what is in no layer
-- param: attempt int = newest
-- column: step  optimizer step
-- column: layer  layer of the whole model, from 0; -1 in no layer
-- column: tensor  residual, attention, mlp, output, gradient, weight or update
-- column: name  module whose output it is, or which the parameters belong to
-- column: count  values of the whole tensor; of outputs those of all replicas' batches
-- column: sampled  values looked at
-- column: mean  of the finite values; NULL without any
-- column: std  of the finite values; NULL without any
-- column: rms  of the finite values; NULL without any
-- column: absmax  largest finite magnitude; NULL without any
-- column: zero_ratio  share of values that are 0, 0 to 1
-- column: nonfinite  values that are NaN or infinite
-- column: update_ratio  rms of the update / rms of its weights before; NULL for other tensors
-- column: num_parts  shards put together, and batches of replicas
-- column: rank  lowest rank that has a part of it
-- column: bad_rank  lowest rank with a value that is not finite; NULL none
-- empty: no tensor statistics were recorded in these steps (docs/hooks.md)
WITH parts AS (
    SELECT step, layer, tensor, name, count, any_value(sampled) AS sampled,
        any_value(mean) AS mean, any_value(rms) AS rms, absmax, zero_ratio,
        nonfinite, min(rank) AS rank, count - nonfinite AS num_finite
    FROM rows_by_layer($tensor_stats, $attempt, $step_min, $step_max)
    WHERE $layer IS NULL OR layer = $layer
    GROUP BY step, layer, tensor, name, shard, count, absmax, zero_ratio, nonfinite, log2_counts
),
whole AS (
    SELECT step, layer, tensor, name, sum(count)::BIGINT AS count, sum(sampled)::BIGINT AS sampled,
        sum(num_finite * mean) / nullif(sum(num_finite) FILTER (mean IS NOT NULL), 0) AS mean,
        sqrt(sum(num_finite * rms ** 2)
            / nullif(sum(num_finite) FILTER (rms IS NOT NULL), 0)) AS rms,
        max(absmax) AS absmax, sum(count * zero_ratio) / sum(count) AS zero_ratio,
        sum(nonfinite)::BIGINT AS nonfinite,
        count(*) AS num_parts, min(rank) AS rank, min(rank) FILTER (nonfinite > 0) AS bad_rank
    FROM parts GROUP BY step, layer, tensor, name
),
weighed AS (
    SELECT *, max(rms) FILTER (tensor = 'weight') OVER (PARTITION BY step, layer, name)
        AS weight_rms
    FROM whole
)
SELECT step, layer, tensor, name, count, sampled, mean,
    sqrt(greatest(rms ** 2 - mean ** 2, 0)) AS std, rms, absmax, zero_ratio, nonfinite,
    CASE WHEN tensor = 'update' THEN rms / nullif(weight_rms, 0) END AS update_ratio,
    num_parts, rank, bad_rank
FROM weighed WHERE $tensor IS NULL OR tensor = $tensor
ORDER BY step, layer, tensor, name
