-- Tensors with values that are NaN or infinite, by step and rank. Logits are left out: models put
-- minus infinity where no token may be.
-- reads: tensor_stats
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = newest
-- column: step  optimizer step
-- column: rank  global rank
-- column: stage  virtual stage, else pipeline stage; 0 where neither is known
-- column: layer  layer as its stage counts it; -1 in no layer
-- column: tensor  residual, attention, mlp, gradient, weight or update
-- column: name  module whose output it is, or which the parameters belong to
-- column: nonfinite  values of this rank's part that are NaN or infinite
-- empty: every tensor that was looked at is finite, or none was (docs/hooks.md)
SELECT step, rank, coalesce(nullif(chunk, -1), r.pp, 0) AS stage, layer, tensor, name, nonfinite
FROM rows_of($tensor_stats) LEFT JOIN ranks r USING (attempt, rank)
WHERE attempt = $attempt AND step BETWEEN $step_min AND $step_max AND nonfinite > 0
    AND tensor <> 'output'
ORDER BY step, stage, layer, rank, tensor, name
LIMIT 1000
