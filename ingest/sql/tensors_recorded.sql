-- Which tensors of the model have statistics: what the page Model offers.
-- reads: tensor_stats
-- param: attempt int = newest
-- column: tensor  residual, attention, mlp, output, gradient, weight or update
-- column: first_step  first step with statistics of it
-- column: last_step  last step with statistics of it
-- column: num_steps  steps with statistics of it
-- empty: no tensor statistics were recorded in this attempt (docs/hooks.md)
SELECT tensor, min(step) AS first_step, max(step) AS last_step,
    count(DISTINCT step) AS num_steps
FROM rows_of($tensor_stats) WHERE attempt = $attempt
GROUP BY tensor ORDER BY tensor
