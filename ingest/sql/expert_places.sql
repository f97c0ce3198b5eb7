-- Which ranks hold which experts: one row per layer and slice of its experts that lies on one EP rank.
-- reads: expert_load
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = newest
-- column: layer  layer of the whole model, from 0
-- column: ep  number of the slice, from 0
-- column: first_expert  first expert of the slice
-- column: local_experts  experts of the slice
-- column: ranks  ranks that hold them, the first 64
-- column: num_ranks  ranks that hold them, one in each EP group
-- empty: no router was recorded in these steps, or it is not known where experts lie
WITH placed AS (
    SELECT DISTINCT layer, first_expert, local_experts, rank
    FROM rows_by_layer($expert_load, $attempt, $step_min, $step_max)
    WHERE layer >= 0 AND first_expert >= 0 AND local_experts > 0
)
SELECT layer, row_number() OVER (PARTITION BY layer ORDER BY first_expert, local_experts) - 1 AS ep,
    first_expert, local_experts, list(rank ORDER BY rank)[:64] AS ranks, count(*) AS num_ranks
FROM placed GROUP BY layer, first_expert, local_experts ORDER BY layer, first_expert, local_experts
